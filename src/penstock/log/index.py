"""The sparse indexes of a segment: offset -> position, time -> offset, and the aborted transactions.

An index file is a run of fixed entries, big-endian, as Kafka writes them; offsets are relative to the segment's base:

    .index      relative offset int32 | position int32                   of every ~4 KiB of log: a batch's last offset
    .timeindex  timestamp int64 | relative offset int32                  the largest timestamp so far, and its batch
    .txnindex   version int16 | producer id, first, last, last stable offset int64

The newest entries (`tail`) are in memory and go to the file a few hundred at a time, and when the segment closes; older
ones stay in the file and are found by binary search through `disk.read`, which may raise NotResident. Nothing is mapped
into memory: a page fault would stop every thread of the process. What a crash loses of a tail, recovery rebuilds. Files
are never longer than their entries, which Kafka accepts: it resizes the active one itself.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from struct import Struct
from typing import Any, ClassVar

from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.limits import INDEX_BLOCK_ENTRIES, INDEX_TAIL_ENTRIES
from penstock.records.batch import NO_TIMESTAMP

RELATIVE_OFFSET_MAX = 2**31 - 1
ABORTED_VERSION, LAST_OFFSET = 0, 3
"""The version of an entry of an aborted transaction, and the field with the offset of the marker."""

Aborted = tuple[int, int, int, int]
"""Producer id, first offset, last offset, last stable offset."""


class Index:
    """A file of sorted fixed-size entries with its newest ones in memory.

    Attributes: `path` within the log directory; `base_offset` of the segment; `written` entries are in the file; `tail`
    holds the encoded entries after those, the first `handed` of which are in a write under way.
    """

    __slots__ = ("base_offset", "handed", "path", "tail", "written")
    ENTRY: ClassVar[Struct]

    def __init__(self, path: str, base_offset: int) -> None:
        self.path = path
        self.base_offset = base_offset
        self.written = 0
        self.tail = bytearray()
        self.handed = 0

    @property
    def entries(self) -> int:
        return self.written + len(self.tail) // self.ENTRY.size

    @property
    def tail_is_long(self) -> bool:
        """Whether enough entries are only in memory that the next append should write them."""
        return len(self.tail) // self.ENTRY.size - self.handed >= INDEX_TAIL_ENTRIES

    def take_tail(self) -> tuple[str, int, bytes] | None:
        """The entries that no write has taken yet, as (path, position, bytes); None if there are none.

        They stay in memory until `drop_written`.
        """
        start = self.handed * self.ENTRY.size
        if start == len(self.tail):
            return None
        self.handed = len(self.tail) // self.ENTRY.size
        return self.path, self.written * self.ENTRY.size + start, bytes(memoryview(self.tail)[start:])

    def drop_written(self, size_bytes: int) -> None:
        """Drops from memory the entries that are in the file, which now holds `size_bytes`."""
        gone = size_bytes // self.ENTRY.size - self.written
        assert 0 <= gone <= self.handed, f"{self.path}: {gone} entries written, {self.handed} handed out"
        del self.tail[: gone * self.ENTRY.size]
        self.written += gone
        self.handed -= gone

    def entry(self, disk: Disk, slot: int) -> tuple[Any, ...]:
        """Entry number `slot`, raw. May raise NotResident."""
        if slot >= self.written:
            return self.ENTRY.unpack_from(self.tail, (slot - self.written) * self.ENTRY.size)
        return self.ENTRY.unpack(self._read(disk, slot, 1))

    def floor(self, disk: Disk, target: int, column: int, end: int | None = None) -> tuple[Any, ...] | None:
        """The last entry whose `column` (rising through the file) is at most `target`; None if there is none.

        The column rises from about 0 to about `end`, if that is given, and mostly by even steps: the first look is
        where the target would then be, and nearly always the only one.
        """
        unpack, size, tail = self.ENTRY.unpack_from, self.ENTRY.size, self.tail
        if tail:
            in_tail = unpack(tail)[column]
            if in_tail <= target:
                return self._floor_within(tail, target, column)
            end = in_tail if end is not None else None
        low, high = 0, self.written
        slot = high // 2 if not end else high * target // end - INDEX_BLOCK_ENTRIES // 2
        while high - low > INDEX_BLOCK_ENTRIES:
            slot = max(low, min(slot, high - INDEX_BLOCK_ENTRIES))
            block = self._read(disk, slot, INDEX_BLOCK_ENTRIES)
            if unpack(block)[column] > target:
                high = slot
            elif unpack(block, len(block) - size)[column] <= target:
                low = slot + INDEX_BLOCK_ENTRIES - 1
            else:
                return self._floor_within(block, target, column)
            slot = (low + high) // 2
        return self._floor_within(self._read(disk, low, high - low), target, column) if low < high else None

    def _floor_within(self, block: bytes | bytearray, target: int, column: int) -> tuple[Any, ...] | None:
        unpack, size = self.ENTRY.unpack_from, self.ENTRY.size
        above = bisect_right(range(len(block) // size), target, key=lambda slot: unpack(block, slot * size)[column])
        return unpack(block, (above - 1) * size) if above else None

    def _read(self, disk: Disk, slot: int, count: int) -> bytes:
        size = self.ENTRY.size
        data = disk.read(self.path, slot * size, count * size)
        if len(data) != count * size:
            raise StorageError(f"{self.path} is shorter than its {self.written} entries: it was changed from outside")
        return data


class OffsetIndex(Index):
    """Offset -> position of the batch that ends with it."""

    __slots__ = ("last_offset",)
    ENTRY = Struct(">ii")

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self.last_offset = base_offset - 1

    def append(self, offset: int, position: int) -> None:
        """Adds the batch at `position` that ends with `offset`."""
        assert offset > self.last_offset, f"{self.path}: {offset} after {self.last_offset}"
        self.tail += self.ENTRY.pack(offset - self.base_offset, position)
        self.last_offset = offset

    def is_full(self, index_bytes: int) -> bool:
        return self.entries >= index_bytes // self.ENTRY.size

    def entry_for(self, disk: Disk, offset: int) -> tuple[int, int]:
        """(relative offset, position) of a batch at or before the one that holds `offset`, as the file says; (0, 0) if
        it says nothing. May raise NotResident.
        """
        found = self.floor(disk, offset - self.base_offset, 0, self.last_offset - self.base_offset)
        return (found[0], found[1]) if found else (0, 0)

    def entry_before(self, disk: Disk, position: int, size_bytes: int) -> tuple[int, int]:
        """(relative offset, position) of the last entry whose position is at most `position`, in a segment of this
        size; (0, 0) if there is none. May raise NotResident.
        """
        found = self.floor(disk, position, 1, size_bytes)
        return (found[0], found[1]) if found else (0, 0)


class TimeIndex(Index):
    """Largest timestamp so far -> last offset of the first batch that has it."""

    __slots__ = ("last_offset", "last_timestamp_ms")
    ENTRY = Struct(">qi")

    def __init__(self, path: str, base_offset: int) -> None:
        super().__init__(path, base_offset)
        self.last_timestamp_ms, self.last_offset = NO_TIMESTAMP, base_offset

    def append(self, timestamp_ms: int, offset: int) -> None:
        """Adds an entry if the timestamp is a new largest one."""
        if timestamp_ms > self.last_timestamp_ms:
            assert offset >= self.last_offset, f"{self.path}: offset {offset} after {self.last_offset}"
            self.tail += self.ENTRY.pack(timestamp_ms, offset - self.base_offset)
            self.last_timestamp_ms = timestamp_ms
            self.last_offset = offset

    def is_full(self, index_bytes: int) -> bool:
        """One slot is kept for the entry that is added when the segment closes."""
        return self.entries >= index_bytes // self.ENTRY.size - 1

    def last_entry(self, disk: Disk) -> tuple[int, int]:
        """(timestamp, offset) of the last entry; (-1, base offset) if there is none. May raise NotResident."""
        if not self.entries:
            return NO_TIMESTAMP, self.base_offset
        timestamp_ms, relative_offset = self.entry(disk, self.entries - 1)
        return timestamp_ms, self.base_offset + relative_offset

    def entry_for(self, disk: Disk, timestamp_ms: int) -> tuple[int, int]:
        """The last entry that is not later than `timestamp_ms`: (timestamp, relative offset), as the file says; (-1, 0)
        if there is none. May raise NotResident.
        """
        found = self.floor(disk, timestamp_ms, 0)
        return (found[0], found[1]) if found else (NO_TIMESTAMP, 0)


class AbortedIndex(Index):
    """The aborted transactions whose markers are in the segment, by the offset of the marker. Offsets are absolute."""

    __slots__ = ()
    ENTRY = Struct(">hqqqq")

    def append(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None:
        self.tail += self.ENTRY.pack(ABORTED_VERSION, producer_id, first_offset, last_offset, last_stable_offset)

    def take_over(self, before: AbortedIndex, end_offset: int) -> None:
        """Takes those of the entries of the same segment, as it was before its files were read again, that the file
        does not have: unlike those of other indexes they are missed. They are of markers below the segment's end.
        """
        size = self.ENTRY.size
        tail = before.tail[max(0, self.written - before.written) * size :]
        self.tail = bytearray(
            b"".join(
                tail[at : at + size]
                for at in range(0, len(tail), size)
                if self.ENTRY.unpack_from(tail, at)[LAST_OFFSET] < end_offset
            )
        )

    def all(self, disk: Disk) -> list[Aborted]:
        """Every entry. May raise NotResident."""
        data = self._read(disk, 0, self.written) + self.tail if self.written else bytes(self.tail)
        return [entry[1:] for entry in self.ENTRY.iter_unpack(data)]

    def slot_of(self, disk: Disk, offset: int) -> int:
        """The number of the first entry whose last offset is `offset` or later. May raise NotResident."""
        return bisect_left(range(self.entries), offset, key=lambda slot: self.entry(disk, slot)[LAST_OFFSET])

    def some(self, disk: Disk, slot: int) -> list[Aborted]:
        """A block of entries from number `slot` on. May raise NotResident."""
        if slot < self.written:
            data: bytes | bytearray = self._read(disk, slot, min(INDEX_BLOCK_ENTRIES, self.written - slot))
        else:
            start = (slot - self.written) * self.ENTRY.size
            data = self.tail[start : start + INDEX_BLOCK_ENTRIES * self.ENTRY.size]
        return [entry[1:] for entry in self.ENTRY.iter_unpack(data)]
