"""The batches of one segment file for the cleaner, damaged ones too.

A batch whose checksum is wrong still has a place and a length, and is kept. Where even that is in doubt (a length that
leads out of the file or to more than the cleaner has memory for, an offset that goes back or belongs to another
segment), nobody can say where the next batch begins: such a segment is `Unframed` and stays as it is.

A message of format 0 or 1 is made a batch here, as in Apache Kafka since 4.0; if that cannot be, it counts as damaged.
(Kafka decides on the delete markers of such messages by the times of files. Here they stay for
`delete.retention.ms` from the pass on that converts them.)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, StorageError
from penstock.log.compaction.passes import Pass, SealedSegment
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.records.batch import BatchHeader, check_crc, computed_crc, entries, read_entry, read_header
from penstock.records.compression import Contexts
from penstock.records.legacy.up_conversion import converted

COPIES = 4
"""The records of a batch are in memory so many times at most."""
WRONG_CHECKSUM = "its checksum is wrong"


class Unframed(StorageError):
    """A segment in which the batches cannot be told apart; the message says where and why."""


class Found(NamedTuple):
    """A batch of a segment: its header and all of its bytes.

    Attributes:
        damaged: why it cannot be read, "" if it can.
        old_bytes: the size of the message of format 0 or 1 that it was made of; 0 if it was none.
    """

    header: BatchHeader
    data: memoryview
    damaged: str = ""
    old_bytes: int = 0

    @property
    def file_bytes(self) -> int:
        """What it takes in the file."""
        return self.old_bytes or self.header.size_bytes


def batches(disk: Disk, path: str, segment: SealedSegment, work: Pass, contexts: Contexts) -> Iterator[Found]:
    """Every batch of a segment's file, none of which takes more memory than the pass gives it. Raises Unframed."""
    next_offset = segment.base_offset
    for header, data in framed(disk, path, segment, work):
        if computed_crc(data, 0, len(data)) == header.crc:
            yield Found(header, data)
        elif header.is_old:
            yield from_old(header, data, work, contexts, next_offset)
        else:
            yield Found(header, data, WRONG_CHECKSUM)
        next_offset = header.next_offset


def from_old(header: BatchHeader, data: memoryview, work: Pass, contexts: Contexts, next_offset: int) -> Found:
    """A message of format 0 or 1 as a batch, which must begin at `next_offset` at least: a recovery ends the log at a
    batch that goes back, but does not see which offsets a compressed message holds.
    """
    try:
        check_crc(data, 0, header)
    except CorruptRecordError:
        return Found(header, data, WRONG_CHECKSUM)
    try:
        batch = converted(data, header, 0, contexts, (work.batch_memory_bytes - len(data)) // COPIES)
    except (CorruptRecordError, InvalidRecordError) as error:
        return Found(header, data, str(error))
    made = read_header(batch)
    if made.base_offset < next_offset:
        return Found(header, data, f"it holds offset {made.base_offset}, which is before {next_offset}")
    return Found(made, memoryview(batch), "", header.size_bytes)


def framed(disk: Disk, path: str, segment: SealedSegment, work: Pass) -> Iterator[tuple[BatchHeader, memoryview]]:
    """As `batches`; the checksums are not looked at."""
    base_offset, end_offset, size_bytes, *_ = segment
    next_offset, position = base_offset, 0
    end_offset = min(end_offset, base_offset + RELATIVE_OFFSET_MAX + 1)
    while position < size_bytes:
        chunk = next_chunk(disk, path, position, size_bytes, work)
        used = 0
        try:
            for at, header in entries(chunk):
                if not next_offset <= header.base_offset <= header.last_offset < end_offset:
                    raise CorruptRecordError(
                        f"the offsets {header.base_offset} to {header.last_offset} are not between {next_offset} and "
                        f"{end_offset}"
                    )
                yield header, chunk[at : at + header.size_bytes]
                next_offset = header.next_offset
                used = at + header.size_bytes
        except (CorruptRecordError, InvalidRecordError) as error:
            raise Unframed(f"{path} at byte {position + used}: {error}") from None
        assert used, "a chunk holds a whole batch"
        position += used


def next_chunk(disk: Disk, path: str, position: int, size_bytes: int, work: Pass) -> memoryview:
    """Bytes from `position` on that hold at least one whole batch, or begin with something else. Raises Unframed."""
    chunk = disk.read(path, position, min(work.chunk_bytes, size_bytes - position))
    try:
        header = read_entry(chunk)
    except (CorruptRecordError, InvalidRecordError) as error:
        raise Unframed(f"{path} at byte {position}: {error}") from None
    if header.size_bytes > size_bytes - position:
        raise Unframed(
            f"{path} at byte {position}: a batch of {header.size_bytes} bytes where {size_bytes - position} are left"
        )
    if header.size_bytes > work.batch_memory_bytes:
        raise Unframed(
            f"{path} at byte {position}: a batch of {header.size_bytes} bytes, and the cleaner reads "
            f"{work.batch_memory_bytes} at most"
        )
    if header.size_bytes > len(chunk):
        chunk = disk.read(path, position, header.size_bytes)
    return memoryview(chunk)
