"""Indexes of the active segment that changed while no broker had the log, with producers that it must remember.

Appends, duplicates of producers, rolls and retention go on from there. So the log opens as it was, or its files are
said to be in need of a recovery, which makes the indexes anew.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

import pytest
from support.logs import NAME, NOW_MS, OneLog, batch, marker, topic_config
from support.planted import contents, flipped, put

from penstock.errors import PenstockError
from penstock.log import loading, producer_snapshot
from penstock.log.limits import RECALLED_INDEX_ENTRIES
from penstock.log.loading import OpenArguments, RecoveryNeeded
from penstock.log.names import ABORTED_INDEX, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, file_name
from penstock.log.producer_state import Origin
from penstock.log.recovery import recover_log
from penstock.log.results import Duplicate

ENTRY, TIME_ENTRY = Struct(">ii"), Struct(">qi")
CONFIG = topic_config(index_interval_bytes=100)
PRODUCERS = (7, 8, 9)
ROLLED_AT = 10
BATCHES = 34
EARLY = 3
"""A batch of the active segment with a time later than all others'."""


def batch_of(number: int) -> bytearray:
    """The batches of three producers, in turn; times mostly rise."""
    producer_id, sequence = PRODUCERS[number % 3], number // 3
    at_ms = NOW_MS + (number + 5 if number % 7 == 3 else number)
    return batch(b"v" * (30 + number), producer=(producer_id, 0, sequence), timestamp_ms=at_ms)


def stopped_cleanly() -> OneLog:
    """A closed segment and an active one with more index entries than opening reads."""
    one = OneLog(CONFIG)
    for number in range(BATCHES):
        if number == ROLLED_AT:
            one.log.roll(NOW_MS)
            one.run()
        one.append(batch_of(number))
    one.close()
    active = one.log.segments.all[-1]
    assert active.offset_index.entries > RECALLED_INDEX_ENTRIES + 2
    assert active.time_index.entries > 4
    return one


def state(one: OneLog) -> tuple[Any, ...]:
    active = one.log.segments.all[-1]
    return (
        one.log.log_end_offset,
        one.log.producers.producers,
        active.largest_timestamp_ms,
        active.largest_timestamp_offset,
        active.rolling_timestamp_ms,
    )


def opened(one: OneLog) -> str:
    """Opens the log as a broker does; how that went."""
    point = one.log.recovery_point
    try:
        one.open(recovery_point=point)
    except RecoveryNeeded:
        report = recover_log(one.disk, OpenArguments(NAME, CONFIG, point, 0, NOW_MS))
        assert (report.lost, report.cut_bytes) == ([], 0)
        one.open(recovery_point=point)
        return "recovered"
    return "as it was"


def path_of(one: OneLog, suffix: str, number: int = -1) -> str:
    return f"{NAME}/{file_name(one.log.segments.bases[number], suffix)}"


def known(suffix: str) -> tuple[OneLog, tuple[Any, ...], str, bytes]:
    """A log that was stopped cleanly; its state when it is open; the path of an index of its active segment, and what
    that has.
    """
    one = stopped_cleanly()
    assert opened(one) == "as it was"
    expected = state(one)
    one.close()
    path = path_of(one, suffix)
    return one, expected, path, one.disk.content(path)


def check_opened(one: OneLog, expected: tuple[Any, ...], path: str, sound: bytes) -> str:
    """The log goes on where it ended, and knows the last batches of its producers."""
    how = opened(one)
    assert state(one) == expected
    if how == "recovered":
        assert one.disk.content(path) == sound, "and the index is as it was"
    for number in range(BATCHES - 6, BATCHES):
        again = one.log.append_as_leader(batch_of(number), 0, NOW_MS)
        assert isinstance(again, Duplicate), f"batch {number} is there already"
    return how


def flips(content: bytes, entry_bytes: int) -> Iterator[bytes]:
    """The content with each bit of the last entries flipped: opening reads none before."""
    first = max(0, len(content) - (RECALLED_INDEX_ENTRIES + 2) * entry_bytes)
    for bit in range(first * 8, len(content) * 8):
        yield flipped(content, bit)


