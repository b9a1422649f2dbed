"""Indexes that changed while no broker had the log: what they lead to is right, or it is an error of that one log."""

from __future__ import annotations

from collections import Counter
from random import Random
from struct import Struct

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, marker, topic_config
from support.planted import flipped, put

from penstock.errors import PenstockError
from penstock.log import damaged_index, lookup, segments
from penstock.log.damaged_index import DamagedIndexError
from penstock.log.loading import RecoveryNeeded
from penstock.log.names import ABORTED_INDEX, LOG, OFFSET_INDEX, TIME_INDEX, file_name, offset_of
from penstock.log.producer_state import Origin
from penstock.records.batch import headers

ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")
STEP_MS = 10
"""Between two batches."""


def stopped_cleanly(*, equal_sizes: bool = False) -> OneLog:
    """Three segments and an active one. Batches have one to three records, each batch a time of its own; with equal
    sizes, they begin at the same positions in each segment.
    """
    segment_bytes = 4_000 if equal_sizes else 12_000
    one, random = OneLog(topic_config(segment_bytes=segment_bytes, index_interval_bytes=300)), Random(18)
    for number in range(150):
        count = random.randint(1, 3)
        values = [b"v" * (60 // count - 7 if equal_sizes else random.randrange(20, 200))] * count
        one.append(batch(*values, timestamp_ms=NOW_MS + number * STEP_MS))
    assert len(one.log.segments.bases) >= 4
    one.close()
    return one


def path_of(one: OneLog, suffix: str, number: int) -> str:
    return f"{NAME}/{file_name(one.log.segments.bases[number], suffix)}"


def exchange(one: OneLog, suffix: str, first: int = 0, second: int = 1) -> None:
    paths = path_of(one, suffix, first), path_of(one, suffix, second)
    contents = [one.disk.content(path) for path in paths]
    assert contents[0] != contents[1]
    for path, content in zip(paths, reversed(contents), strict=True):
        put(one.disk, path, content)


def batches_of(one: OneLog) -> list[tuple[int, int, int]]:
    """(base offset, last offset, time) of every batch, by a walk through the files."""
    found = []
    for info in one.disk.list(NAME):
        if offset_of(info.name, LOG) is not None:
            for _, header in headers(one.disk.content(f"{NAME}/{info.name}")):
                found.append((header.base_offset, header.last_offset, header.max_timestamp_ms))
    return found


def read_each_offset(one: OneLog, max_bytes: int = 1) -> Counter[str]:
    """Opens the log and reads from each offset; how many reads were right, and how many an error. None is wrong."""
    expected = batches_of(one)
    log = one.open(recovery_point=one.log.recovery_point)
    ended: Counter[str] = Counter()
    for offset in range(log.log_end_offset):
        log.segments.forget_positions()
        try:
            found = log.read(offset, max_bytes)
        except PenstockError:
            ended["error"] += 1
            continue
        [piece] = found.slices
        data = one.disk.read(piece.path, piece.position, piece.length)
        read = [(header.base_offset, header.last_offset, header.max_timestamp_ms) for _, header in headers(data)]
        first = next(number for number, (_, last, _) in enumerate(expected) if last >= offset)
        assert read == expected[first : first + len(read)], f"from {offset}"
        ended["right"] += 1
    return ended


def look_up_each_time(one: OneLog) -> Counter[str]:
    """Like `read_each_offset`, for look-ups by time."""
    expected = batches_of(one)
    log = one.open(recovery_point=one.log.recovery_point)
    ended: Counter[str] = Counter()
    for _, _, timestamp_ms in expected:
        for wanted_ms in (timestamp_ms - 1, timestamp_ms):
            try:
                found = log.offset_for_timestamp(wanted_ms)
            except DamagedIndexError:
                ended["error"] += 1
                continue
            base = next(base for base, _, time_ms in expected if time_ms >= wanted_ms)
            assert found is not None, wanted_ms
            assert found.offset == base, f"the first at {wanted_ms}"
            ended["right"] += 1
    return ended


def test_sound_indexes_give_no_errors() -> None:
    one = stopped_cleanly()
    assert set(read_each_offset(one)) == {"right"}
    assert set(read_each_offset(one, 9000)) == {"right"}
    assert set(look_up_each_time(one)) == {"right"}


@pytest.mark.parametrize("max_bytes", [1, 9000])
@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 2), (0, 2)])
@pytest.mark.parametrize("equal_sizes", [False, True])
def test_offset_indexes_of_two_segments_exchanged(
    first: int, second: int, max_bytes: int, *, equal_sizes: bool
) -> None:
    one = stopped_cleanly(equal_sizes=equal_sizes)
    exchange(one, OFFSET_INDEX, first, second)
    ended = read_each_offset(one, max_bytes)
    assert ended["right"]
    assert ended["error"]
    assert look_up_each_time(one)["right"]


