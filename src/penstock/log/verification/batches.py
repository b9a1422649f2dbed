"""The batches of one file for a check: every one whose place and length are plain, damaged or not, and where they end.

Messages of the formats 0 and 1 (before Apache Kafka 0.11) are batches here, too: `header.is_old`.

A batch is read whole only if its checksum is right, or if it is no longer than what is read at once anyway: a length
that lies costs time and no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from zlib import crc32

from crc32c import crc32c

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.disk import Disk
from penstock.log.limits import RECOVERY_CHUNK_BYTES
from penstock.log.recovery import lost_batches
from penstock.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    MAGIC_POSITION,
    BatchHeader,
    read_entry,
)


class SeenBatch(NamedTuple):
    """A batch in its place. `data` is None where its checksum is wrong."""

    position: int
    header: BatchHeader
    data: memoryview | None


@dataclass(frozen=True, slots=True)
class End:
    """Where the batches of a file end before the file does. `is_tail`: as an append leaves it that was cut short."""

    position: int
    message: str
    is_tail: bool


Seen = SeenBatch | End


def seen_batches(disk: Disk, path: str, base_offset: int, size_bytes: int) -> Iterator[Seen]:
    """All that is in the first `size_bytes` of a file, in order; an `End` only where something is wrong."""
    position, next_offset = 0, base_offset
    chunk, start = memoryview(b""), 0
    while position < size_bytes:
        at = position - start
        if at + HEADER_BYTES > len(chunk) and start + len(chunk) < size_bytes:
            chunk, start, at = read_chunk(disk, path, position, size_bytes), position, 0
        try:
            header = read_entry(chunk, at)
        except (CorruptRecordError, InvalidRecordError) as error:
            yield end_of(disk, path, (position, size_bytes), str(error), next_offset)
            return
        if position + header.size_bytes > size_bytes:
            missing = position + header.size_bytes - size_bytes
            why = f"the batch at offset {header.base_offset} is cut off: {missing} of its bytes are missing"
            yield end_of(disk, path, (position, size_bytes), why, next_offset)
            return
        if at + header.size_bytes > len(chunk):
            chunk, start, at = read_chunk(disk, path, position, size_bytes), position, 0
        yield SeenBatch(position, header, sound_data(disk, path, position, header, chunk[at:]))
        position += header.size_bytes
        next_offset = header.next_offset


def read_chunk(disk: Disk, path: str, position: int, size_bytes: int) -> memoryview:
    return memoryview(disk.read(path, position, min(RECOVERY_CHUNK_BYTES, size_bytes - position)))


def sound_data(disk: Disk, path: str, position: int, header: BatchHeader, beginning: memoryview) -> memoryview | None:
    """All bytes of a batch whose file begins so; None if its checksum is wrong."""
    size_bytes = header.size_bytes
    first, sum_of = (MAGIC_POSITION, crc32) if header.is_old else (ATTRIBUTES_POSITION, crc32c)
    if size_bytes <= len(beginning):
        data = beginning[:size_bytes]
        return data if sum_of(data[first:]) == header.crc else None
    crc = 0
    end = position + size_bytes
    for at in range(position + first, end, RECOVERY_CHUNK_BYTES):
        crc = sum_of(disk.read(path, at, min(RECOVERY_CHUNK_BYTES, end - at)), crc)
    return memoryview(disk.read(path, position, size_bytes)) if crc == header.crc else None


def end_of(disk: Disk, path: str, where: tuple[int, int], why: str, next_offset: int) -> End:
    """What is to say of the bytes from a position to the file's end that begin with no batch. Sound ones may follow."""
    position, size_bytes = where
    left = size_bytes - position
    if only_zeros(disk, path, position, size_bytes):
        return End(position, f"the last {left} bytes are zeros", is_tail=True)
    lost = lost_batches(disk, path, position + 1, size_bytes, next_offset) if 0 <= next_offset < 2**63 else None
    if lost is not None:
        after = f"sound batches with offsets from {lost.first} to {lost.end - 1} come after that"
        return End(position, f"{why}; {after}", is_tail=False)
    return End(position, f"{why}; no sound batch is in the {left} bytes from here on", is_tail=True)


def only_zeros(disk: Disk, path: str, position: int, size_bytes: int) -> bool:
    for at in range(position, size_bytes, RECOVERY_CHUNK_BYTES):
        if any(disk.read(path, at, min(RECOVERY_CHUNK_BYTES, size_bytes - at))):
            return False
    return True
