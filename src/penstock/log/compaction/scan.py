"""The batches of one segment file for the cleaner, damaged ones too.

A batch whose checksum is wrong still has a place and a length, and is kept. Where even that is in doubt (a length that
leads out of the file or to more than the cleaner has memory for, an offset that goes back or belongs to another
segment, a message of an old format), nobody can say where the next batch begins: such a segment is `Unframed` and stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError, StorageError
from penstock.log.compaction.passes import Pass, SealedSegment
from penstock.log.disk import Disk
from penstock.log.index import RELATIVE_OFFSET_MAX
from penstock.records.batch import HEADER_BYTES, BatchHeader, computed_crc, headers, read_header


class Unframed(StorageError):
    """A segment in which the batches cannot be told apart; the message says where and why."""


class Found(NamedTuple):
    """A batch of a segment: its header and all of its bytes. `damaged`: its checksum is wrong."""

    header: BatchHeader
    data: memoryview
    damaged: bool


def batches(disk: Disk, path: str, segment: SealedSegment, work: Pass) -> Iterator[Found]:
    """Every batch of a segment's file, none of which takes more memory than the pass gives it. Raises Unframed."""
    for header, data in framed(disk, path, segment, work):
        yield Found(header, data, computed_crc(data, 0, len(data)) != header.crc)


def framed(disk: Disk, path: str, segment: SealedSegment, work: Pass) -> Iterator[tuple[BatchHeader, memoryview]]:
    """As `batches`; the checksums are not looked at."""
    base_offset, end_offset, size_bytes, *_ = segment
    next_offset, position = base_offset, 0
    end_offset = min(end_offset, base_offset + RELATIVE_OFFSET_MAX + 1)
    while position < size_bytes:
        chunk = next_chunk(disk, path, position, size_bytes, work)
        used = 0
        try:
            for at, header in headers(chunk):
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
        header = read_header(chunk)
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
    assert len(chunk) >= HEADER_BYTES
    return memoryview(chunk)
