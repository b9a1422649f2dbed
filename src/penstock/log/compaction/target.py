"""Where a pass puts the segments that it makes: new names in a directory, each made durable when it is whole."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import StorageError
from penstock.log.compaction.filtering import Kept
from penstock.log.compaction.passes import Pass
from penstock.log.compaction.transactions import AbortedTransaction
from penstock.log.disk import Buffer, Disk
from penstock.log.segment import Segment
from penstock.records.batch import NO_TIMESTAMP

POSITION_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Target:
    """A directory of `disk`, which exists; `suffix` is added to the names of files. Files there are written over."""

    disk: Disk
    name: str
    suffix: str = ""

    def begin(self, base_offset: int, work: Pass) -> NewSegment:
        return NewSegment(self, base_offset, work)


class NewSegment:
    """A segment that is being written: its records, and the indexes of what was written."""

    def __init__(self, target: Target, base_offset: int, work: Pass) -> None:
        self._target = target
        self._segment = Segment(target.name, base_offset, work.now_ms)
        self._index_interval_bytes = work.index_interval_bytes
        self._chunk_bytes = work.chunk_bytes
        self._chunks: list[Buffer] = []
        self._waiting_bytes = 0
        self._written_bytes = 0

    def append(self, kept: Kept) -> None:
        """Adds a batch; it reaches the disk some time before the end of `finish`.

        Raises StorageError for more than an index can point into, which messages of old formats may grow to.
        """
        if self._segment.reserved_bytes + len(kept.data) > POSITION_MAX:
            raise StorageError(f"{self._segment.log_path} would be larger than {POSITION_MAX} bytes")
        header = kept.header
        last_offset, timestamp_ms = header.last_offset, header.max_timestamp_ms
        if kept.damaged:  # what the checksum is about may be wrong
            last_offset, timestamp_ms = header.base_offset, NO_TIMESTAMP
        self._segment.reserve(len(kept.data), last_offset, timestamp_ms, self._index_interval_bytes)
        is_view = isinstance(kept.data, memoryview)  # which would hold all that was read with it
        self._chunks.append(bytes(kept.data) if is_view else kept.data)
        self._waiting_bytes += len(kept.data)
        if self._waiting_bytes >= self._chunk_bytes:
            self._write()

    def append_aborted(self, aborted: AbortedTransaction) -> None:
        """Adds an aborted transaction whose marker was the last batch."""
        self._segment.aborted_index.append(*aborted)

    def finish(self, modified_ms: int) -> None:
        """Writes the rest and the indexes, and makes all of it durable.

        `modified_ms` is when the last of the old segments was modified: that is the age of records without timestamps,
        and to be cleaned does not make them younger (`Cleaner.cleanSegments` of Apache Kafka 4.3).
        """
        disk, segment = self._target.disk, self._segment
        self._write()
        disk.set_modified(segment.log_path + self._target.suffix, modified_ms)
        segment.seal()
        for index in (segment.offset_index, segment.time_index, segment.aborted_index):
            tail = index.take_tail()
            if tail is not None or index is not segment.aborted_index:
                self._put(index.path, 0, [tail[2]] if tail is not None else [])
            elif disk.exists(index.path + self._target.suffix):  # left by a pass that did not end
                disk.unlink(index.path + self._target.suffix)
        for path in segment.paths:
            disk.fsync(path + self._target.suffix)

    def discard(self) -> None:
        """Removes what was written."""
        for path in self._segment.paths:
            self._target.disk.unlink(path + self._target.suffix)

    def _write(self) -> None:
        if self._chunks or not self._written_bytes:
            self._put(self._segment.log_path, self._written_bytes, self._chunks)
        self._written_bytes += self._waiting_bytes
        self._chunks, self._waiting_bytes = [], 0

    def _put(self, path: str, position: int, chunks: list[Buffer]) -> None:
        path += self._target.suffix
        self._target.disk.write(path, position, chunks)
        if not position:
            self._target.disk.truncate(path, sum(map(len, chunks)))
