"""What an index file claims, held against the batch that it leads to.

Nothing tells an index of another segment, or one with a flipped bit, from a right one before it is used: after a clean
stop no broker reads all of it. So each claim is checked where it is used, with the header that is read anyway: an entry
of an offset index must lead to a batch that begins at or before the offset of the entry, one of a time index to a batch
with just its timestamp. Apache Kafka 4.3 checks neither, and skips records if an index leads too far.

Entries in memory were made by this process and need no check.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX, Aborted
from penstock.log.segment import Segment
from penstock.records.batch import is_old_message


class DamagedFileError(StorageError):
    """Bytes of a log's file that cannot be right. Only what has to do with them fails."""


class DamagedIndexError(DamagedFileError):
    """An index that leads astray. Only what is looked up with it fails; the message says how to make it anew.

    Attributes: `reason`, which index it is and what is wrong with it.
    """

    def __init__(self, path: str, claim: str, *, so: str = "What it leads to is not served") -> None:
        self.reason = f"{path} is damaged or of another segment: {claim}"
        super().__init__(f"{self.reason}. {so}; stop the broker and run `penstock log index`, which makes it anew")


class Start(NamedTuple):
    """Where a walk begins: a position, and an offset that the batch there is said to begin at or before, if an index
    says so.
    """

    position: int
    claimed_offset: int | None = None

    def wrong(self, segment: Segment, why: str) -> DamagedFileError:
        """The error for a start at which no batch can be read."""
        if self.claimed_offset is None:
            return DamagedFileError(why)
        claim = f"by it the batch at byte {self.position} holds offset {self.claimed_offset}, and {why}"
        return DamagedIndexError(segment.offset_index.path, claim)


def start_for(disk: Disk, segment: Segment, offset: int) -> Start:
    """Where to begin a walk to an offset, by the segment's index. Give the batch there to `check_start`.

    Raises DamagedIndexError for an entry that cannot be right, NotResident as `disk`.
    """
    return start_at(segment, *segment.offset_index.entry_for(disk, offset))


def start_at(segment: Segment, relative_offset: int, position: int) -> Start:
    """The same for an entry of the segment's index, or (0, 0) for its beginning."""
    claimed_offset = segment.base_offset + relative_offset
    if relative_offset < 0 or not 0 <= position < max(segment.reserved_bytes, 1):
        claim = f"an entry leads from offset {claimed_offset} to byte {position}"
        raise DamagedIndexError(
            segment.offset_index.path, f"{claim}, and the segment has {segment.reserved_bytes} bytes"
        )
    return Start(position, claimed_offset if position else None)


def check_start(disk: Disk, segment: Segment, start: Start, base_offset: int, *, old_bytes: int) -> None:
    """Raises DamagedIndexError if the batch found through the offset index, which has this base offset, is not the one
    meant.

    A message of format 0 or 1, of `old_bytes` then, has little that tells it from other bytes, so its checksum is
    looked at. A compressed one only tells its last offset, and its index entry may have its first.
    """
    position, claimed_offset = start
    if claimed_offset is None:
        return
    if old_bytes:
        near = segment.base_offset <= base_offset <= segment.base_offset + RELATIVE_OFFSET_MAX
        fits = position + old_bytes <= segment.reserved_bytes
        if near and fits and is_old_message(disk.read(segment.log_path, position, old_bytes)):
            return
    elif segment.base_offset <= base_offset <= claimed_offset:
        return
    raise start.wrong(segment, f"that one begins at {base_offset}")


class TimeClaim:
    """The entry of a time index by which a search begins: no record before its batch has a later timestamp, and that
    batch has just this one. A walk from there on tells it every batch.
    """

    __slots__ = ("_open", "offset", "segment", "timestamp_ms")

    def __init__(self, disk: Disk, segment: Segment, timestamp_ms: int, from_offset: int) -> None:
        self.segment = segment
        self.timestamp_ms, relative_offset = segment.time_index.entry_for(disk, timestamp_ms)
        if relative_offset < 0 or (self.timestamp_ms < 0 < relative_offset):
            offset = segment.base_offset + relative_offset
            raise self._error(f"an entry has the timestamp {self.timestamp_ms} and the offset {offset}")
        self.offset = segment.base_offset + relative_offset
        self._open = self.timestamp_ms >= 0 and self.offset >= from_offset

    def check(self, last_offset: int, max_timestamp_ms: int, *, is_wanted: bool) -> None:
        """The next batch. Raises DamagedIndexError if it shows that the entry is wrong. `is_wanted`: the search may end
        with this batch.
        """
        if not self._open or (last_offset < self.offset and not is_wanted):
            return
        if last_offset < self.offset or max_timestamp_ms != self.timestamp_ms:
            claim = f"by it the batch with offset {self.offset} is the first of time {self.timestamp_ms}"
            raise self._error(f"{claim}, and the one that ends at {last_offset} has {max_timestamp_ms}")
        self._open = False

    def end(self) -> None:
        """The walk has seen the last batch of the segment. While appends are under way, the one meant may be later."""
        if self._open and self.segment.reserved_bytes == self.segment.size_bytes:
            raise self._error(f"by it a batch holds offset {self.offset}, and the segment ends before")

    def _error(self, claim: str) -> DamagedIndexError:
        return DamagedIndexError(self.segment.time_index.path, claim)


def aborted_in(disk: Disk, segment: Segment, end_offset: int | None) -> list[Aborted]:
    """The entries of a segment's index of aborted transactions (`AbortedIndex.all`). The segment ends before
    `end_offset`, if that is known: the marker of each is in the segment, by rising offsets.
    """
    entries = segment.aborted_index.all(disk)
    check_aborted(entries, segment, segment.base_offset - 1, end_offset)
    return entries


def aborted_from(disk: Disk, segment: Segment, offset: int, end_offset: int | None) -> Iterator[Aborted]:
    """As `aborted_in`, from the first entry whose marker is at `offset` or later; up to two before it come as well.
    They are looked at since a wrong one would lead the search astray.
    """
    index = segment.aborted_index
    slot, previous = max(0, index.slot_of(disk, offset) - 2), segment.base_offset - 1
    while entries := index.some(disk, slot):
        previous = check_aborted(entries, segment, previous, end_offset)
        yield from entries
        slot += len(entries)


def check_aborted(entries: Sequence[Aborted], segment: Segment, previous: int, end_offset: int | None) -> int:
    """Raises DamagedIndexError unless the entries are of this segment and rise from `previous`; returns where the last
    one ends.
    """
    for _, first_offset, last_offset, _ in entries:
        if not previous < last_offset >= first_offset or (end_offset is not None and last_offset >= end_offset):
            claim = f"an entry says that offset {last_offset} ends a transaction that began at {first_offset}"
            raise DamagedIndexError(segment.aborted_index.path, claim)
        previous = last_offset
    return previous
