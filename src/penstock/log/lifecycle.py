"""The steps of a replica between disk and memory: created, recovered, opened, closed, set aside.

`proceed` takes a replica that somebody waits for one step nearer to being open; each step ends in a completion that
either takes the next or calls those who wait. After an unclean stop `recover_next` keeps a few recoveries going of logs
that nobody has asked for yet; one that is asked for begins at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import (
    CreateReplicas,
    MeasureReplicas,
    OpenArguments,
    OpenLog,
    RecoverLog,
    SetAside,
    WritePartitionMetadata,
)
from penstock.log.disk import Operation
from penstock.log.events import LogBroken, RecordsLost, RecoveryFinished, StrayFound, TailCut
from penstock.log.loading import RecoveryNeeded, nothing
from penstock.log.log import Log
from penstock.log.part import ManagerPart
from penstock.log.recovery import RecoveryReport
from penstock.log.replica import NotOpen, Opening, Replica, State, aside_name, parse_future_name, parse_name

if TYPE_CHECKING:
    from penstock.log.manager import LogManager

CREATE_BATCH_MAX = 1000
"""Directories that one operation makes."""
MEASURE_BATCH_MAX = 1000
"""Replicas whose sizes one operation adds up."""


class Lifecycle(ManagerPart):
    """Takes replicas through their states."""

    def __init__(self, manager: LogManager, random: Random) -> None:
        super().__init__(manager)
        self._random = random
        self._leaving: dict[tuple[str, int], list[Replica]] = {}
        self._held: dict[Replica, SetAside] = {}

    def completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        match operation:
            case CreateReplicas():
                self._created(operation, result, now_ms)
            case OpenLog():
                self._opened(operation, result, now_ms)
            case RecoverLog():
                self._recovered(operation, result, now_ms)
            case SetAside():
                self._left(operation, now_ms)
            case MeasureReplicas():
                self._measured(operation, result, now_ms)

    # Creating

    def create(self, replicas: Sequence[Replica]) -> None:
        """Makes the directories of new replicas, one operation a log directory; each after one of its name is gone."""
        batches: dict[int, list[Replica]] = {}
        for replica in replicas:
            if replica.key in self._leaving:
                self._leaving[replica.key].append(replica)
            else:
                self.manager.upkeep.forget(replica.directory, replica.key)
                batches.setdefault(replica.directory.index, []).append(replica)
        for index, batch in batches.items():
            self.manager.upkeep.write_stale_checkpoints(self.manager.directories[index])
            for start in range(0, len(batch), CREATE_BATCH_MAX):
                self.manager.emit(CreateReplicas(index, self, batch[start : start + CREATE_BATCH_MAX]))

    def _created(self, operation: CreateReplicas, found: set[str], now_ms: int) -> None:
        for replica in operation.replicas:
            if replica.state is State.CREATING:
                replica.unused = replica.name not in found
                self.settled(replica, now_ms)
            else:
                self.leave_if_held(replica)

    # Opening

    def proceed(self, replica: Replica, now_ms: int) -> None:
        """One step nearer to being open, unless a step is under way."""
        if replica.frozen:
            return
        if replica.state is State.UNRECOVERED:
            self._recover(replica, now_ms)
        elif replica.state is State.CLOSED and replica.unused:
            self.open_unused(replica, now_ms)
        elif replica.state is State.CLOSED:
            replica.state = State.OPENING
            self.manager.emit(OpenLog(replica, self, self.manager, self._arguments(replica, now_ms), self._random))

    def open_unused(self, replica: Replica, now_ms: int) -> None:
        """Opens a log that has no file yet, at once: there is nothing to read."""
        replica.unused = False
        arguments = self._arguments(replica, now_ms)
        start = arguments.log_start_offset
        log = Log(
            replica.directory.disk,
            replica.name,
            arguments.config,
            nothing(replica.topic_id, start, arguments.producer_expiration_ms),
            recovery_point=start,
            log_start_offset=start,
            owner=self.manager,
            random=self._random,
        )
        self.manager.now_open(replica, log, now_ms)

    def settled(self, replica: Replica, now_ms: int) -> None:
        """A step has ended with the log closed: goes on if somebody waits for it."""
        replica.state = State.CLOSED
        if replica.frozen:
            self.manager.moving.settled(replica, now_ms)
            if self.manager.stopping:
                replica.done(now_ms)
            return
        if replica.opening is None:
            return
        if self.manager.stopping:
            replica.done(now_ms)
        else:
            self.proceed(replica, now_ms)

    def _arguments(self, replica: Replica, now_ms: int) -> OpenArguments:
        directory = replica.directory
        return OpenArguments(
            replica.name,
            self.manager.topic_config(replica.topic),
            directory.recovery_points.get(replica.key) or 0,
            directory.log_starts.get(replica.key) or 0,
            self.manager.settings.producer_id_expiration_ms,
            now_ms,
        )

    def _opened(self, operation: OpenLog, result: Log | StorageError, now_ms: int) -> None:
        replica = operation.replica
        if replica.state is not State.OPENING:
            return
        if isinstance(result, RecoveryNeeded):
            self._recover(replica, now_ms)
        elif isinstance(result, StorageError):
            self.broken(replica, result, now_ms)
        elif None not in (replica.topic_id, result.topic_id) and replica.topic_id != result.topic_id:
            if replica.is_future:
                self.broken(replica, StorageError(f"{replica.name} is of another topic of this name"), now_ms)
            else:
                self._replace_stray(replica, now_ms)
        else:
            self._tie_to_topic(replica, result)
            self.manager.now_open(replica, result, now_ms)

    def _tie_to_topic(self, replica: Replica, log: Log) -> None:
        """A directory without a topic id (an older broker made it) gets the one that it was assigned for."""
        if log.topic_id is None and replica.topic_id is not None:
            log.topic_id = replica.topic_id
            index = replica.directory.index
            self.manager.emit(WritePartitionMetadata(index, self, replica.name, replica.topic_id))
        replica.topic_id = log.topic_id

    def _replace_stray(self, replica: Replica, now_ms: int) -> None:
        """The files are of a topic of the same name, deleted while this node was away: a new one takes its place."""
        opening, replica.opening = replica.opening, None
        successor = Replica(replica.topic, replica.partition, replica.topic_id, replica.directory, State.CREATING)
        successor.opening = opening
        successor.size_bytes = 0
        self.manager.remove(replica)
        self.set_aside(replica, "stray")
        self.manager.add(successor)
        self.create([successor])

    def broken(self, replica: Replica, error: StorageError, now_ms: int) -> None:
        """One log's files are beyond use: it alone stays shut."""
        replica.state = State.BROKEN
        replica.error = error
        self.manager.report(LogBroken(replica.name, str(error)))
        replica.done(now_ms)

    # Recovery

    def _recover(self, replica: Replica, now_ms: int) -> None:
        replica.state = State.RECOVERING
        replica.directory.recovering += 1
        self.manager.emit(RecoverLog(replica, self, self._arguments(replica, now_ms)))

    def recover_next(self, directory: LogDirectory, now_ms: int) -> None:
        """Keeps a few recoveries of a directory going that nobody has asked for."""
        if self.manager.stopping:
            return
        queue = directory.recovery_queue
        while queue and directory.recovering < self.manager.settings.num_recovery_threads_per_data_dir:
            replica = queue.popleft()
            if replica.state is State.UNRECOVERED:
                self._recover(replica, now_ms)
        if not queue and not directory.recovering and directory.recovered_logs:
            self.manager.report(RecoveryFinished(directory.path, directory.recovered_logs, directory.recovered_bytes))
            directory.recovered_logs = directory.recovered_bytes = 0

    def _recovered(self, operation: RecoverLog, result: RecoveryReport | StorageError, now_ms: int) -> None:
        directory = self.manager.directories[operation.directory]
        directory.recovering -= 1
        directory.recovered_logs += 1
        replica = operation.replica
        if replica.state is State.RECOVERING and isinstance(result, StorageError):
            self.broken(replica, result, now_ms)
        elif replica.state is State.RECOVERING and isinstance(result, RecoveryReport):
            directory.recovered_bytes += result.scanned_bytes
            self._report_losses(result)
            self.manager.upkeep.note(directory, directory.recovery_points, replica.key, result.recovery_point)
            self.manager.upkeep.note(directory, directory.log_starts, replica.key, result.log_start_offset)
            self.settled(replica, now_ms)
        self.recover_next(directory, now_ms)

    def _report_losses(self, report: RecoveryReport) -> None:
        kept_aside = ", ".join(report.kept_aside)
        for lost in report.lost:
            self.manager.report(RecordsLost(report.name, lost.first, lost.end, report.cut_bytes, kept_aside))
        if report.cut_bytes and not report.lost:
            self.manager.report(TailCut(report.name, report.log_end_offset, report.cut_bytes))

    # Leaving

    def set_aside(self, replica: Replica, suffix: str) -> None:
        """Renames the directory of a replica that is out of the table already: `delete` or `stray`.

        Operations on the replica alone come first by their order; for those on many replicas the renaming is held back.
        """
        state, replica.state = replica.state, State.GONE
        if state is State.CREATING and replica in self._leaving.get(replica.key, ()):
            return  # it never got a directory: one of the same name is still leaving
        if not replica.is_future:
            self._leaving.setdefault(replica.key, [])
        unique = UUID(int=self._random.getrandbits(128), version=4)
        renamed = aside_name(replica.topic, replica.partition, unique, suffix)
        if suffix == "stray":
            self.manager.report(StrayFound(replica.name, renamed))
        rename = SetAside(replica.directory.index, self, replica.name, renamed)
        if state in (State.CREATING, State.RETIRING):
            self._held[replica] = rename
        else:
            self.manager.emit(rename)

    def leave_if_held(self, replica: Replica) -> None:
        """An operation on many replicas has ended: this one of them may be waiting to leave."""
        rename = self._held.pop(replica, None)
        if rename is not None:
            self.manager.emit(rename)

    def _left(self, operation: SetAside, now_ms: int) -> None:
        partition = parse_name(operation.name)
        if partition is None:
            partition = parse_future_name(operation.name)
            assert partition is not None, operation.name
        else:
            successors = self._leaving.pop(partition, [])
            self.create([replica for replica in successors if replica.state is State.CREATING])
        if operation.renamed.endswith("-delete"):
            self.manager.upkeep.remove_later(operation.directory, operation.renamed, partition[0], now_ms)

    # Sizes

    def measure(self, replica: Replica) -> NotOpen:
        """Has the sizes of all logs of the directory added up that are not known; the exception for those who wait."""
        directory = replica.directory
        if directory.measuring is None:
            directory.measuring = Opening(directory.path)
            unknown = [
                other.name
                for other in (*self.manager.replicas(), *self.manager.moving.futures.values())
                if other.directory is directory and other.log is None and other.size_bytes is None
            ]
            for start in range(0, len(unknown), MEASURE_BATCH_MAX):
                batch = unknown[start : start + MEASURE_BATCH_MAX]
                last = start + MEASURE_BATCH_MAX >= len(unknown)
                self.manager.emit(MeasureReplicas(directory.index, self, batch, last=last))
        return NotOpen(directory.index, directory.measuring)

    def _measured(self, operation: MeasureReplicas, sizes: Mapping[str, int], now_ms: int) -> None:
        for name in operation.names:
            replica = self.manager.find_name(name)
            if replica is not None and replica.log is None and replica.size_bytes is None:
                replica.size_bytes = sizes.get(name, 0)
        if operation.last:
            self.manager.directories[operation.directory].measured(now_ms)
