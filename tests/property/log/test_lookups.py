"""What indexes and hints find is what a plain walk finds, whatever the sizes, and with few looks at the files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from itertools import accumulate, pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.logs import OneLog, batch, topic_config

from penstock.log import lookup
from penstock.log.index import OffsetIndex
from penstock.log.limits import HEADER_WINDOW_BYTES
from penstock.records.batch import read_header
from simulator.world.disk import SimulatedDisk


class CountingDisk(SimulatedDisk):
    """Counts reads."""

    reads = 0

    def read(self, path: str, position: int, length: int) -> bytes:
        self.reads += 1
        return super().read(path, position, length)


def filled(entries: list[tuple[int, int]], written: int) -> tuple[OffsetIndex, CountingDisk]:
    """An index of (offset, position), so many of them in its file."""
    disk, index = CountingDisk(), OffsetIndex("x.index", 0)
    for number, (offset, position) in enumerate(entries, 1):
        index.append(offset, position)
        if number == written:
            tail = index.take_tail()
            assert tail is not None
            disk.write(tail[0], tail[1], [tail[2]])
            index.drop_written(tail[1] + len(tail[2]))
    return index, disk


STEPS: dict[str, Callable[[Random], int]] = {
    "even": lambda _: 4096,
    "mixed": lambda random: random.choice([1, 4096, 100_000]),
    "wild": lambda random: int(random.paretovariate(0.5)) % 1_000_000 + 1,
}


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 1 << 32),
    steps=st.tuples(st.sampled_from(sorted(STEPS)), st.sampled_from(sorted(STEPS))),
    count=st.integers(0, 3000),
    in_memory=st.integers(0, 600),
    size_is_known=st.booleans(),
)
def test_a_look_up_finds_what_a_walk_finds(
    seed: int, steps: tuple[str, str], count: int, in_memory: int, size_is_known: bool
) -> None:
    random = Random(seed)
    offsets = list(accumulate(STEPS[steps[0]](random) for _ in range(count)))
    positions = list(accumulate(STEPS[steps[1]](random) for _ in range(count)))
    index, disk = filled(list(zip(offsets, positions, strict=True)), max(0, count - in_memory))
    size_bytes = positions[-1] + 4096 if size_is_known and positions else 1
    targets = [0, *(each + by for each in random.choices(offsets or [7], k=20) for by in (-1, 0, 1)), 1 << 31]
    for target in targets:
        slot = bisect_right(offsets, target)
        assert index.entry_for(disk, target)[1] == (positions[slot - 1] if slot else 0)
    for target in [0, *(each + by for each in random.choices(positions or [7], k=20) for by in (-1, 0, 1)), 1 << 31]:
        before = disk.reads
        slot = bisect_right(positions, target)
        assert index.entry_before(disk, target, size_bytes)[1] == (positions[slot - 1] if slot else 0)
        assert disk.reads - before <= 6, "3,000 entries halved are less than a block after three looks"


def test_one_look_is_enough_where_entries_come_at_even_intervals() -> None:
    entries = [(100 * number, 4200 * number) for number in range(1, 100_001)]
    for written in (len(entries), len(entries) - 300):
        index, disk = filled(entries, written)
        for position in range(5000, 4200 * written, 9_876_543):
            before = disk.reads
            assert index.entry_before(disk, position, 4200 * 100_001)[1] == position // 4200 * 4200
            assert disk.reads == before + 1
        for offset in range(150, 100 * written, 123_456):
            before = disk.reads
            assert index.entry_for(disk, offset)[1] == offset // 100 * 4200
            assert disk.reads == before + 1


# Reading a log


def log_of(random: Random, count: int) -> tuple[OneLog, list[tuple[int, int, int]]]:
    """A log of random batches, and (base offset, next offset, size) of each."""
    kilobytes = random.choice([1, 10, 100])
    one = OneLog(topic_config(segment_bytes=kilobytes * 20_000, index_interval_bytes=random.choice([0, 1000, 4096])))
    batches = []
    for _ in range(count):
        values = [bytes(random.randrange(1, kilobytes * 100)) for _ in range(random.choice([1, 1, 3, 30]))]
        records = batch(*values)
        appended = one.append(records)
        batches.append((appended.base_offset, appended.base_offset + len(values), len(records)))
    return one, batches


def walked(
    batches: list[tuple[int, int, int]],
    bases: list[int],
    offsets: tuple[int, int],
    max_bytes: int,
    at_least_one: bool,
) -> tuple[int, int, int]:
    """(first offset, bytes, next offset) of what a reader is to get, batch by batch. `bases` are those of segments."""
    offset, upper_offset = offsets
    size_bytes, first, next_offset = 0, -1, offset
    for base_offset, end_offset, batch_bytes in batches:
        if end_offset <= offset or base_offset >= upper_offset:
            continue
        if first >= 0 and (base_offset in bases or size_bytes + batch_bytes > max_bytes):
            break
        if first < 0 and batch_bytes > max_bytes and not at_least_one:
            break
        first = base_offset if first < 0 else first
        size_bytes, next_offset = size_bytes + batch_bytes, end_offset
    return first, size_bytes, next_offset


def check_reads(random: Random) -> None:
    one, batches = log_of(random, random.choice([1, 5, 60, 300]))
    if random.random() < 0.3:
        one.reopen()
    total = sum(size_bytes for _, _, size_bytes in batches)
    sizes = [0, 1, batches[0][2], HEADER_WINDOW_BYTES, HEADER_WINDOW_BYTES + 1, total, 2 * total]
    for _ in range(60):
        if random.random() < 0.4:
            one.log.segments.forget_positions()
        offset = random.randrange(batches[-1][1])
        upper_offset = random.choice([end for _, end, _ in batches if end > offset])
        max_bytes = random.choice([*sizes, random.randrange(total + 1), random.randrange(HEADER_WINDOW_BYTES)])
        at_least_one = random.random() < 0.7
        wanted = walked(batches, one.log.segments.bases, (offset, upper_offset), max_bytes, at_least_one)
        found = one.log.read(offset, max_bytes, upper_offset, at_least_one=at_least_one)
        first = -1
        for piece in found.slices:
            data = one.disk.read(piece.path, piece.position, piece.length)
            first = read_header(data).base_offset
        assert (first, found.size_bytes, found.next_offset) == wanted


@pytest.mark.parametrize("seed", range(25))
def test_a_read_ends_where_a_walk_of_the_batches_ends(seed: int) -> None:
    check_reads(Random(seed))


def looks_one_entry_too_far(patch: pytest.MonkeyPatch) -> None:
    real = lookup.start_for
    patch.setattr(lookup, "start_for", lambda disk, segment, offset: real(disk, segment, offset + 40))


def counts_what_does_not_fit(patch: pytest.MonkeyPatch) -> None:
    real = lookup.places

    def with_one_left_out(*arguments: Any) -> Any:
        for this, following in pairwise([*real(*arguments), None]):
            assert this is not None
            yield this if following is None else this._replace(size_bytes=this.size_bytes - 1)

    patch.setattr(lookup, "places", with_one_left_out)


def catches(seed: int) -> bool:
    try:
        check_reads(Random(seed))
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("plant", [looks_one_entry_too_far, counts_what_does_not_fit])
def test_the_walk_sees_what_is_planted(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    assert any(catches(seed) for seed in range(25))
