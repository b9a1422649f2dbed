"""Finding batches in a segment's file: from offsets, times and sizes to positions.

The offset index leads to a batch a few KiB before the one wanted; from there the headers are walked, several of a
read when they are small. What is in the files has passed its checks when it was appended or recovered, so a walk looks
at the few header fields that it needs. All reads may raise NotResident; nothing here has state.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from penstock.config.limits import HEADER_WINDOW_BYTES
from penstock.errors import StorageError
from penstock.log.disk import Disk
from penstock.log.segment import Segment
from penstock.records.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, BatchHeader, read_header
from penstock.records.reader import Record, records

PLACE = Struct(">qi11xi")
"""Base offset, length and last offset delta of a header."""
LEAST_LENGTH = HEADER_BYTES - LOG_OVERHEAD_BYTES


class Place(NamedTuple):
    """Where a batch is and which offsets it covers."""

    position: int
    size_bytes: int
    base_offset: int
    last_offset: int


class FoundOffset(NamedTuple):
    """A record found by its time. `leader_epoch` is -1 when unknown; `timestamp_ms` is the record's."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


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
                raise StorageError(f"{path} ends at {position + len(window)} within a batch")
        base_offset, length, last_offset_delta = PLACE.unpack_from(window, at)
        if length < LEAST_LENGTH:
            raise StorageError(f"{path} has no batch at {position}")
        yield Place(position, length + LOG_OVERHEAD_BYTES, base_offset, base_offset + last_offset_delta)
        position += length + LOG_OVERHEAD_BYTES


def batch_headers(disk: Disk, path: str, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """As `places`, with whole headers. Raises CorruptRecordError or InvalidRecordError for what is no header."""
    window = b""
    window_start = position
    while position < end:
        at = position - window_start
        if at + HEADER_BYTES > len(window):
            window = disk.read(path, position, min(HEADER_WINDOW_BYTES, end - position))
            window_start, at = position, 0
        header = read_header(window, at)
        yield position, header
        position += header.size_bytes


def locate(disk: Disk, segment: Segment, offset: int) -> Place | None:
    """The first batch that ends at or after `offset`; None if all written ones end before."""
    start = segment.offset_index.position_for(disk, offset)
    for place in places(disk, segment.log_path, start, segment.size_bytes):
        if place.last_offset >= offset:
            return place
    return None


def cut(disk: Disk, segment: Segment, position: int, max_bytes: int, end: int) -> tuple[int, int]:
    """(size of the whole batches from `position` on within `max_bytes`, the offset after them); (0, -1) for none.

    `position` and `end` are batch boundaries with more than `max_bytes` between them.
    """
    limit = position + max_bytes
    next_offset = -1
    start = max(position, segment.offset_index.position_before(disk, limit))
    for place in places(disk, segment.log_path, start, end):
        if place.position + place.size_bytes > limit:
            next_offset = place.base_offset if place.position > position else -1
            return place.position - position, next_offset
    raise AssertionError(f"{segment.log_path}: the batches from {position} to {end} fit into {max_bytes} bytes")


def first_at_time(disk: Disk, segment: Segment, timestamp_ms: int, from_offset: int) -> FoundOffset | None:
    """The first record of the segment from `from_offset` on whose timestamp is at least `timestamp_ms`."""
    offset = max(segment.time_index.offset_for(disk, timestamp_ms), from_offset)
    start = segment.offset_index.position_for(disk, offset)
    for position, header in batch_headers(disk, segment.log_path, start, segment.size_bytes):
        if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= from_offset:
            for record in batch_records(disk, segment.log_path, position, header):
                if record.timestamp_ms >= timestamp_ms and record.offset >= from_offset:
                    return FoundOffset(record.offset, record.timestamp_ms, header.leader_epoch)
    return None


def first_of_max_time(disk: Disk, segment: Segment) -> FoundOffset | None:
    """The first record of the segment with its largest timestamp."""
    largest_timestamp_ms, offset = segment.largest(disk)
    start = segment.offset_index.position_for(disk, offset)
    for position, header in batch_headers(disk, segment.log_path, start, segment.size_bytes):
        if header.max_timestamp_ms == largest_timestamp_ms:
            for record in batch_records(disk, segment.log_path, position, header):
                if record.timestamp_ms == largest_timestamp_ms:
                    return FoundOffset(record.offset, record.timestamp_ms, header.leader_epoch)
    return None


def batch_records(disk: Disk, path: str, position: int, header: BatchHeader) -> Iterator[Record]:
    return records(disk.read(path, position, header.size_bytes), header)