@pytest.mark.parametrize(("suffix", "entry_bytes"), [(OFFSET_INDEX, ENTRY.size), (TIME_INDEX, TIME_ENTRY.size)])
def test_any_bit_of_an_index_of_the_active_segment(suffix: str, entry_bytes: int) -> None:
    one, expected, path, sound = known(suffix)
    sound_files = contents(one.disk)
    ended: Counter[str] = Counter()
    for damaged in flips(sound, entry_bytes):
        put(one.disk, path, damaged)
        ended[check_opened(one, expected, path, sound)] += 1
        for file, content in sound_files.items():
            put(one.disk, file, content)
    assert ended["recovered"] > 20
    assert ended["as it was"] > 0


def entry_changed(
    number: int, position: Callable[[int], int], offset: Callable[[int], int] = lambda value: value
) -> Any:
    """Changes one entry of an offset index, counted from its end."""

    def change(content: bytes) -> bytes:
        at = len(content) - number * ENTRY.size
        said_offset, said_position = ENTRY.unpack_from(content, at)
        return content[:at] + ENTRY.pack(offset(said_offset), position(said_position)) + content[at + ENTRY.size :]

    return change


KINDS = {
    "a negative position": lambda position: -position,
    "within a batch": lambda position: position + 7,
    "beyond the file": lambda position: position + (1 << 20),
}


@pytest.mark.parametrize("number", [1, RECALLED_INDEX_ENTRIES])
@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_that_opening_reads_and_that_is_wrong_makes_a_recovery(kind: str, number: int) -> None:
    one, expected, path, sound = known(OFFSET_INDEX)
    put(one.disk, path, entry_changed(number, KINDS[kind])(sound))
    assert check_opened(one, expected, path, sound) == "recovered"


def test_an_entry_that_leads_to_a_later_batch_makes_a_recovery() -> None:
    """By it, the batches before would be forgotten, and one that a producer sends again would be written twice."""
    one, expected, path, sound = known(OFFSET_INDEX)
    _, last_position = ENTRY.unpack_from(sound, len(sound) - ENTRY.size)
    put(one.disk, path, entry_changed(RECALLED_INDEX_ENTRIES, lambda _: last_position)(sound))
    assert check_opened(one, expected, path, sound) == "recovered"


def test_an_entry_that_says_an_offset_before_its_batch_makes_a_recovery() -> None:
    one, expected, path, sound = known(OFFSET_INDEX)
    put(one.disk, path, entry_changed(RECALLED_INDEX_ENTRIES, lambda position: position, lambda _: 0)(sound))
    assert check_opened(one, expected, path, sound) == "recovered"


