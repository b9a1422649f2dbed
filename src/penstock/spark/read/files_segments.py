"""The closed segments of one partition's directory, read without the broker that owns them.

The directory is opened once and every name is looked up in it (`openat`), so a topic that is deleted and created anew
under the same name is never mistaken for the old one. An open file stays readable when it is deleted or replaced.
Nothing is mapped into memory: a file that shrinks is a short read here and would be a SIGBUS there.

What comes out are whole batches with the right CRC whose offsets rise; whether that is what the broker would have given
is for `files` to find out, and docs/explanation/direct-reads.md says why that suffices.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import deque
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import NamedTuple, Self
from uuid import UUID

from crc32c import crc32c

from penstock.client.limits import CLIENT_RESPONSE_BYTES
from penstock.errors import StorageError
from penstock.log import partition_metadata
from penstock.log.names import LOG, OFFSET_INDEX, PARTITION_METADATA, file_name, offset_of
from penstock.records.batch import (
    ATTRIBUTES_POSITION,
    BASE_OFFSET,
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    TRANSACTIONAL_FLAG,
)
from penstock.spark.limits import SPARK_FILE_READ_BYTES

BATCH = Struct(">qiibIhi")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta."""
INDEX_ENTRY = Struct(">ii")
OLD_FORMAT = "has a message of a format of before Kafka 0.11 where a batch should be"
PARTITION_METADATA_BYTES = 4096


Spare = deque[bytearray]
"""Buffers that have been read into and decoded: memory that the system has already handed out and cleared."""


class Elsewhere(Exception):
    """Says that the next records cannot be read from files: why, and up to which offset (None: for good)."""

    def __init__(self, reason: str, until: int | None = None, *, active: bool = False) -> None:
        super().__init__(reason)
        self.until = until
        self.active = active
        """Whether the reason is only that the segment is not closed yet."""


