"""Passes of the cleaner over more than memory holds: very many distinct keys, very large ones, one key very often.

The disk makes the bytes of a batch when they are read, and keeps nothing that is written; all else is as on a real one.
Of a million distinct keys of 1 MB, a terabyte, there are two sections: a million keys, of 100 bytes, and keys of 1 MB,
4,000 of them.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence

import pytest

from penstock.config.values import GiB, KiB, MiB
from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.maps import offset_map
from penstock.log.compaction.offset_map import ENTRY_BYTES
from penstock.log.compaction.passes import Pass, SealedSegment
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.target import Target
from penstock.log.disk import Buffer, FileInfo
from penstock.log.names import LOG, file_name, offset_of
from penstock.records.batch import CRC, CRC_POSITION, assign_offset, computed_crc
from penstock.records.builder import BatchBuilder
from simulator.world.disk import SimulatedDisk

pytestmark = pytest.mark.long
NAME, OUT = "clicks-0", "cleaned-0"
NOW_MS = 1_700_000_000_000
HASH_KEY = bytes(range(16))
NUMBER_BYTES = 16
SEGMENT_BATCHES = 500


class MadeDisk(SimulatedDisk):
    """A log of equal batches, each of `batch_records` with keys of a size, numbered unless all have the same."""

    def __init__(self, records: int, batch_records: int, key_bytes: int, *, same_key: bool = False) -> None:
        super().__init__()
        self.records, self.batch_records, self.same_key = records, batch_records, same_key
        builder = BatchBuilder()
        for number in range(batch_records):
            builder.append(NOW_MS, self._number(number) + bytes(key_bytes - NUMBER_BYTES), b"value")
        self.template = builder.build()
        self.places = [self.template.index(self._number(0))]
        for number in range(1, batch_records):
            self.places.append(self.template.index(self._number(number), self.places[-1] + NUMBER_BYTES))
        self.written_bytes = 0
        self._made = -1, b""
        self.make_directory(OUT)

    def _number(self, number: int) -> bytes:
        return b"key:%012d" % (0 if self.same_key else number)

    def work(self) -> Pass:
        """A pass over all of it."""
        offsets = SEGMENT_BATCHES * self.batch_records
        return Pass(
            name=NAME,
            segments=tuple(
                SealedSegment(base, base + offsets, SEGMENT_BATCHES * len(self.template), 0, 0)
                for base in range(0, self.records, offsets)
            ),
            first_dirty_offset=0,
            first_uncleanable_offset=self.records,
            aborted=(),
            last_records={},
            now_ms=NOW_MS,
            delete_retention_ms=86_400_000,
            segment_bytes=GiB,
            segment_index_bytes=10 * MiB,
            index_interval_bytes=4096,
        )

    def read(self, path: str, position: int, length: int) -> bytes:
        base_offset = offset_of(path.removeprefix(f"{NAME}/"), LOG)
        assert base_offset is not None
        size = len(self.template)
        end = min(position + length, SEGMENT_BATCHES * size)
        pieces = []
        while position < end:
            batch = self._batch(base_offset // self.batch_records + position // size)
            pieces.append(batch[position % size : position % size + end - position])
            position += len(pieces[-1])
        return b"".join(pieces)

    def list(self, path: str) -> Sequence[FileInfo]:
        if path != NAME:
            return super().list(path)
        sizes = {file_name(each.base_offset, LOG): each.size_bytes for each in self.work().segments}
        return [FileInfo(name, size_bytes, NOW_MS, is_directory=False) for name, size_bytes in sizes.items()]

    def _batch(self, batch: int) -> bytes:
        if self._made[0] != batch:
            first = batch * self.batch_records
            made = self.template.copy()
            for number, place in enumerate(self.places, first):
                made[place : place + NUMBER_BYTES] = self._number(number)
            assign_offset(made, 0, first, 0)
            CRC.pack_into(made, CRC_POSITION, computed_crc(made, 0, len(made)))
            self._made = batch, bytes(made)
        return self._made[1]

    def truncate(self, path: str, size_bytes: int) -> None:
        super().truncate(path, 0)

    def write(self, path: str, position: int, chunks: Sequence[Buffer]) -> None:
        self.written_bytes += sum(map(len, chunks)) if path.endswith(LOG) else 0
        super().write(path, 0, [])


@pytest.fixture(autouse=True)
def memory() -> Iterator[None]:
    """What the first pass of a process imports and compiles is not counted."""
    small = MadeDisk(SEGMENT_BATCHES, 1, KiB)
    run_pass(small, small.work(), offset_map(64 * KiB, 0.9, HASH_KEY), Target(small, OUT))
    tracemalloc.start()
    yield
    tracemalloc.stop()


def cleaned(disk: MadeDisk, keys: int) -> tuple[PassReport, int]:
    """One pass with the compiled map if there is one; the report, and what it took at most, the map left out."""
    map_bytes = 2 * ENTRY_BYTES * (keys + 2)
    offsets = offset_map(map_bytes, 0.9, HASH_KEY)
    offsets_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    report = run_pass(disk, disk.work(), offsets, Target(disk, OUT))
    _, most_bytes = tracemalloc.get_traced_memory()
    assert not report.problems
    assert not report.map_is_full
    assert report.end_offset == disk.records
    return report, most_bytes - offsets_bytes


def test_the_made_log_is_one() -> None:
    """A few batches, read in pieces of any size."""
    disk = MadeDisk(3 * SEGMENT_BATCHES, 3, 100)
    path = f"{NAME}/{file_name(0, LOG)}"
    whole = disk.read(path, 0, 10_000)
    assert b"".join(disk.read(path, at, min(77, 10_000 - at)) for at in range(0, 10_000, 77)) == whole
    report, _ = cleaned(disk, disk.records)
    assert (report.keys, disk.written_bytes) == (disk.records, SEGMENT_BATCHES * len(disk.template))


def test_a_million_distinct_keys() -> None:
    disk = MadeDisk(1_000_000, 1000, 100)
    report, most_bytes = cleaned(disk, 1_000_000)
    assert report.keys == 1_000_000
    assert sum(group.removed for group in report.groups) == 0
    assert disk.written_bytes == 1000 * len(disk.template)
    assert most_bytes < 32 * MiB


def test_four_thousand_distinct_keys_of_a_megabyte() -> None:
    disk = MadeDisk(4000, 1, MiB)
    report, most_bytes = cleaned(disk, 4000)
    assert report.keys == 4000
    assert disk.written_bytes == 4000 * len(disk.template)
    assert most_bytes < 8 * MiB, "a few batches"


def test_one_key_a_million_times() -> None:
    disk = MadeDisk(1_000_000, 1000, 100, same_key=True)
    report, most_bytes = cleaned(disk, 1_000_000)
    assert report.keys == 1
    assert sum(group.after.records for group in report.groups) == 1
    assert disk.written_bytes < KiB
    assert most_bytes < 32 * MiB