@pytest.mark.parametrize(("first", "second"), [(0, 1), (1, 2), (0, 2)])
def test_time_indexes_of_two_segments_exchanged(first: int, second: int) -> None:
    one = stopped_cleanly()
    exchange(one, TIME_INDEX, first, second)
    assert set(read_each_offset(one)) == {"right"}
    ended = look_up_each_time(one)
    assert ended["right"]
    assert ended["error"]


@pytest.mark.parametrize("number", [0, 1])
def test_an_index_that_is_too_long(number: int) -> None:
    one = stopped_cleanly()
    path = path_of(one, OFFSET_INDEX, number)
    content = one.disk.content(path)
    one_by_one = [ENTRY.pack(0, 0), ENTRY.pack(-5, 100), ENTRY.pack(3, 7), ENTRY.pack(10, -1), ENTRY.pack(2, 1 << 30)]
    for garbage in [*one_by_one, bytes(80), Random(5).randbytes(8)]:
        put(one.disk, path, content + garbage)
        assert read_each_offset(one)["right"]
    time_path = path_of(one, TIME_INDEX, number)
    put(one.disk, path, content)
    for garbage in [TIME_ENTRY.pack(0, 0), TIME_ENTRY.pack(-1, -1), TIME_ENTRY.pack(NOW_MS, 1 << 30)]:
        put(one.disk, time_path, one.disk.content(time_path) + garbage)
        look_up_each_time(one)


def test_an_index_with_a_size_that_is_no_multiple_is_made_anew_by_a_recovery() -> None:
    one = stopped_cleanly()
    path = path_of(one, OFFSET_INDEX, 1)
    put(one.disk, path, one.disk.content(path) + b"xyz")
    with pytest.raises(RecoveryNeeded, match="no multiple of 8"):
        one.open(recovery_point=one.log.recovery_point)


@pytest.mark.parametrize("suffix", [OFFSET_INDEX, TIME_INDEX])
def test_a_bit_that_flips_in_an_index(suffix: str) -> None:
    one, random, ended = stopped_cleanly(), Random(18), Counter[str]()
    for number in range(3):
        path = path_of(one, suffix, number)
        content = one.disk.content(path)
        for _ in range(10):
            put(one.disk, path, flipped(content, random.randrange(len(content) * 8)))
            ended += read_each_offset(one) if suffix == OFFSET_INDEX else look_up_each_time(one)
        put(one.disk, path, content)
    assert ended["right"] > ended["error"] > 0


def test_the_last_entry_of_the_active_segment_with_a_flipped_bit_makes_a_recovery() -> None:
    """Appends go on after the last entry: one that says an offset beyond the end would stop them."""
    one = stopped_cleanly()
    active = len(one.log.segments.bases) - 1
    for suffix, entry_bytes in ((OFFSET_INDEX, ENTRY.size), (TIME_INDEX, TIME_ENTRY.size)):
        path = path_of(one, suffix, active)
        content = one.disk.content(path)
        offset_at = len(content) - entry_bytes + (0 if suffix == OFFSET_INDEX else 8)
        put(one.disk, path, flipped(content, offset_at * 8 + 6))
        with pytest.raises(RecoveryNeeded, match="has the offset"):
            one.open(recovery_point=one.log.recovery_point)
        put(one.disk, path, content)


def test_an_aborted_transactions_index_of_another_segment_is_an_error() -> None:
    one = OneLog(topic_config(segment_bytes=400))
    for number in range(6):
        one.append(batch(b"v" * 100, producer=(7, 0, number), transactional=True))
        one.append(marker(7, 0, commit=False), origin=Origin.COORDINATOR)
    one.close()
    bases = one.log.segments.bases
    indexed = [number for number in range(len(bases) - 1) if one.disk.exists(path_of(one, ABORTED_INDEX, number))]
    log = one.open(recovery_point=one.log.recovery_point)
    assert len(log.segments.aborted_transactions(0, log.log_end_offset)) == 6
    exchange(one, ABORTED_INDEX, indexed[0], indexed[1])
    log = one.open(recovery_point=one.log.recovery_point)
    with pytest.raises(DamagedIndexError, match="txnindex"):
        log.segments.aborted_transactions(0, log.log_end_offset)


def test_planted_offset_indexes_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = stopped_cleanly(equal_sizes=True)
    exchange(one, OFFSET_INDEX)
    monkeypatch.setattr(lookup, "check_start", lambda *_, **__: None)
    with pytest.raises(AssertionError, match="from "):
        read_each_offset(one)


def test_planted_time_indexes_are_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    one = stopped_cleanly()
    exchange(one, TIME_INDEX)
    monkeypatch.setattr(damaged_index.TimeClaim, "check", lambda *_, **__: None)
    monkeypatch.setattr(damaged_index.TimeClaim, "end", lambda _: None)
    monkeypatch.setattr(segments, "check_largest", lambda *_: None)
    with pytest.raises(AssertionError, match="the first at"):
        look_up_each_time(one)