class Hole(Exception):
    """No batch has offsets in [`start`, `end`), the bounds of two files. The broker must say so too."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(f"no file has the offsets {start} to {end - 1}")
        self.start, self.end = start, end


class _Stale(Exception):
    """The list of files is not that of the directory any more."""


class Piece(NamedTuple):
    """Whole batches that follow each other, and the offset after the last of them."""

    records: memoryview
    next_offset: int


class _Segment:
    """An open file of a closed segment, how far it has been read, and where the next file begins.

    `expected` is the least offset that the next batch may have: -1 before the first one, which may begin anywhere.
    """

    __slots__ = ("at", "base_offset", "descriptor", "expected", "following", "name")

    def __init__(self, directory: int, base_offset: int, following: int) -> None:
        self.base_offset = base_offset
        self.following = following
        self.expected = -1
        self.name = file_name(base_offset, LOG)
        self.descriptor = os.open(self.name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
        self.at = 0

    def close(self) -> None:
        os.close(self.descriptor)

    def seek(self, directory: int, offset: int) -> None:
        """Goes to a batch from which a walk reaches `offset`, by the index if that can be trusted, else to the start.

        The index may be another file's than the one that is open, if the cleaner just replaced both: then the name
        leads to another file now. A batch header in the wrong place would still fail its CRC.
        """
        self.at = 0
        position = _indexed(directory, self.base_offset, offset)
        here = os.fstat(self.descriptor)
        try:
            named = os.stat(self.name, dir_fd=directory)
        except FileNotFoundError:
            return
        if (named.st_ino, named.st_dev) != (here.st_ino, here.st_dev) or not 0 < position < here.st_size:
            return
        header = os.pread(self.descriptor, BATCH.size, position)
        if len(header) == BATCH.size:
            base_offset, length, _, magic, *_ = BATCH.unpack(header)
            if magic == MAGIC and length >= HEADER_BYTES - LOG_OVERHEAD_BYTES and base_offset <= offset:
                self.at = position

    def base_offset_at(self, at: int, data: memoryview) -> int:
        """The base offset of the batch `at` bytes further on, of which `data` may hold the beginning."""
        head = data[at : at + BASE_OFFSET.size]
        if len(head) < BASE_OFFSET.size:
            head = memoryview(os.pread(self.descriptor, BASE_OFFSET.size, self.at + at))
        return int(BASE_OFFSET.unpack(head)[0]) if len(head) == BASE_OFFSET.size else self.following

    def read(self, size_bytes: int, spare: Spare) -> memoryview:
        """Up to `size_bytes` from where the segment stands, in a buffer that nobody else uses meanwhile."""
        buffer = memoryview(_buffer(size_bytes, spare))
        filled = 0
        while filled < size_bytes:
            count = os.preadv(self.descriptor, [buffer[filled:]], self.at + filled)
            if not count:
                break
            filled += count
        return buffer[:filled]


class PartitionFiles:
    """The segments of one partition. A context manager; not for use by two threads at once.

    Args:
        path: the partition's directory.
        topic_id: whose directory it must be.
        leader_epoch: the newest that a batch may have.
        committed: whether transactions are to be left to the broker, which knows how each of them ended.
        spare: buffers to read into; the reader of a piece adds its buffer when it is done with it.

    Raises Elsewhere when the directory is not there, may not be read, or is another topic's.
    """

    def __init__(self, path: Path, topic_id: UUID, leader_epoch: int, *, committed: bool, spare: Spare) -> None:
        self._spare = spare
        self._leader_epoch = leader_epoch
        self._hidden = TRANSACTIONAL_FLAG | CONTROL_FLAG if committed else 0
        self._segment: _Segment | None = None
        self._least = 0
        try:
            self._directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Elsewhere(f"{path}: {os.strerror(error.errno or 0).lower()}") from None
        try:
            self._check_id(path, topic_id)
            self._bases = self._list()
        except BaseException:
            os.close(self._directory)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._leave()
        os.close(self._directory)

    def pass_over(self, end: int) -> None:
        """Skips to `end`: according to the broker, no unread records are left below it."""
        self._least = end

    def relist(self) -> None:
        """Forgets which files there were."""
        self._leave()
        self._bases = self._list()

    def read(self, position: int, end: int) -> Piece:
        """The next whole batches, from the one with `position` on, to the one with `end` at most.

        Raises Elsewhere or Hole; then nothing is lost, and a later call may ask for any position.
        """
        relisted = False
        while True:
            try:
                segment = self._segment_of(position)
                piece = self._read(segment, position, end)
                if piece is not None:
                    return piece
                self._pass_to_next(segment, position)
            except (FileNotFoundError, _Stale) as error:
                if relisted:
                    self._leave()
                    why = str(error) if isinstance(error, _Stale) else "a segment's file is gone"
                    raise Elsewhere(why, self._following(position)) from None
            except Elsewhere as error:
                if not error.active or relisted:
                    raise
            except OSError as error:
                self._leave()
                raise Elsewhere(os.strerror(error.errno or 0).lower(), self._following(position)) from None
            else:
                continue
            relisted = True
            self.relist()

    def _check_id(self, path: Path, topic_id: UUID) -> None:
        try:
            descriptor = os.open(PARTITION_METADATA, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._directory)
            try:
                found = partition_metadata.decode(os.read(descriptor, PARTITION_METADATA_BYTES), str(path))
            finally:
                os.close(descriptor)
        except (OSError, StorageError) as error:
            raise Elsewhere(f"{path} has no {PARTITION_METADATA} that can be read ({error})") from None
        if found != topic_id:
            raise Elsewhere(f"{path} belongs to another topic of this name")

    def _list(self) -> list[int]:
        offsets = (offset_of(name, LOG) for name in os.listdir(self._directory))
        return sorted(offset for offset in offsets if offset is not None)

    def _leave(self) -> None:
        if self._segment is not None:
            self._segment.close()
            self._segment = None

    def _following(self, position: int) -> int | None:
        """Where the segment after the one with `position` begins."""
        slot = bisect_right(self._bases, position)
        return self._bases[slot] if slot < len(self._bases) else None

    def _segment_of(self, position: int) -> _Segment:
        """The open segment with `position`. Raises Elsewhere if that is not a closed one."""
        if self._segment is not None:
            return self._segment
        wanted = max(position, self._least)
        slot = bisect_right(self._bases, wanted) - 1
        if slot < 0:
            raise Elsewhere(f"no file has the offset {position}", self._following(wanted))
        if slot == len(self._bases) - 1:
            raise Elsewhere(f"the segment with the offset {position} is not closed yet", active=True)
        segment = _Segment(self._directory, self._bases[slot], self._bases[slot + 1])
        try:
            segment.seek(self._directory, position)
        except BaseException:
            segment.close()
            raise
        self._segment = segment
        return segment

    def _pass_to_next(self, segment: _Segment, position: int) -> None:
        """The open segment is at its end: the next one follows, or there is a hole between the two."""
        self._leave()
        slot = bisect_right(self._bases, max(segment.base_offset, self._least))
        if self._bases[slot] > position:
            if slot == len(self._bases) - 1:
                raise Elsewhere(f"the segment with the offset {position} is not closed yet", active=True)
            raise Hole(position, self._bases[slot])

    def _read(self, segment: _Segment, position: int, end: int) -> Piece | None:
        """Batches of one file; None at its end."""
        size_bytes = SPARK_FILE_READ_BYTES
        while True:
            data = segment.read(size_bytes, self._spare)
            first, last, next_offset, wanted_bytes = self._walk(segment, data, position, end)
            if last > first:
                if segment.base_offset_at(last, data) < next_offset:  # the CRC does not cover base offsets
                    raise self._broken(segment, position, f"goes back from the offset {next_offset}")
                segment.at += last
                segment.expected = next_offset
                return Piece(data[first:last], next_offset)
            if len(data) < size_bytes:
                if first < len(data):
                    raise self._broken(segment, position, "ends within a batch")
                return None
            if wanted_bytes > CLIENT_RESPONSE_BYTES:
                raise self._broken(segment, position, f"has a batch of {wanted_bytes} bytes")
            segment.at += first
            size_bytes = max(wanted_bytes, SPARK_FILE_READ_BYTES)

    def _walk(self, segment: _Segment, data: memoryview, position: int, end: int) -> tuple[int, int, int, int]:
        """Which bytes of `data` are the batches wanted, the offset after them, and the size of what did not fit."""
        first = at = size = 0
        expected = segment.expected
        unpack, total, hidden = BATCH.unpack_from, len(data), self._hidden
        while total - at >= HEADER_BYTES and expected < end:
            base_offset, length, epoch, magic, crc, attributes, last_delta = unpack(data, at)
            size, last_offset = length + LOG_OVERHEAD_BYTES, base_offset + last_delta
            if magic != MAGIC or size < HEADER_BYTES or last_delta < 0 or epoch > self._leader_epoch:
                why = OLD_FORMAT if magic in (0, 1) else "has no batch where one should be"
                raise self._broken(segment, position, why)
            if base_offset < expected:
                raise self._broken(segment, position, f"goes back to the offset {base_offset}")
            if size > total - at:
                break
            if last_offset < position:  # before what is wanted
                at += size
                first = at
                continue
            if last_offset >= segment.following:  # the cleaner made one file of two
                raise _Stale(f"{segment.name} has the offset {last_offset}, which belongs into the next file")
            if crc32c(data[at + ATTRIBUTES_POSITION : at + size]) != crc:
                raise self._broken(segment, position, f"has a wrong CRC at the offset {base_offset}")
            if attributes & hidden:
                if at > first:
                    break
                raise self._broken(segment, position, "has transactions, whose ends the broker knows")
            expected = last_offset + 1
            at += size
        return first, at, expected, size if total - at >= HEADER_BYTES else HEADER_BYTES

    def _broken(self, segment: _Segment, position: int, why: str) -> Elsewhere:
        self._leave()
        return Elsewhere(f"{segment.name} {why}", self._following(max(position, segment.base_offset)))


def _buffer(size_bytes: int, spare: Spare) -> bytearray:
    """A spare buffer of that size, or a new one. Several threads may ask."""
    try:
        buffer = spare.pop()
    except IndexError:
        return bytearray(size_bytes)
    return buffer if len(buffer) == size_bytes else bytearray(size_bytes)


def _indexed(directory: int, base_offset: int, offset: int) -> int:
    """Where the index says that a batch at or before `offset` begins; 0 where it says nothing."""
    if offset <= base_offset:
        return 0
    try:
        descriptor = os.open(file_name(base_offset, OFFSET_INDEX), os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory)
    except OSError:
        return 0
    try:
        low, high, position = 0, os.fstat(descriptor).st_size // INDEX_ENTRY.size, 0
        while low < high:
            middle = (low + high) // 2
            entry = os.pread(descriptor, INDEX_ENTRY.size, middle * INDEX_ENTRY.size)
            if len(entry) < INDEX_ENTRY.size:
                return 0
            relative_offset, at = INDEX_ENTRY.unpack(entry)
            if relative_offset <= offset - base_offset:
                low, position = middle + 1, at
            else:
                high = middle
        return position
    finally:
        os.close(descriptor)
