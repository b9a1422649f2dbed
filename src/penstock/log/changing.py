"""The part of a log that deals with its files: operations waiting and ending, rolls, flushes, the close.

Every method changes the state on the loop and queues what the files need; the end of an operation settles it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, cast

from penstock.config.topic import TopicConfig
from penstock.config.values import LONG_MAX
from penstock.errors import ErrorCode, RequestError, StorageError
from penstock.log import producer_snapshot
from penstock.log.disk import Operation
from penstock.log.leader_epochs import LeaderEpochs
from penstock.log.names import LEADER_EPOCHS, SNAPSHOT, file_name
from penstock.log.operations import Close, Flush, Fuse, ReplaceFile, Roll, Snapshot, Write
from penstock.log.producer_state import ProducerState, Step
from penstock.log.reading import ReadableLog, remember
from penstock.log.results import LogOwner, Randomness
from penstock.log.segment import Segment

if TYPE_CHECKING:
    from penstock.log.log import Log


class ChangingLog(ReadableLog):
    """What changing a log's files needs of it. `penstock.log.log.Log` documents the attributes that others use.

    Attributes:
        pending: operations to be taken. outstanding: those and the ones taken that have not ended.
        open_write: the last pending write while appends may still join it; `writes`: all that have not ended.
        generation: counts truncations; a flush of an earlier one says nothing of this log.
        close_when_cut: `close` waits for the end of a truncation.
        directory_dirty: files were made or renamed since the directory was last flushed.
        flush_requested: the end offset of the last flush that was queued.
        first_unflushed_ms: when the oldest write completed that is not flushed; -1 if all are.
        snapshots: offsets of the producer snapshots, rising.
        stale_paths: files of no use, removed by the next roll.
    """

    __slots__ = (
        "close_when_cut",
        "closed",
        "config",
        "directory_dirty",
        "failed",
        "first_unflushed_ms",
        "flush_requested",
        "fuse",
        "generation",
        "leader_epochs",
        "open_write",
        "outstanding",
        "owner",
        "pending",
        "producers",
        "random",
        "recovery_point",
        "reserved_end_offset",
        "snapshots",
        "stale_paths",
        "writes",
    )

    config: TopicConfig
    owner: LogOwner
    random: Randomness
    fuse: Fuse
    producers: ProducerState
    leader_epochs: LeaderEpochs
    reserved_end_offset: int
    recovery_point: int
    pending: list[Operation]
    writes: deque[Write]
    open_write: Write | None
    outstanding: int
    generation: int
    failed: bool
    closed: bool
    close_when_cut: bool
    directory_dirty: bool
    flush_requested: int
    first_unflushed_ms: int
    snapshots: list[int]
    stale_paths: list[str]

    @property
    def _whole(self) -> Log:
        """This log, as its owner knows it."""
        return cast("Log", self)

    @property
    def idle(self) -> bool:
        """Whether no operation waits or runs."""
        return self.outstanding == 0

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation that was taken has ended well."""
        raise NotImplementedError

    def _check_usable(self) -> None:
        if self.failed or self.closed:
            raise StorageError(f"{self.name} has failed or is closed")
        if self.truncating:
            raise RequestError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"{self.name} is being truncated")

    def _queue(self, operation: Operation) -> None:
        """Has an operation wait for `take_operations`. What is not a write ends the open one."""
        if type(operation) is not Write:
            self._seal_write()
        self._add(operation)

    def _add(self, operation: Operation) -> None:
        self.outstanding += 1
        self.pending.append(operation)
        if len(self.pending) == 1:
            self.owner.log_has_operations(self._whole)

    def _seal_write(self) -> None:
        """Decides what goes with the open write; later appends begin another."""
        write, self.open_write = self.open_write, None
        if write is None:
            return
        segment = write.segment
        if segment.offset_index.tail_is_long or segment.time_index.tail_is_long or segment.aborted_index.tail_is_long:
            write.index_writes = segment.take_index_tails()
        if write.end_offset - self.recovery_point >= self.config.flush_messages:
            write.sync_paths = self._unflushed_paths()
            write.sync_directory = self.name if self.directory_dirty else None
            write.inline = False
            self.directory_dirty = False

    def take_operations(self) -> list[Operation]:
        """What waits to be done to the files, in order; the owner emits it and forgets it."""
        self._seal_write()
        pending, self.pending = self.pending, []
        return pending

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """An operation that was taken has failed: the log is dead from here on, and what was reserved is undone."""
        self.outstanding -= 1
        if self.failed:
            return
        self.failed = True
        while self.writes:
            self._undo(self.writes.pop().steps)
        self.reserved_end_offset = self.producers.end_offset = self.log_end_offset
        self.open_write = None
        self.owner.log_failed(self._whole, error, now_ms)

    def _write_completed(self, write: Write, now_ms: int) -> None:
        first = self.writes.popleft()
        assert first is write, "the writes of a log complete in order"
        segment = write.segment
        segment.size_bytes = write.position + write.size_bytes
        segment.modified_ms = now_ms
        for written in write.index_writes:
            segment.settle_index(written)
        if self.first_unflushed_ms < 0:
            self.first_unflushed_ms = now_ms
        if self.truncating:
            return
        self.log_end_offset = write.end_offset
        remember(self.ends, write.end_offset, (segment.base_offset, segment.size_bytes))
        if write.sync_paths:
            self._flushed_to(write.end_offset, now_ms)
        self.owner.log_advanced(self._whole, now_ms)

    def roll(self, now_ms: int) -> None:
        """Closes the active segment and begins the next, if the active one has any records."""
        self._check_usable()
        if self.segments and self.segments[-1].reserved_bytes:
            self._roll(self.reserved_end_offset, now_ms)

    def roll_if_due(self, now_ms: int) -> bool:
        """Rolls a segment that has waited for segment.ms, by the broker's clock; for logs without new appends."""
        segment = self.segments[-1] if self.segments else None
        if segment is None or not segment.reserved_bytes or self.failed or self.closed or self.truncating:
            return False
        if segment.waited_ms(now_ms, now_ms) <= self.config.max_segment_ms - segment.roll_jitter_ms:
            return False
        self._roll(self.reserved_end_offset, now_ms)
        return True

    def _roll(self, base_offset: int, now_ms: int) -> None:
        """Begins a segment at `base_offset`; the producers' snapshot says what came before it."""
        old = self.segments[-1] if self.segments else None
        if old is not None:
            if base_offset == old.base_offset:
                return
            old.seal()
        new = Segment(self.name, base_offset, now_ms)
        new.roll_jitter_ms = self._jitter_ms()
        self.producers.end_offset = base_offset
        stale, self.stale_paths = self.stale_paths, []
        self._seal_write()
        self._queue(Roll(self, old, new, self._take_snapshot(base_offset), stale))
        self.segments.append(new)
        self.bases.append(base_offset)
        self.directory_dirty = True

    def _write_epochs(self) -> None:
        self.leader_epochs.dirty = False
        path = f"{self.name}/{LEADER_EPOCHS}"
        self._queue(ReplaceFile(self, path, self.leader_epochs.encode()))

    def _undo(self, steps: list[Step]) -> None:
        for step in reversed(steps):
            self.producers.undo(step)

    def _jitter_ms(self) -> int:
        jitter_ms = min(self.config.segment_jitter_ms, self.config.max_segment_ms)
        return self.random.randrange(jitter_ms) if jitter_ms else 0

    def _take_snapshot(self, offset: int) -> Snapshot:
        """The producers as a file for `offset`, if there is none for it yet."""
        if self.snapshots and offset <= self.snapshots[-1]:
            return None
        if not self.producers.producers and not self.snapshots and offset == self.log_start_offset:
            return None
        self.snapshots.append(offset)
        return f"{self.name}/{file_name(offset, SNAPSHOT)}", producer_snapshot.encode(self.producers.producers)

    def _roll_completed(self, roll: Roll) -> None:
        """Flushes the old segment in the background, as appends go on."""
        old = roll.old
        if old is None:
            return
        for written in roll.index_writes:
            old.settle_index(written)
        if self.closed or self.truncating or old not in self.segments:
            return
        covered = [each for each in self.segments if not each.flushed and each.base_offset <= old.base_offset]
        paths = [path for segment in covered for path in segment.paths]
        if roll.snapshot:
            paths.append(roll.snapshot[0])
        flush = Flush(self, roll.new.base_offset, covered, paths, order=f"{self.name}/flush")
        flush.generation = self.generation
        self._add(flush)

    def flush(self, now_ms: int) -> None:
        """Has everything prepared so far fsynced, in order with appends; then `recovery_point` moves."""
        if self.failed or self.closed or self.truncating or not self.segments:
            return
        end_offset = self.reserved_end_offset
        if end_offset <= max(self.recovery_point, self.flush_requested) and not self.directory_dirty:
            return
        self._seal_write()
        self.flush_requested = end_offset
        closed = [segment for segment in self.segments[:-1] if not segment.flushed]
        flush = Flush(self, end_offset, closed, self._unflushed_paths())
        if not self.directory_dirty:
            flush.directory_path = None
        flush.generation = self.generation
        self.directory_dirty = False
        self._queue(flush)

    def _unflushed_paths(self) -> list[str]:
        """The files to fsync before all that is written counts: whole closed segments, and the active one's records."""
        closed = [path for segment in self.segments[:-1] if not segment.flushed for path in segment.paths]
        return [*closed, self.segments[-1].log_path]

    def _flush_completed(self, flush: Flush, now_ms: int) -> None:
        for segment in flush.segments:
            segment.flushed = True
        if type(flush) is Close:
            self.recovery_point = self.log_end_offset
            self.owner.log_closed(self._whole, now_ms)
        elif flush.generation == self.generation and not self.closed:
            self._flushed_to(flush.end_offset, now_ms)

    def _flushed_to(self, offset: int, now_ms: int) -> None:
        offset = min(offset, self.log_end_offset)
        if offset > self.recovery_point:
            self.recovery_point = offset
            self.first_unflushed_ms = -1 if offset == self.log_end_offset else now_ms
            self.owner.log_flushed(self._whole, now_ms)

    def flush_deadline_ms(self) -> int | None:
        """When flush.ms wants a flush; None when nothing is unflushed or flush.ms is off."""
        if self.first_unflushed_ms < 0 or self.config.flush_ms == LONG_MAX:
            return None
        return self.first_unflushed_ms + self.config.flush_ms

    def close(self, now_ms: int) -> None:
        """Writes what memory holds (index tails, producer snapshot), flushed; `owner.log_closed` when done.

        A log whose files say all already is closed at once, with no operation; one that is being truncated, after that.
        A failed log just ends.
        """
        assert not self.closed, f"{self.name} is closed already"
        if self.failed:
            self.closed = True
            return
        if self.truncating:
            self.close_when_cut = True
            return
        if not self.segments:
            self._closed_at_once(now_ms)
            return
        segment = self.segments[-1]
        segment.seal()
        end_offset = self.reserved_end_offset
        snapshot = self._take_snapshot(end_offset)
        memory_only = snapshot or segment.offset_index.tail or segment.time_index.tail or segment.aborted_index.tail
        if not memory_only and self.idle and not self.directory_dirty and self.recovery_point == end_offset:
            self._closed_at_once(now_ms)
            return
        self._seal_write()
        self.closed = True
        unflushed = [each for each in self.segments[:-1] if not each.flushed]
        self._queue(Close(self, end_offset, unflushed, segment, snapshot))

    def _closed_at_once(self, now_ms: int) -> None:
        self.closed = True
        self.owner.log_closed(self._whole, now_ms)
