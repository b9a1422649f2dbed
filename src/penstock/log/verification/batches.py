"""The batches of one file for a check: every one whose place and length are plain, damaged or not, and where they end.

A batch is read whole only if its checksum is right, or if it is no longer than what is read at once anyway: a length
that lies costs time and no memory. Messages of the formats 0 and 1 (before Apache Kafka 0.11) have a checksum too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.disk import Disk
from penstock.log.limits import RECOVERY_CHUNK_BYTES
from penstock.log.recovery import lost_batches
from penstock.records.batch import (
    ATTRIBUTES_POSITION,
    HEADER_BYTES,
    LENGTH_POSITION,
    LOG_OVERHEAD_BYTES,
    MAGIC_POSITION,
    OLD_MESSAGE,
    OLD_MESSAGE_MIN_BYTES,
    BatchHeader,
    computed_crc,
    is_old_message,
    read_header,
)


class SeenBatch(NamedTuple):
    """A batch in its place. `data` is None where its checksum is wrong."""

    position: int
    header: BatchHeader
    data: memoryview | None


@dataclass(frozen=True, slots=True)
class SeenMessage:
    """A message of format 0 or 1, alone or with others in it; a wrapper has the last offset of those."""

    position: int
    offset: int
    size_bytes: int
    magic: int
    is_sound: bool


@dataclass(frozen=True, slots=True)
class End:
    """Where the batches of a file end before the file does. `is_tail`: as an append leaves it that was cut short."""

    position: int
    message: str
    is_tail: bool


Seen = SeenBatch | SeenMessage | End


def seen_batches(disk: Disk, path: str, base_offset: int, size_bytes: int) -> Iterator[Seen]:
    """All that is in the first `size_bytes` of a file, in order; an `End` only where something is wrong."""
    position, next_offset = 0, base_offset
    chunk, start = memoryview(b""), 0
    while position < size_bytes:
        at = position - start
        if at + HEADER_BYTES > len(chunk) and start + len(chunk) < size_bytes:
            chunk, start, at = read_chunk(disk, path, position, size_bytes), position, 0
        try:
            header = read_header(chunk, at)
        except (CorruptRecordError, InvalidRecordError) as error:
            old = old_message(disk, path, position, size_bytes)
            if old is None:
                yield end_of(disk, path, (position, size_bytes), str(error), next_offset)
                return
            yield old
            position += old.size_bytes
            next_offset = old.offset + 1
            continue
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
    if size_bytes <= len(beginning):
        data = beginning[:size_bytes]
        return data if computed_crc(data, 0, size_bytes) == header.crc else None
    crc = 0
    end = position + size_bytes
    for at in range(position + ATTRIBUTES_POSITION, end, RECOVERY_CHUNK_BYTES):
        crc = crc32c(disk.read(path, at, min(RECOVERY_CHUNK_BYTES, end - at)), crc)
    return memoryview(disk.read(path, position, size_bytes)) if crc == header.crc else None


def old_message(disk: Disk, path: str, position: int, size_bytes: int) -> SeenMessage | None:
    """The message of an old format at `position`; None if there is none, or it does not fit into the file."""
    head = disk.read(path, position, MAGIC_POSITION + 1)
    if len(head) <= MAGIC_POSITION:
        return None
    length, _, magic = OLD_MESSAGE.unpack_from(head, LENGTH_POSITION)
    whole = LOG_OVERHEAD_BYTES + length
    if magic not in (0, 1) or length < OLD_MESSAGE_MIN_BYTES or position + whole > size_bytes:
        return None
    offset = int.from_bytes(head[:LENGTH_POSITION], "big", signed=True)
    return SeenMessage(position, offset, whole, magic, is_old_message(disk.read(path, position, whole)))


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