@pytest.mark.parametrize("suffix", [OFFSET_INDEX, TIME_INDEX])
@pytest.mark.parametrize("kind", ["of the closed segment", "of another log", "cut", "empty", "zeros"])
def test_an_index_of_the_active_segment_that_is_another(suffix: str, kind: str) -> None:
    one, expected, path, sound = known(suffix)
    entry_bytes = ENTRY.size if suffix == OFFSET_INDEX else TIME_ENTRY.size
    entries = len(sound) // entry_bytes
    another = OneLog(CONFIG)
    for number in range(60):
        another.append(batch(b"v" * 200, timestamp_ms=NOW_MS + 10 * number))
    another.close()
    damaged = {
        "of the closed segment": one.disk.content(path_of(one, suffix, 0)),
        "of another log": another.disk.content(f"{NAME}/{file_name(0, suffix)}")[: len(sound)],
        "cut": sound[: entries // 2 * entry_bytes],
        "empty": b"",
        "zeros": bytes(len(sound)),
    }[kind]
    assert damaged != sound
    put(one.disk, path, damaged)
    if suffix == TIME_INDEX and kind in ("cut", "empty"):  # the time of a batch before the last ones may be forgotten
        assert opened(one) == "as it was"
        assert state(one)[:2] == expected[:2]
        assert state(one)[2] >= NOW_MS + BATCHES - 1
        return
    if opened(one) == "recovered":
        assert one.disk.content(path) == sound
    else:  # the further the entries are apart, the more batches are looked for
        assert all(
            producer.batches[-2:] == expected[1][producer_id].batches[-2:]
            for producer_id, producer in one.log.producers.producers.items()
        )
    assert state(one)[2:] == expected[2:]
    assert state(one)[0] == expected[0]


def test_a_time_index_whose_last_entry_is_wrong_makes_a_recovery_also_where_that_batch_is_far_from_the_end() -> None:
    one = OneLog(CONFIG)
    for number in range(40):
        at_ms = NOW_MS + (1_000 if number == EARLY else number)
        one.append(batch(b"v" * 50, producer=(7, 0, number), timestamp_ms=at_ms))
    one.close()
    assert opened(one) == "as it was"
    active = one.log.segments.all[-1]
    assert (active.largest_timestamp_ms, active.largest_timestamp_offset) == (NOW_MS + 1_000, EARLY)
    one.close()
    path = path_of(one, TIME_INDEX)
    sound = one.disk.content(path)
    for timestamp_ms in (NOW_MS + 1_001, NOW_MS + 40, 1 << 50, -1):
        put(one.disk, path, sound[: -TIME_ENTRY.size] + TIME_ENTRY.pack(timestamp_ms, EARLY))
        assert opened(one) == "recovered", timestamp_ms
        assert one.disk.content(path) == sound
        one.close()


@pytest.mark.parametrize("number", range(1, RECALLED_INDEX_ENTRIES + 3))
def test_a_truncation_with_a_damaged_entry_is_right_or_an_error_of_the_log(number: int) -> None:
    """Nothing is read at a place that is not there, and nothing is cut in the middle of a batch."""
    for change in (*KINDS.values(), lambda position: position ^ (1 << 31)):
        one = stopped_cleanly()
        path = path_of(one, OFFSET_INDEX)
        put(one.disk, path, entry_changed(number, lambda position, change=change: as_int32(change(position)))(
            one.disk.content(path)
        ))  # fmt: skip
        opened(one)
        target = BATCHES - 2
        one.log.truncate_to(target, NOW_MS)
        try:
            one.run()
        except PenstockError:
            continue
        if one.log.failed:
            continue
        one.close()
        opened(one)
        assert one.log.log_end_offset == target


def as_int32(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def aborting() -> OneLog:
    """Two closed segments whose indexes lead to what is replayed when the snapshots are gone."""
    one = OneLog(CONFIG)
    for number in range(30):
        if number in (10, 20):
            one.log.roll(NOW_MS)
            one.run()
        one.append(batch(b"v" * 60, producer=(7, 0, number), transactional=True))
        one.append(marker(7, 0, commit=number % 2 == 0), origin=Origin.COORDINATOR)
    one.close()
    return one


@pytest.mark.parametrize("suffix", [OFFSET_INDEX, TIME_INDEX, ABORTED_INDEX])
def test_an_index_of_a_closed_segment_does_not_keep_the_log_from_opening(suffix: str) -> None:
    """The state of producers is replayed from the middle of a closed segment on, if snapshots are missing."""
    one = aborting()
    expected = one.log.producers.producers[7].batches[-1]
    for info in one.disk.list(NAME):
        if info.name.endswith(SNAPSHOT):
            one.disk.unlink(f"{NAME}/{info.name}")
    one.disk.write(f"{NAME}/{file_name(25, SNAPSHOT)}", 0, [producer_snapshot.encode({})])
    sound = one.disk.content(path_of(one, suffix, 1))
    for bit in range(0, len(sound) * 8, 3):
        put(one.disk, path_of(one, suffix, 1), flipped(sound, bit))
        log = one.open(recovery_point=one.log.recovery_point)
        assert log.producers.producers[7].batches[-1] == expected, f"bit {bit}"


def test_planted_an_entry_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "headers_at", believing)
    with pytest.raises(AssertionError):
        test_an_entry_that_leads_to_a_later_batch_makes_a_recovery()


def believing(disk: Any, segment: Any, start: Any) -> Any:
    return loading.batch_headers(disk, segment.log_path, start.position, segment.size_bytes)


def test_planted_the_latest_time_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "check_last_time", lambda *_: None)
    with pytest.raises(AssertionError):
        test_any_bit_of_an_index_of_the_active_segment(TIME_INDEX, TIME_ENTRY.size)
