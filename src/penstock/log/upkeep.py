"""What the log manager does from time to time: checkpoints, flush.ms, retention, idle producers, removal of what was
deleted.

Everything hangs on one heap of deadlines, and nothing is in it that has nothing to do: a checkpoint's deadline is set
when its first offset changes, a flush's when a log gets its first unflushed record, retention's by its schedule. So an
idle node has no deadline but the next segment that grows too old, and no tick walks all partitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.errors import NotResident
from penstock.log.checkpoints import Checkpoint, TopicPartition
from penstock.log.deadlines import Deadlines
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import ReadRange, RemoveDirectory, WriteCheckpoint
from penstock.log.disk import Operation
from penstock.log.events import CompactionPending, SegmentsRetired
from penstock.log.log import Log
from penstock.log.operations import UnlinkFiles
from penstock.log.part import ManagerPart
from penstock.log.replica import Replica, State
from penstock.log.retention import BATCH_REPLICAS_MAX, RetentionRequest, Retired, RetireSegments, Schedule

if TYPE_CHECKING:
    from penstock.log.manager import LogManager


class Upkeep(ManagerPart):
    """The periodic work of a log manager.

    Attributes: `now_ms`, the latest time that an event brought; it stands still while nothing happens.
    """

    def __init__(self, manager: LogManager) -> None:
        super().__init__(manager)
        self.schedule = Schedule()
        self.now_ms = 0
        self._deadlines = Deadlines()
        self._next_look_ms = 0
        self._look_set_ms: int | None = None
        self._to_look_at: dict[int, list[Replica]] = {}
        self._removals: dict[int, Operation] = {}
        self._removal = 0
        self._compaction_reported: set[str] = set()
        self._with_producers: dict[str, Replica] = {}

    def start(self, now_ms: int) -> None:
        """Sets the first look of retention."""
        self.now_ms = now_ms
        self._next_look_ms = now_ms + self.manager.settings.log_initial_task_delay_ms
        self.arm_retention()

    def tick(self, now_ms: int) -> None:
        """Does what is due."""
        self.now_ms = max(self.now_ms, now_ms)
        self._deadlines.advance(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When there is something to do next."""
        return self._deadlines.next_ms()

    def stop(self) -> None:
        """Does at once what waits for a delay: files that are deleted already go before a clean stop."""
        for number in list(self._removals):
            self._remove_now(number)
        self._to_look_at.clear()

    def completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)
        if isinstance(operation, RetireSegments):
            self._retired(operation, result, now_ms)
        elif isinstance(operation, ReadRange):
            replica = self.manager.find_name(operation.path.partition("/")[0])
            if replica is not None:
                self._look_at_open(replica, now_ms)

    # Checkpoints

    def note(self, directory: LogDirectory, checkpoint: Checkpoint, partition: TopicPartition, offset: int) -> None:
        """Has an offset written with the next checkpoint."""
        if checkpoint.set(partition, offset):
            self._set_checkpoint(directory, checkpoint)

    def forget(self, directory: LogDirectory, partition: TopicPartition) -> None:
        """A partition is gone: it leaves all checkpoints of its directory."""
        for checkpoint in directory.checkpoints:
            if checkpoint.remove(partition):
                self._set_checkpoint(directory, checkpoint)

    def write_checkpoint(self, directory: LogDirectory, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint as it is now, if it changed."""
        if checkpoint.dirty and directory.error is None:
            self.manager.emit(WriteCheckpoint(directory.index, self, checkpoint.file, checkpoint.take()))

    def write_stale_checkpoints(self, directory: LogDirectory) -> None:
        """Writes those that have forgotten a partition: one of the same name is about to be made.

        Were the old offsets still in the file after a crash, the new log would begin at the old one's start and be
        trusted up to the old one's recovery point.
        """
        for checkpoint in directory.checkpoints:
            if checkpoint.stale:
                self.write_checkpoint(directory, checkpoint)

    def _set_checkpoint(self, directory: LogDirectory, checkpoint: Checkpoint) -> None:
        settings = self.manager.settings
        if checkpoint is directory.high_watermarks:
            interval_ms = settings.replica_high_watermark_checkpoint_interval_ms
        elif checkpoint is directory.log_starts:
            interval_ms = settings.log_flush_start_offset_checkpoint_interval_ms
        else:
            interval_ms = settings.log_flush_offset_checkpoint_interval_ms
        self._deadlines.at(self.now_ms + interval_ms, lambda _: self.write_checkpoint(directory, checkpoint))

    # flush.ms

    def expect_flush(self, replica: Replica, log: Log) -> None:
        """A log was written to: sets its flush.ms, unless that is off or set already."""
        if replica.flush_set:
            return
        due_ms = log.flush_deadline_ms()
        if due_ms is not None:
            replica.flush_set = True
            self._deadlines.at(due_ms, lambda now_ms: self._flush(replica, now_ms))

    def _flush(self, replica: Replica, now_ms: int) -> None:
        replica.flush_set = False
        if replica.state is not State.OPEN or replica.log is None:
            return
        due_ms = replica.log.flush_deadline_ms()
        if due_ms is not None and due_ms <= now_ms:
            replica.log.flush(now_ms)
        else:
            self.expect_flush(replica, replica.log)

    # Producers

    def expect_expiry(self, replica: Replica, log: Log) -> None:
        """A log was opened or written to: has it looked through for idle producers, if it knows any."""
        if log.producers.producers and log.name not in self._with_producers:
            if not self._with_producers:
                self._set_expiry()
            self._with_producers[log.name] = replica

    def _set_expiry(self) -> None:
        interval_ms = self.manager.settings.producer_id_expiration_check_interval_ms
        self._deadlines.at(self.now_ms + interval_ms, self._expire_producers)

    def _expire_producers(self, now_ms: int) -> None:
        """Forgets idle producers of open logs; a log that is closed meanwhile does so when it is loaded."""
        watched, self._with_producers = self._with_producers, {}
        expiration_ms = self.manager.settings.producer_id_expiration_ms
        for name, replica in watched.items():
            log = replica.log
            if replica.state is State.OPEN and log is not None:
                log.producers.expiration_ms = expiration_ms
                log.producers.remove_expired(now_ms)
                if log.producers.producers:
                    self._with_producers[name] = replica
        if self._with_producers:
            self._set_expiry()

    # Retention

    def changed(self, replica: Replica) -> None:
        """A replica has grown, or its rules are others. A future one begins where the other of its partition does."""
        if replica.is_future:
            return
        self.schedule.changed(replica)
        if self._look_set_ms is None or self._look_set_ms > self._next_look_ms:
            self.arm_retention()

    def arm_retention(self) -> None:
        """Sets the next look: when there is something to look at, but not before the check interval is over."""
        due_ms = self.schedule.next_ms()
        if due_ms is None:
            return
        look_ms = max(due_ms, self._next_look_ms)
        if self._look_set_ms is None or look_ms < self._look_set_ms:
            self._look_set_ms = look_ms
            self._deadlines.at(look_ms, lambda now_ms: self._look(look_ms, now_ms))

    def _look(self, set_for_ms: int, now_ms: int) -> None:
        if set_for_ms != self._look_set_ms or self.manager.stopping:
            return
        self._look_set_ms = None
        self._next_look_ms = now_ms + self.manager.settings.log_retention_check_interval_ms
        for replica in self.schedule.take(now_ms):
            if replica.state in (State.GONE, State.BROKEN) or replica.directory.error is not None:
                continue
            self._note_compaction(replica.topic)
            if replica.state is State.OPEN:
                self._look_at_open(replica, now_ms)
            elif replica.state is State.CLOSED:
                self._to_look_at.setdefault(replica.directory.index, []).append(replica)
            else:
                self.schedule.changed(replica)
        for index in list(self._to_look_at):
            self._look_at_closed(index, now_ms)
        self.arm_retention()

    def _note_compaction(self, topic: str) -> None:
        if topic not in self._compaction_reported and "compact" in self.manager.topic_config(topic).cleanup_policy:
            self._compaction_reported.add(topic)
            self.manager.report(CompactionPending(topic))

    def _look_at_open(self, replica: Replica, now_ms: int) -> None:
        log = replica.log
        if replica.state is not State.OPEN or log is None:
            self.schedule.changed(replica)
            return
        high_watermark = replica.directory.high_watermarks.get(replica.key) or 0
        before_bytes = log.size_bytes
        try:
            segments = log.delete_old_segments(now_ms, high_watermark)
            next_ms = log.next_retention_ms()
        except NotResident as missing:
            self.manager.emit(ReadRange(missing.directory, self, missing.path, missing.position, missing.length))
            return
        if segments:
            removed_bytes = before_bytes - log.size_bytes
            self.manager.report(SegmentsRetired(log.name, segments, removed_bytes, log.log_start_offset, "retention"))
        self.schedule.expect(replica, next_ms)
        self.arm_retention()

    def _look_at_closed(self, index: int, now_ms: int) -> None:
        """The next few closed logs of a directory; those after them when these are done."""
        waiting = self._to_look_at.pop(index, [])
        batch, rest = waiting[:BATCH_REPLICAS_MAX], waiting[BATCH_REPLICAS_MAX:]
        if rest:
            self._to_look_at[index] = rest
        replicas, requests = [], []
        for replica in batch:
            if replica.state is State.CLOSED:
                replica.state = State.RETIRING
                config = self.manager.topic_config(replica.topic)
                log_start_offset = replica.directory.log_starts.get(replica.key) or 0
                high_watermark = replica.directory.high_watermarks.get(replica.key) or 0
                replicas.append(replica)
                requests.append(RetentionRequest.of(replica.name, config, log_start_offset, high_watermark))
            elif replica.state is not State.GONE:
                self.schedule.changed(replica)
        if requests:
            self.manager.emit(RetireSegments(index, self, replicas, requests, now_ms))
        elif rest:
            self._look_at_closed(index, now_ms)

    def _retired(self, operation: RetireSegments, results: Sequence[Retired], now_ms: int) -> None:
        for replica, result in zip(operation.replicas, results, strict=True):
            if replica.state is not State.RETIRING:
                self.manager.lifecycle.leave_if_held(replica)
                continue
            self._note_retired(replica, result, now_ms)
            self.manager.lifecycle.settled(replica, now_ms)
            if result.needs_log and not self.manager.stopping:
                replica.when_open().append(partial(self._look_at_open, replica))
                self.manager.lifecycle.proceed(replica, now_ms)
        if not self.manager.stopping and operation.directory in self._to_look_at:
            self._look_at_closed(operation.directory, now_ms)
        self.arm_retention()

    def _note_retired(self, replica: Replica, result: Retired, now_ms: int) -> None:
        replica.size_bytes = result.size_bytes
        if not result.needs_log:
            self.schedule.expect(replica, result.next_ms)
        if result.paths:
            self.unlink_later(replica, result.paths, now_ms)
            reason = " and ".join(result.reasons)
            self.manager.report(
                SegmentsRetired(result.name, result.segments, result.bytes, result.log_start_offset, reason)
            )

    # Removal after a delay

    def unlink_later(self, replica: Replica, paths: Sequence[str], now_ms: int) -> None:
        """Removes files that were renamed to `.deleted` after file.delete.delay.ms."""
        delay_ms = self.manager.topic_config(replica.topic).file_delete_delay_ms
        unlink = UnlinkFiles(replica.directory.index, f"{replica.name}/unlink", self, paths)
        self._remove_at(now_ms + delay_ms, unlink)

    def remove_later(self, directory: int, name: str, topic: str, now_ms: int) -> None:
        """Removes a directory that was renamed to `-delete` after file.delete.delay.ms."""
        delay_ms = self.manager.topic_config(topic).file_delete_delay_ms
        self._remove_at(now_ms + delay_ms, RemoveDirectory(directory, self, name))

    def _remove_at(self, due_ms: int, operation: Operation) -> None:
        self._removal += 1
        number = self._removal
        self._removals[number] = operation
        self._deadlines.at(due_ms, lambda _: self._remove_now(number))
        if self.manager.stopping:
            self._remove_now(number)

    def _remove_now(self, number: int) -> None:
        operation = self._removals.pop(number, None)
        if operation is not None:
            self.manager.emit(operation)
