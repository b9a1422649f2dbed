"""Finding batches in a segment's file: from offsets, times and sizes to positions.

Messages of the formats 0 and 1 are entries of a log like batches, and are found like them (`records.batch`).

The offset index leads to a batch a few KiB before the one wanted; from there the headers are walked, several of a
read when they are small. What is in the files has passed its checks when it was appended or recovered, so a walk looks
at the few header fields that it needs. All reads may raise NotResident. A record's time is looked for in its batch on
the loop if that is small, also unpacked; else NotWalked has the lane do it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from struct import Struct
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, NotResident, PenstockError, StorageError
from penstock.log.damaged_index import DamagedFileError, DamagedIndexError, Start, TimeClaim, check_start, start_for
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.log.limits import (
    HEADER_WINDOW_BYTES,
    LOOKED_UP_INLINE_MAX_BYTES,
    LOOKED_UP_INLINE_MAX_RECORDS,
    LOOKED_UP_RECORDS_MAX,
    LOOKED_UP_UNPACKED_MAX_BYTES,
    WALKS_REMEMBERED_MAX,
)
from penstock.log.segment import Segment
from penstock.log.walks import FoundOffset, Walked, Wanted
from penstock.records.batch import (
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    OLD_HEADER_BYTES,
    BatchHeader,
    Buffer,
    read_entry,
    read_old_header,
)
from penstock.records.compression import Contexts, DecompressionLimitError
from penstock.records.reader import bounded, records

PLACE = Struct(">qi4xb6xi")
"""Base offset, length, magic and last offset delta of a header."""
LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES


class Place(NamedTuple):
    """Where a batch is and which offsets it covers. A compressed message of format 0 or 1 only tells the last one."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int
    is_old: bool = False


def places(disk: Disk, path: str, position: int, end: int) -> Iterator[Place]:
    """The batches from the one at `position` to `end`, both batch boundaries. Raises StorageError for anything else."""
    window = b""
    window_start = position
    while position < end:
        at = position - window_start
        if at + PLACE.size > len(window):
            window = disk.read(path, position, min(HEADER_WINDOW_BYTES, end - position))
            window_start, at = position, 0
            if len(window) < PLACE.size:
                if len(window) < OLD_HEADER_BYTES or read_old_header(window) is None:
                    raise StorageError(f"{path} ends at {position + len(window)} within a batch")
                window += bytes(PLACE.size)  # the last of all, and the shortest that can be
        base_offset, length, magic, last_offset_delta = PLACE.unpack_from(window, at)
        if length < LEAST_LENGTH or magic != MAGIC:
            old = read_old_header(window, at)
            if old is None:
                raise StorageError(f"{path} has no batch at {position}")
            yield Place(position, old.size_bytes, old.base_offset, old.base_offset, is_old=True)
            position += old.size_bytes
            continue
        yield Place(position, length + LOG_OVERHEAD_BYTES, base_offset, base_offset + last_offset_delta)
        position += length + LOG_OVERHEAD_BYTES


