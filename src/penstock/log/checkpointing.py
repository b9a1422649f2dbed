"""When the checkpoint files of the log directories are written: an interval after their first offset has changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.log.checkpoints import Checkpoint, TopicPartition
from penstock.log.deadlines import Deadlines
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import WriteCheckpoint
from penstock.log.log import Log
from penstock.log.outbox import Done, Outbox
from penstock.log.replica import Replica
from penstock.log.table import ReplicaTable


class LowerRecoveryPoint(WriteCheckpoint):
    """Writes the recovery points, with the lower one of a log that was truncated."""

    __slots__ = ()


class Checkpointing:
    """Collects changed offsets, and has the checkpoint files written."""

    def __init__(self, table: ReplicaTable, deadlines: Deadlines, outbox: Outbox) -> None:
        self._table = table
        self._deadlines = deadlines
        self._outbox = outbox
        self._removing: dict[Checkpoint, WriteCheckpoint] = {}
        """The last write of each since a partition was removed from it, until that write has ended."""

    def note(self, replica: Replica, checkpoint: Checkpoint, offset: int) -> None:
        """Has an offset written with the next write of this checkpoint, which belongs to the replica's directory."""
        if checkpoint.set(replica.key, offset):
            self._expect(replica.directory, checkpoint)

    def note_recovery_point(self, replica: Replica, log: Log) -> None:
        """Like `note`, for a log's recovery point."""
        self.note(replica, replica.directory.recovery_points, log.recovery_point)

    def forget(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """Removes a deleted partition from all checkpoints of its directory."""
        for checkpoint in directory.checkpoints:
            if checkpoint.remove(partition):
                self._expect(directory, checkpoint)

    def write(self, directory: LogDirectory, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint as it is now, if it changed."""
        if checkpoint.dirty and directory.error is None:
            self._emit(WriteCheckpoint, directory, checkpoint, self._written)

    def _emit(
        self, kind: type[WriteCheckpoint], directory: LogDirectory, checkpoint: Checkpoint, written: Done[Any]
    ) -> None:
        """Has a checkpoint written as it is now. If there is no room for it, as it is a little later."""
        removes = checkpoint.stale
        write = kind(directory.index, self._outbox, checkpoint.file, checkpoint.take())
        if removes:
            self._removing[checkpoint] = write

        def done(operation: WriteCheckpoint, result: None, now_ms: int) -> None:
            self._ended(checkpoint, operation)
            written(operation, result, now_ms)

        def later(operation: WriteCheckpoint, now_ms: int) -> None:
            checkpoint.dirty = True
            if self._ended(checkpoint, operation):
                checkpoint.stale = True
            self._outbox.try_later(again, now_ms, before_stop=True)  # somebody may wait for it

        def again(now_ms: int) -> None:
            if directory.error is None:
                self._emit(kind, directory, checkpoint, written)

        self._outbox.emit(write, done, no_room=later)

    def _ended(self, checkpoint: Checkpoint, write: WriteCheckpoint) -> bool:
        """Whether a write that has ended is the last one of its checkpoint since a partition was removed."""
        is_last = self._removing.get(checkpoint) is write
        if is_last:
            del self._removing[checkpoint]
        return is_last

    def write_stale(self, directory: LogDirectory) -> list[WriteCheckpoint]:
        """Writes the checkpoints from which a partition was removed, since a new one of the same name will be created.

        If the old offsets were still in the file after a crash, the new log would begin at the old one's start and be
        trusted up to the old one's recovery point. So it is created only after the writes that are returned: all of
        those that have not ended yet.
        """
        for checkpoint in directory.checkpoints:
            if checkpoint.stale:
                self.write(directory, checkpoint)
        return [self._removing[checkpoint] for checkpoint in directory.checkpoints if checkpoint in self._removing]

    def lower_clean_offset(self, replica: Replica, end_offset: int, then: Callable[[int], None]) -> None:
        """A log ends at `end_offset` now. Calls `then` once no checkpoint on the disk says that it was cleaned beyond.

        What is appended there was never cleaned. If it counted as clean, a delete marker in it would go in the end,
        and the older records with its key would stay.
        """
        directory = replica.directory
        checkpoint = directory.clean_offsets
        if (checkpoint.get(replica.key) or 0) <= end_offset:
            then(self._deadlines.now_ms)
            return
        checkpoint.set(replica.key, end_offset)

        def written(operation: WriteCheckpoint, result: None, now_ms: int) -> None:
            self._written(operation, result, now_ms)
            then(now_ms)

        self._emit(WriteCheckpoint, directory, checkpoint, written)

    def lower_recovery_point(self, replica: Replica, log: Log, now_ms: int) -> None:
        """A log was truncated. The truncation ends when no checkpoint is beyond the new end: a recovery after a crash
        would trust records appended before that without a check.
        """
        directory = replica.directory
        checkpoint = directory.recovery_points
        lowered = (checkpoint.get(replica.key) or 0) > log.recovery_point
        self.note_recovery_point(replica, log)
        if not lowered:
            log.end_truncation(now_ms)
            return

        def written(operation: LowerRecoveryPoint, result: None, now_ms: int) -> None:
            self._written(operation, result, now_ms)
            if replica.log is log:
                log.end_truncation(now_ms)

        self._emit(LowerRecoveryPoint, directory, checkpoint, written)

    def _written(self, operation: WriteCheckpoint, result: None, now_ms: int) -> None:
        self._deadlines.seen(now_ms)

    def _expect(self, directory: LogDirectory, checkpoint: Checkpoint) -> None:
        """Has a checkpoint written after its interval: it has become dirty."""
        settings = self._table.settings
        if checkpoint is directory.high_watermarks:
            interval_ms = settings.replica_high_watermark_checkpoint_interval_ms
        elif checkpoint is directory.log_starts:
            interval_ms = settings.log_flush_start_offset_checkpoint_interval_ms
        else:
            interval_ms = settings.log_flush_offset_checkpoint_interval_ms
        self._deadlines.after(interval_ms, lambda _: self.write(directory, checkpoint))
