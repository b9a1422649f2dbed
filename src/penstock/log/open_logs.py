"""From a directory to an open log and back: recovered if necessary, opened on demand, closed by LRU.

`proceed` takes the next step towards opening a replica that somebody waits for; when a step has completed, either the
next one follows or the waiting functions are called. After an unclean stop `recover_next` keeps a few recoveries going
of logs that nobody has asked for yet, those of coordinators first; one that is asked for begins at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from random import Random

from penstock.errors import StorageError
from penstock.log.checkpointing import Checkpointing
from penstock.log.compaction.schedule import CleaningSchedule
from penstock.log.compaction.swap import RemoveCleaned
from penstock.log.compaction.task import cleaning_order
from penstock.log.deadlines import Deadlines
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import OpenLog, RecoverLog, WritePartitionMetadata
from penstock.log.events import LogEvent, LogRecovered, RecordsLost, RecoveryFinished, RecoveryGoesOn, TailCut
from penstock.log.failures import Failures
from penstock.log.flushes import Flushes
from penstock.log.group_fsync import GroupFsync
from penstock.log.limits import BUSY_LOGS_PASSED_OVER_MAX, RECOVERY_SAID_EVERY_MS
from penstock.log.listener import LogListener
from penstock.log.loading import OpenArguments, RecoveryNeeded, is_deleted, nothing
from penstock.log.log import Log
from penstock.log.names import CLEANED, COORDINATOR_TOPICS
from penstock.log.outbox import Outbox
from penstock.log.producer_expiry import ProducerExpiry
from penstock.log.recovery import RecoveryReport
from penstock.log.recovery_task import ASKED_FOR, COORDINATORS, OTHERS
from penstock.log.removals import Removals
from penstock.log.replica import Replica, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.retention_schedule import RetentionSchedule
from penstock.log.space_looks import SpaceLooks
from penstock.log.table import ReplicaTable
from penstock.log.undoing import cut_again, undo_appends
from penstock.records.wall import WallTime


@dataclass(eq=False)
class OpenLogs:
    """Opens, recovers and closes logs; the `LogOwner` of those that are open."""

    _table: ReplicaTable
    _deadlines: Deadlines
    _outbox: Outbox
    _directories: ReplicaDirectories
    _failures: Failures
    _checkpointing: Checkpointing
    _flushes: Flushes
    _producers: ProducerExpiry
    _retention: RetentionSchedule
    _cleaning: CleaningSchedule
    _removals: Removals
    _spaces: SpaceLooks
    _listener: LogListener
    _report: Callable[[LogEvent], None]
    _random: Random
    _wall: WallTime
    _fsyncs: Sequence[GroupFsync]

    # Opening

    def get(self, replica: Replica, now_ms: int) -> Log:
        """The open log.

        Raises:
            NotOpen: it is being created, opened or recovered.
            StorageError: its directory is offline, or it cannot be opened.
        """
        table = self._table
        if replica.state is State.OPEN:
            assert replica.log is not None
            table.open.move_to_end(replica.log.name)
            return replica.log
        if replica.directory.error is not None:
            raise StorageError(f"log directory {replica.directory.path} is offline")
        if replica.error is not None:
            raise replica.error
        if table.stopping:
            raise StorageError("the node is stopping")
        if replica.frozen is not None:
            raise replica.wait()
        if replica.unused and replica.state is State.CLOSED:
            self._open_unused(replica, now_ms)
            if replica.is_open:
                assert replica.log is not None
                return replica.log
        waiting = replica.wait()
        self.proceed(replica, now_ms)
        raise waiting

    def proceed(self, replica: Replica, now_ms: int) -> None:
        """Takes the next step of opening a log, unless one is under way or the topic's configuration is unknown."""
        if replica.frozen is not None or not self._table.begun:
            return
        if replica.state is State.UNRECOVERED:
            self._recover(replica, now_ms)
        elif replica.state is State.CLOSED and replica.unused:
            self._open_unused(replica, now_ms)
        elif replica.state is State.CLOSED:
            replica.state = State.OPENING
            arguments = self._arguments(replica, now_ms)
            operation = OpenLog(replica, self._outbox, self, arguments, random=self._random, wall=self._wall)
            self._outbox.emit(operation, self._opened, broke=self._broke, no_room=self._open_again)

    def _open_again(self, operation: OpenLog | RecoverLog | WritePartitionMetadata, now_ms: int) -> None:
        """Tries again after a while to open or recover a log, since there was no room for what that changes."""
        replica, state = operation.replica, operation.replica.state

        def again(now_ms: int) -> None:
            if replica.state is state:
                replica.state = State.CLOSED if state is State.OPENING else State.UNRECOVERED
                self.proceed(replica, now_ms)
            if isinstance(operation, RecoverLog) and replica.directory.error is None:  # others wait, if it is gone
                self.recover_next(replica.directory, now_ms)

        self._outbox.try_later(again, now_ms)
        replica.waits_for_room(now_ms)

    def _open_unused(self, replica: Replica, now_ms: int) -> None:
        """Opens a log without files at once: there is nothing to read."""
        replica.unused = False
        arguments = self._arguments(replica, now_ms)
        start = arguments.log_start_offset
        log = Log(
            replica.directory.disk,
            replace(arguments, recovery_point=start),
            nothing(replica.topic_id, start),
            self,
            random=self._random,
            wall=self._wall,
        )
        self._now_open(replica, log, now_ms)

    def _arguments(self, replica: Replica, now_ms: int) -> OpenArguments:
        directory = replica.directory
        return OpenArguments(
            replica.name,
            self._table.topic_config(replica.topic),
            directory.recovery_points.get(replica.key) or 0,
            directory.log_starts.get(replica.key) or 0,
            self._wall.at(now_ms),
            directory.doubtful,
        )

    def _opened(self, operation: OpenLog, result: Log | RecoveryNeeded | StorageError, now_ms: int) -> None:
        replica = operation.replica
        if replica.state is not State.OPENING:
            return
        if isinstance(result, RecoveryNeeded):
            self._report(LogRecovered(replica.name, result.reason))
            self._recover(replica, now_ms)
        elif isinstance(result, StorageError):
            self._failures.replica_broken(replica, result, now_ms)
        elif None not in (replica.topic_id, result.topic_id) and replica.topic_id != result.topic_id:
            if replica.is_future:
                error = StorageError(f"{replica.name} is of another topic of this name")
                self._failures.replica_broken(replica, error, now_ms)
            else:
                self._replace_stray(replica)
        elif result.topic_id is None and replica.topic_id is not None:
            self._tie_to_topic(replica, result, now_ms)
        else:
            replica.topic_id = result.topic_id
            self._now_open(replica, result, now_ms)

    def _broke(self, operation: OpenLog | RecoverLog | WritePartitionMetadata, error: Exception, now_ms: int) -> None:
        self._failures.replica_broken(operation.replica, StorageError(f"a bug: {error!r}"), now_ms)

    def _tie_to_topic(self, replica: Replica, log: Log, now_ms: int) -> None:
        """Writes the assigned topic id into a directory that has none: it was lost in a crash, and nothing was written
        yet; or an older broker made the directory.

        Without the id, records would be taken for those of a later topic of the name: a log with none waits for it.
        """
        log.topic_id = replica.topic_id
        write = WritePartitionMetadata(replica, self._outbox)
        if log.segments.bases:
            self._outbox.emit(write, no_room=lambda operation, now_ms: None)  # done when it is opened the next time
            self._now_open(replica, log, now_ms)
            return

        def written(operation: WritePartitionMetadata, result: None, now_ms: int) -> None:
            if replica.state is State.OPENING:
                self._now_open(replica, log, now_ms)

        self._outbox.emit(write, written, broke=self._broke, no_room=self._open_again)

    def _replace_stray(self, replica: Replica) -> None:
        """The files belong to a deleted topic of the same name: replaces them by a new replica."""
        opening, replica.opening = replica.opening, None
        successor = Replica(replica.topic, replica.partition, replica.topic_id, replica.directory, State.CREATING)
        successor.opening = opening
        successor.size_bytes = 0
        self._table.remove(replica)
        self._directories.set_aside(replica, "stray")
        self._table.add(successor)
        self._directories.create([successor], self.now_closed)

    def _now_open(self, replica: Replica, log: Log, now_ms: int) -> None:
        """A log was opened: whoever waits gets it, and the least recently used one may have to close."""
        table = self._table
        replica.state = State.OPEN
        replica.no_room = False
        replica.log = log
        log.config = table.topic_config(replica.topic)  # it may have changed meanwhile
        log.space = replica.directory.space
        self._remove_leftovers(replica, log, now_ms)
        replica.opened = True
        table.open[log.name] = replica
        self._producers.expect(replica, log)
        replica.done(now_ms)
        if table.stopping:
            self.close(replica, now_ms)
        elif len(table.open) > table.open_logs_max:
            self._close_oldest(now_ms)

    def _remove_leftovers(self, replica: Replica, log: Log, now_ms: int) -> None:
        """Has removed what only has a name in the log's directory: its next roll would do that for many logs at once.

        Files of a pass are removed before any pass over this log begins.
        """
        deleted = [path for path in log.stale_paths if is_deleted(path)]
        cleaned = [path for path in log.stale_paths if path.endswith(CLEANED)]
        if deleted:
            self._removals.unlink_later(replica, deleted, now_ms)
        if cleaned and not replica.opened:
            self._outbox.emit(RemoveCleaned(replica, self._outbox, cleaning_order(replica)))
        if deleted or cleaned:
            log.stale_paths = [path for path in log.stale_paths if path not in {*deleted, *cleaned}]

    # Recovery

    def recover_next(self, directory: LogDirectory, now_ms: int) -> None:
        """Keeps a few recoveries going in a directory, for logs that nobody has asked for yet."""
        if self._table.stopping or not self._table.begun:
            return
        queue, progress = self._table.unrecovered[directory.index], directory.recovery
        while queue and len(progress.under_way) < self._table.settings.num_recovery_threads_per_data_dir:
            replica = queue.popleft()
            if replica.state is State.UNRECOVERED:
                self._recover(replica, now_ms)
        if not queue and not progress.under_way:
            if progress.recovered:
                self._report(RecoveryFinished(directory.path, progress.recovered, progress.read_bytes))
            progress.ended()
        elif progress.recovered and now_ms - progress.said_ms >= RECOVERY_SAID_EVERY_MS:
            progress.said_ms = now_ms
            self._report(RecoveryGoesOn(directory.path, progress.recovered, progress.logs, progress.read_bytes))

    def _recover(self, replica: Replica, now_ms: int) -> None:
        progress = replica.directory.recovery
        if replica.state is not State.UNRECOVERED:  # opening it has shown that it has to be
            progress.logs += 1
        if not progress.under_way and not progress.recovered:
            progress.said_ms = now_ms
        replica.state = State.RECOVERING
        precedence = OTHERS if replica.opening is None else ASKED_FOR
        if replica.topic in COORDINATOR_TOPICS:
            precedence = COORDINATORS
        operation = RecoverLog(replica, self._outbox, self._arguments(replica, now_ms), precedence)
        progress.under_way.add(operation)

        def ended() -> None:
            progress.under_way.discard(operation)
            progress.recovered += 1
            progress.logs = max(progress.logs, progress.recovered)

        self._outbox.emit(operation, self._recovered, broke=self._recovery_broke, ended=ended, no_room=self._open_again)

    def _recovered(self, operation: RecoverLog, result: RecoveryReport | StorageError, now_ms: int) -> None:
        directory = self._table.directories[operation.directory]
        replica = operation.replica
        if replica.state is State.RECOVERING and isinstance(result, StorageError):
            self._failures.replica_broken(replica, result, now_ms)
        elif replica.state is State.RECOVERING and isinstance(result, RecoveryReport):
            directory.recovery.read_bytes += result.scanned_bytes
            self._report_losses(result)
            self._checkpointing.note(replica, directory.recovery_points, result.recovery_point)
            self._checkpointing.note(replica, directory.log_starts, result.log_start_offset)

            def lowered(now_ms: int) -> None:
                if replica.state is State.RECOVERING:
                    self.now_closed(replica, now_ms)

            self._checkpointing.lower_clean_offset(replica, result.log_end_offset, lowered)
        self.recover_next(directory, now_ms)

    def _recovery_broke(self, operation: RecoverLog, error: Exception, now_ms: int) -> None:
        self._broke(operation, error, now_ms)
        self.recover_next(operation.replica.directory, now_ms)

    def _report_losses(self, report: RecoveryReport) -> None:
        kept_aside = ", ".join(report.kept_aside)
        for lost in report.lost:
            self._report(RecordsLost(report.name, lost.first, lost.end, report.cut_bytes, kept_aside))
        if report.cut_bytes and not report.lost:
            self._report(TailCut(report.name, report.log_end_offset, report.cut_bytes))

    # Closing

    def close(self, replica: Replica, now_ms: int) -> None:
        """Closes an open log; `now_closed` follows when that is done."""
        if replica.state is State.OPEN:
            assert replica.log is not None
            replica.state = State.CLOSING
            replica.log.close(now_ms)

    def stop(self, now_ms: int) -> None:
        """Closes all open logs."""
        for replica in list(self._table.open.values()):
            self.close(replica, now_ms)

    def _close_oldest(self, now_ms: int) -> None:
        """Closes the least recently used logs beyond the limit. A busy one is closed after a later opening."""
        opened = self._table.open
        excess = len(opened) - self._table.open_logs_max
        for replica in list(islice(opened.values(), excess + BUSY_LOGS_PASSED_OVER_MAX)):
            if excess <= 0:
                return
            if replica.state is State.CLOSING:
                excess -= 1
            elif replica.state is State.OPEN and replica.log is not None and not replica.log.files.outstanding:
                self.close(replica, now_ms)
                excess -= 1

    def now_closed(self, replica: Replica, now_ms: int) -> None:
        """Continues after a step that closed the log, if anything waits for it."""
        replica.state = State.CLOSED
        replica.no_room = False
        if replica.frozen is not None:
            replica.frozen(now_ms)
        elif replica.opening is not None and not self._table.stopping:
            self.proceed(replica, now_ms)
        if self._table.stopping:
            replica.done(now_ms)

    # LogOwner

    def log_has_operations(self, log: Log) -> None:
        if self._table.holder(log) is not None:
            self._outbox.waiting.append(log)

    def log_wrote(self, log: Log, now_ms: int) -> None:
        self._fsyncs[log.disk.directory].expect(log, now_ms)

    def log_advanced(self, log: Log, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._deadlines.seen(now_ms)
            self._spaces.written(replica.directory)
            self._retention.changed(replica)
            self._flushes.expect(replica, log)
            self._producers.expect(replica, log)
            self._listener.log_advanced(log, now_ms)

    def log_start_moved(self, log: Log) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._checkpointing.note(replica, replica.directory.log_starts, log.log_start_offset)
            self._retention.changed(replica)
            self._listener.log_start_moved(log, self._deadlines.now_ms)

    def log_flushed(self, log: Log, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._checkpointing.note_recovery_point(replica, log)
            if log.config.compact:  # segments were closed
                self._cleaning.changed(replica)

    def log_cut(self, log: Log, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            replica.cuts += 1

            def lowered(now_ms: int) -> None:
                if replica.log is log:
                    self._checkpointing.lower_recovery_point(replica, log, now_ms)

            self._checkpointing.lower_clean_offset(replica, log.log_end_offset, lowered)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._flushes.expect(replica, log)
            self._retention.changed(replica)  # segments that were to go may be back
            self._listener.log_truncated(log, now_ms)
            if replica.state is State.CLOSING and not (log.closed or log.close_when_cut):
                self._not_closed(replica, log, now_ms)

    def _not_closed(self, replica: Replica, log: Log, now_ms: int) -> None:
        """Leaves a log open for which there was no room to close. Who has frozen it is told, and finds it open."""
        if self._table.stopping:
            log.close(now_ms)
            return
        frozen, replica.frozen = replica.frozen, None
        replica.state = State.OPEN
        replica.done(now_ms)
        if frozen is not None:
            frozen(now_ms)

    def log_has_no_room(self, log: Log, error: OSError, now_ms: int) -> bool:
        replica = self._table.holder(log)
        if replica is None or self._table.stopping:
            return False

        again = log.truncating  # otherwise whatever there is to cut is under way at once
        undo_appends(log, now_ms)
        if again and log.files.cut_to is not None:
            self._outbox.try_later(lambda _: self._cut_again(replica, log), now_ms, before_stop=True)
        self._spaces.ran_out(replica.directory, error, now_ms)
        self._listener.log_undone(log, now_ms)
        return True

    def _cut_again(self, replica: Replica, log: Log) -> None:
        """Tries a truncation again that has found no room."""
        if replica.log is log and not log.failed:
            cut_again(log)

    def log_closed(self, log: Log, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._checkpointing.note_recovery_point(replica, log)
            replica.size_bytes = log.size_bytes
            replica.log = None
            del self._table.open[log.name]
            self.now_closed(replica, now_ms)

    def log_files_deleted(self, log: Log, paths: Sequence[str], now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None and paths:
            self._removals.unlink_later(replica, paths, now_ms)

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._failures.log_failed(replica, log, error, now_ms)

    def log_broke(self, log: Log, error: Exception, now_ms: int) -> None:
        replica = self._table.holder(log)
        if replica is not None:
            self._failures.log_broke(replica, log, error, now_ms)