def batch_headers(disk: Disk, path: str, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `places`, with whole headers. Raises CorruptRecordError or InvalidRecordError for an invalid header."""
    window = b""
    window_start = position
    while position < end:
        at = position - window_start
        if at + HEADER_BYTES > len(window):
            window = disk.read(path, position, min(HEADER_WINDOW_BYTES, end - position))
            window_start, at = position, 0
        header = read_entry(window, at)
        yield position, header
        position += header.size_bytes


def places_from(disk: Disk, segment: Segment, start: Start, end: int) -> Iterator[Place]:
    """Like `places`, from where an index leads, which is checked. Raises DamagedFileError for what is wrong."""
    is_first = True
    try:
        for place in places(disk, segment.log_path, start.position, end):
            if is_first:
                check_start(disk, segment, start, place.base_offset, old_bytes=place.size_bytes * place.is_old)
                is_first = False
            yield place
    except DamagedFileError:
        raise
    except StorageError as error:
        raise (start.wrong(segment, str(error)) if is_first else DamagedFileError(str(error))) from error


def headers_from(disk: Disk, segment: Segment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Like `batch_headers`, from a batch at or before the one that holds `offset` on. Raises DamagedFileError for what
    is wrong.
    """
    return headers_at(disk, segment, start_for(disk, segment, offset))


def headers_at(disk: Disk, segment: Segment, start: Start) -> Iterator[tuple[int, BatchHeader]]:
    """The same from where an index leads, which is checked."""
    is_first, at = True, start.position
    try:
        for position, header in batch_headers(disk, segment.log_path, start.position, segment.size_bytes):
            if is_first:
                check_start(disk, segment, start, header.base_offset, old_bytes=header.size_bytes * header.is_old)
                is_first = False
            yield position, header
            at = position + header.size_bytes
    except (CorruptRecordError, InvalidRecordError) as error:
        damage = f"{segment.log_path} at byte {at}: {error}"
        raise (start.wrong(segment, damage) if is_first else DamagedFileError(damage)) from error


def locate(disk: Disk, segment: Segment, offset: int) -> Place | None:
    """The first batch that ends at or after `offset`; None if all written ones end before."""
    for place in places_from(disk, segment, start_for(disk, segment, offset), segment.size_bytes):
        if place.last_offset >= offset:
            return place
    return None


def cut(
    disk: Disk, segment: Segment, position: int, max_bytes: int, end: int, *, at_least_one: bool
) -> tuple[int, int]:
    """(size of the whole batches from `position` on within `max_bytes`, the offset after them); (0, -1) for none.

    `position` and `end` are batch boundaries with more than `max_bytes` between them. `at_least_one`: the first batch
    counts even if it is larger.
    """
    limit = position + max_bytes
    start = Start(position)
    if max_bytes > HEADER_WINDOW_BYTES:  # otherwise the index leads no nearer
        relative_offset, indexed = segment.offset_index.entry_before(disk, limit, segment.size_bytes)
        if position < indexed <= limit:
            start = Start(indexed, segment.base_offset + relative_offset)
    for place in places_from(disk, segment, start, end):
        if place.position + place.size_bytes > limit:
            if place.position > position:
                return place.position - position, place.base_offset
            return (place.size_bytes, place.last_offset + 1) if at_least_one else (0, -1)
    raise AssertionError(f"{segment.log_path}: the batches from {position} to {end} fit into {max_bytes} bytes")


class NotWalked(NotResident):
    """A batch whose records are too many, or unpack to too much, to be looked through on the loop. The lane does it,
    and the segment remembers for a while what came of it.
    """

    def __init__(self, directory: int, segment: Segment, position: int, header: BatchHeader, wanted: Wanted) -> None:
        super().__init__(directory, segment.log_path, position, header.size_bytes)
        self.segment = segment
        self.header = header
        self.wanted = wanted

    def read(self, disk: Disk) -> Walked:
        """Looks the batch through. An error of its bytes is a result: nothing is wrong with the disk."""
        try:
            if self.header.record_count > LOOKED_UP_RECORDS_MAX:
                return InvalidRecordError(f"the batch at {self.position} has {self.header.record_count} records")
            data = disk.read(self.path, self.position, self.length)
            return first_wanted(data, self.header, self.wanted, LOOKED_UP_UNPACKED_MAX_BYTES)
        except NotResident:
            raise
        except PenstockError as error:
            return error.with_traceback(None)  # whose frames hold what was unpacked

    def was_read(self, result: Walked) -> None:
        """Has the segment remember it."""
        walks = self.segment.walks = self.segment.walks or {}
        walks[walk_of(self.position, self.header, self.wanted)] = result
        while len(walks) > WALKS_REMEMBERED_MAX:
            del walks[next(iter(walks))]


def walk_of(position: int, header: BatchHeader, wanted: Wanted) -> tuple[int, int, Wanted]:
    """The key under which a walk is remembered. After a truncation, another batch may be in the same place."""
    return position, header.crc, wanted


def first_wanted(data: Buffer, header: BatchHeader, wanted: Wanted, unpacked_max_bytes: int) -> FoundOffset | None:
    """The first record of a batch that is wanted. Raises as `records`."""
    for record in records(data, header, decompress=bounded(Contexts(), unpacked_max_bytes)):
        if wanted.is_met_by(record):
            return FoundOffset(record.offset, record.timestamp_ms, header.leader_epoch)
    return None


def found_in(disk: Disk, segment: Segment, position: int, header: BatchHeader, wanted: Wanted) -> FoundOffset | None:
    """Like `first_wanted`, for a batch in a segment. Raises NotWalked if that would take long."""
    if header.size_bytes <= LOOKED_UP_INLINE_MAX_BYTES and header.record_count <= LOOKED_UP_INLINE_MAX_RECORDS:
        data = disk.read(segment.log_path, position, header.size_bytes)
        with suppress(DecompressionLimitError):
            return first_wanted(data, header, wanted, LOOKED_UP_INLINE_MAX_BYTES)
    walks, walk = segment.walks or {}, walk_of(position, header, wanted)
    if walk not in walks:
        raise NotWalked(disk.directory, segment, position, header, wanted)
    found = walks[walk]
    if isinstance(found, PenstockError):
        raise found.with_traceback(None)
    return found


def first_at_time(disk: Disk, segment: Segment, timestamp_ms: int, from_offset: int) -> FoundOffset | None:
    """The first record of the segment from `from_offset` on whose timestamp is at least `timestamp_ms`."""
    wanted = Wanted(timestamp_ms, exactly=False, from_offset=from_offset)
    claim = TimeClaim(disk, segment, timestamp_ms, from_offset)
    for position, header in headers_from(disk, segment, max(claim.offset, from_offset)):
        is_wanted = header.max_timestamp_ms >= timestamp_ms and header.last_offset >= from_offset
        claim.check(header.last_offset, header.max_timestamp_ms, is_wanted=is_wanted)
        if is_wanted and (found := found_in(disk, segment, position, header, wanted)) is not None:
            return found
    claim.end()
    return None


def first_of_max_time(disk: Disk, segment: Segment) -> FoundOffset | None:
    """The first record of the segment with its largest timestamp."""
    largest_timestamp_ms, offset = segment.largest_readable(disk)
    wanted = Wanted(largest_timestamp_ms, exactly=True, from_offset=segment.base_offset)
    has_any = False
    for position, header in headers_from(disk, segment, offset):
        if header.max_timestamp_ms == largest_timestamp_ms and header.magic:  # format 0 has no timestamps
            has_any = True
            found = found_in(disk, segment, position, header, wanted)
            if found is not None:
                return found
    if not has_any and largest_timestamp_ms >= 0:
        claim = f"by it a batch from offset {offset} on has the time {largest_timestamp_ms}"
        raise DamagedIndexError(segment.time_index.path, claim)
    return None


def check_largest(disk: Disk, segment: Segment) -> None:
    """Checks, once, the largest timestamp that the index of a closed segment says, before the segment is passed over.

    The batch that is said to have it must have it. Those after the last entry of the offset index may have a later one,
    where Apache Kafka has truncated the segment, or if its time index was cut: then that is its largest from now on.
    Raises DamagedIndexError.
    """
    if segment.largest_is_right:
        return
    largest_timestamp_ms, offset = segment.largest(disk)
    if largest_timestamp_ms >= 0:
        holding = header_with(disk, segment, offset)
        if holding is None or holding.max_timestamp_ms != largest_timestamp_ms:
            claim = f"by it the largest timestamp is {largest_timestamp_ms}, at offset {offset}"
            raise DamagedIndexError(segment.time_index.path, f"{claim}, and no batch there has it")
    for _, header in headers_from(disk, segment, segment.base_offset + RELATIVE_OFFSET_MAX):
        if header.max_timestamp_ms > largest_timestamp_ms:
            largest_timestamp_ms, offset = header.max_timestamp_ms, header.last_offset
    segment.largest_timestamp_ms, segment.largest_timestamp_offset = largest_timestamp_ms, offset
    segment.largest_is_right = True


def header_with(disk: Disk, segment: Segment, offset: int) -> BatchHeader | None:
    """The header of the first batch that ends at or after an offset."""
    for _, header in headers_from(disk, segment, offset):
        if header.last_offset >= offset:
            return header
    return None
