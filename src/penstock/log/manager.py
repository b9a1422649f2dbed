"""The log directories of a node and all replicas in them: created, opened at first use, closed, deleted, recovered.

A replica that nobody uses is one slotted record; its log opens when somebody asks for it and closes when it is the one
least recently used. Nothing here waits: what may block is an operation. The node drains `take_operations()`, which also
gives what the open logs have waiting, at the end of every event, and calls `tick` when `next_deadline_ms` has come.

- `start` reads, blocking, what each directory says of itself: its identity, whether it was stopped cleanly, the
  checkpoints, the names of the partition directories. After a clean stop it reads nothing else.
- `log(name)` answers the open `Log` or raises `NotOpen`: the log is being created, opened or recovered by an operation,
  and those who wait on the exception's `opening` are called when that has ended. The dispatcher runs the handler again
  then.
- After an unclean stop every log is recovered before it is served: those asked for first, the others after them, a few
  at a time. What was lost is reported by offset range.
- An error of the file system takes its directory offline: all its logs, for good. `StorageError` from then on.
- What went by (appends, new starts, new high watermarks) puts replicas into dirty sets; checkpoints, flushes and
  retention (in `upkeep`) look at those and at one heap of deadlines, never at all replicas.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.config.limits import BUSY_LOGS_PASSED_OVER_MAX, OPEN_LOGS_MAX
from penstock.errors import StorageError
from penstock.log.clean_shutdown import UNKNOWN_BROKER_EPOCH
from penstock.log.directory import Found, LogDirectory
from penstock.log.directory_operations import RemoveDirectory
from penstock.log.disk import Operation
from penstock.log.events import DirectoryFailed, FoundTwice, LogEvent, RecoveryStarted
from penstock.log.lifecycle import Lifecycle
from penstock.log.listener import LogListener
from penstock.log.log import Log
from penstock.log.meta_properties import identify
from penstock.log.moving import Moving
from penstock.log.replica import NotOpen, Opening, Replica, ReplicaRequest, State, parse_future_name, parse_name
from penstock.log.stopping import Stopping
from penstock.log.upkeep import Upkeep

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.config.topic import TopicConfig

__all__ = ["LogDirectory", "LogManager", "NotOpen", "Opening", "ReplicaRequest"]


class LogManager:
    """All log directories of a node. See the module's head.

    Args:
        settings: the broker's settings.
        directories: in the order of `log.dirs`.
        topic_config: the present configuration of a topic, by name; asked when a log opens and at retention. Must
            answer for topics that are deleted or unknown, too: with the defaults.
        random: for directory ids and the names of deleted directories.
        report: gets what a person should know; the shell logs it.
        listener: the node's replication, told when a log advanced, was cut or failed.
    """

    def __init__(
        self,
        settings: Settings,
        directories: Sequence[LogDirectory],
        *,
        topic_config: Callable[[str], TopicConfig],
        random: Random,
        report: Callable[[LogEvent], None],
        listener: LogListener,
    ) -> None:
        assert [directory.index for directory in directories] == list(range(len(directories)))
        self.settings = settings
        self.directories = directories
        self.topic_config = topic_config
        self.report = report
        self.listener = listener
        self.open_logs_max = OPEN_LOGS_MAX
        self.cluster_id = ""
        self.lifecycle = Lifecycle(self, random)
        self.upkeep = Upkeep(self)
        self.moving = Moving(self, random)
        self._random = random
        self._replicas: dict[str, dict[int, Replica]] = {}
        self._rivals: list[Replica] = []
        self._open: OrderedDict[str, Replica] = OrderedDict()
        self._operations: list[Operation | Log] = []
        self._in_flight = 0
        self._stopping: Stopping | None = None

    # Start and stop

    def start(self, now_ms: int, *, metadata_directory: LogDirectory | None = None) -> None:
        """Reads the directories, blocking, and removes the marks of a clean stop. No log is opened.

        Args:
            metadata_directory: the metadata log's, which is identified together with the others if it is none of them.

        Raises:
            ConfigError: meta.properties is missing, or belongs to another cluster or node.
            StorageError: no directory is readable.
        """
        everywhere = list(self.directories)
        if metadata_directory is not None and metadata_directory not in everywhere:
            everywhere.append(metadata_directory)
        self.cluster_id = identify(everywhere, self.settings.node_id, self._random, self.report)
        for directory in self.online:
            try:
                found = directory.load(self.report)
                directory.unmark()
            except OSError as error:
                self.fail_directory(directory.index, error, now_ms)
            else:
                self._adopt(directory, found)
        if not self.online:
            raise StorageError("no log directory is readable; see the errors above")
        self.upkeep.start(now_ms)
        for directory in self.online:
            self.lifecycle.recover_next(directory, now_ms)

    def _adopt(self, directory: LogDirectory, found: Found) -> None:
        """Makes the records of the replicas that a directory has."""
        clean = directory.clean_epoch is not None
        for topic, partition in found.partitions:
            replica = Replica(topic, partition, None, directory, State.CLOSED if clean else State.UNRECOVERED)
            other = self.find(topic, partition)
            if other is not None:
                self._rivals.append(replica)
                self.report(FoundTwice(replica.name, other.directory.path, directory.path))
            else:
                self._use(replica)
        for key, name in found.futures:
            if not self.moving.adopt(key, name, directory, State.CLOSED if clean else State.UNRECOVERED):
                self.emit(RemoveDirectory(directory.index, self.upkeep, name))
        if directory.recovery_queue:
            self.report(RecoveryStarted(directory.path, len(directory.recovery_queue)))
        for name in found.deleted:
            self.emit(RemoveDirectory(directory.index, self.upkeep, name))

    def _use(self, replica: Replica) -> None:
        """Has a replica that was found at start in the table, to be recovered if it must be."""
        self.add(replica)
        self.upkeep.schedule.changed(replica)
        if replica.state is State.UNRECOVERED:
            replica.directory.recovery_queue.append(replica)

    @property
    def online(self) -> list[LogDirectory]:
        """The directories that have not failed."""
        return [directory for directory in self.directories if directory.error is None]

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last clean stop, for registration; -1 if any directory was not stopped cleanly."""
        epochs = {directory.clean_epoch for directory in self.directories}
        epoch = epochs.pop() if len(epochs) == 1 else None
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    def stop(self, broker_epoch: int, now_ms: int) -> None:
        """Begins a clean stop: flush and close all logs, write checkpoints, mark the directories. See `stopped`."""
        if self._stopping is not None:
            return
        self._stopping = Stopping(self, broker_epoch)
        self.upkeep.stop()
        for replica in list(self._open.values()):
            self.close(replica, now_ms)
        self._stopping.proceed()

    @property
    def stopping(self) -> bool:
        """Whether a clean stop has begun."""
        return self._stopping is not None

    @property
    def stopped(self) -> bool:
        """Whether a clean stop is complete (or nothing more can be done for it)."""
        return self._stopping is not None and self._stopping.done

    # Replicas

    def create(self, requests: Sequence[ReplicaRequest], now_ms: int) -> None:
        """Makes the replicas that are missing: in the wished directory, else in the one with fewest, as Kafka.

        All of one call are one operation a directory. A replica that is there under another topic id is set aside
        first. Those for which no directory is left (all offline or cordoned) are left out; `exists` tells. So are those
        that may lie in a directory which is offline: made anew elsewhere, an empty replica would pass for the full one.
        """
        created = []
        for request in requests:
            replica = self.find(request.topic, request.partition)
            if replica is not None:
                if replica.topic_id in (None, request.topic_id):
                    replica.topic_id = request.topic_id
                    continue
                self._leave(replica, "stray", now_ms)
            directory = self._choose(request)
            if directory is not None:
                replica = Replica(request.topic, request.partition, request.topic_id, directory, State.CREATING)
                replica.size_bytes = 0
                self.add(replica)
                created.append(replica)
        self.lifecycle.create(created)

    def _choose(self, request: ReplicaRequest) -> LogDirectory | None:
        candidates = [directory for directory in self.online if not self.is_cordoned(directory)]
        preferred = self.moving.preferred.pop((request.topic, request.partition), None)
        if preferred in candidates and request.is_new:
            return preferred
        for directory in candidates:
            if directory.id is not None and directory.id == request.directory_id:
                return directory
        if not request.is_new and len(self.online) < len(self.directories):
            return None
        return min(candidates, key=lambda directory: directory.replicas, default=None)

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether a directory keeps what it has and gets nothing new (cordoned.log.dirs)."""
        cordoned = self.settings.cordoned_log_dirs
        return directory.path in cordoned or "*" in cordoned

    def exists(self, topic: str, partition: int) -> bool:
        """Whether this node has the replica, open or not."""
        return self.find(topic, partition) is not None

    def is_broken(self, topic: str, partition: int) -> bool:
        """Whether the replica is there and cannot be opened, while its directory is well."""
        replica = self.find(topic, partition)
        return replica is not None and replica.error is not None

    def log(self, topic: str, partition: int, now_ms: int) -> Log:
        """The open log.

        Raises:
            NotOpen: it is being created, opened or recovered.
            StorageError: its directory is offline, or there is no such replica.
        """
        replica = self.find(topic, partition)
        if replica is None:
            raise StorageError(f"this node has no replica of {topic}-{partition}")
        return self.log_of(replica, now_ms)

    def log_of(self, replica: Replica, now_ms: int) -> Log:
        """As `log`."""
        if replica.state is State.OPEN:
            assert replica.log is not None
            self._open.move_to_end(replica.log.name)
            return replica.log
        if replica.directory.error is not None:
            raise StorageError(f"log directory {replica.directory.path} is offline")
        if replica.error is not None:
            raise replica.error
        if self._stopping is not None:
            raise StorageError("the node is stopping")
        if replica.frozen:
            raise replica.wait()
        if replica.unused and replica.state is State.CLOSED:
            self.lifecycle.open_unused(replica, now_ms)
            if replica.is_open:
                assert replica.log is not None
                return replica.log
        waiting = replica.wait()
        self.lifecycle.proceed(replica, now_ms)
        raise waiting

    def open_log(self, topic: str, partition: int) -> Log | None:
        """The log if it is open; never begins to open it."""
        replica = self.find(topic, partition)
        return replica.log if replica is not None and replica.state is State.OPEN else None

    def delete(self, topic: str, partition: int, now_ms: int) -> None:
        """Takes the replica away at once; its directory is renamed, and removed after `file.delete.delay.ms`."""
        self.moving.abandon((topic, partition), now_ms)
        replica = self.find(topic, partition)
        if replica is not None:
            self._leave(replica, "delete", now_ms)

    def set_aside_strays(
        self, assigned: Callable[[str, int], UUID | None], directory: Callable[[str, int], UUID | None], now_ms: int
    ) -> None:
        """Renames directories of partitions that are not this node's, once the metadata is known.

        Of a partition that was found in two log directories the one which is in the metadata's is kept. That comes
        about when a directory fails, its partition leaves this node, comes back, to another directory, and then the
        first directory is mended. When the metadata names neither, the partition is not served.

        Args:
            assigned: gives the topic id of a partition of this node, or None. directory: the id of its log directory.
        """
        rivals, self._rivals = self._rivals, []
        for rival in rivals:
            self._settle(rival, directory(rival.topic, rival.partition), now_ms)
        for replica in list(self.replicas()):
            topic_id = assigned(replica.topic, replica.partition)
            if topic_id is None or replica.topic_id not in (None, topic_id):
                self._leave(replica, "stray", now_ms)
            else:
                replica.topic_id = topic_id

    def _settle(self, rival: Replica, wanted: UUID | None, now_ms: int) -> None:
        """Which one of two replicas of a partition is kept."""
        kept = self.find(rival.topic, rival.partition)
        if kept is None or rival.directory.error is not None:
            return  # nobody leaves or comes before the metadata is known, but directories fail
        if wanted is not None and wanted == rival.directory.id:
            self.remove(kept)
            self._use(rival)
            self.lifecycle.recover_next(rival.directory, now_ms)
            kept, rival = rival, kept
        if wanted is not None and wanted == kept.directory.id:
            self.leave(rival, "stray", now_ms)
        else:
            places = f"{kept.directory.path} and {rival.directory.path}"
            error = f"{kept.name} is in two log directories, {places}\n  move the older one away"
            self.lifecycle.broken(kept, StorageError(error), now_ms)

    def _leave(self, replica: Replica, suffix: str, now_ms: int) -> None:
        self.remove(replica)
        self.leave(replica, suffix, now_ms)

    def leave(self, replica: Replica, suffix: str, now_ms: int) -> None:
        """Forgets a replica that is out of the table already, and has its directory renamed."""
        self.upkeep.forget(replica.directory, replica.key)
        if replica.log is not None:
            self._open.pop(replica.log.name, None)
            replica.log = None
        if replica.directory.error is None:
            self.lifecycle.set_aside(replica, suffix)
        replica.state = State.GONE
        replica.done(now_ms)

    def config_changed(self, topic: str, now_ms: int) -> None:
        """The topic's configuration is another: open logs get it, and retention looks again."""
        config = self.topic_config(topic)
        futures = [each for each in self.moving.futures.values() if each.topic == topic]
        for replica in (*self._replicas.get(topic, {}).values(), *futures):
            if replica.log is not None:
                replica.log.update_config(config)
                self.upkeep.expect_flush(replica, replica.log)
            self.upkeep.changed(replica)

    def directory_of(self, topic: str, partition: int) -> LogDirectory:
        """Where the replica is.

        Raises:
            StorageError: there is no such replica.
        """
        replica = self.find(topic, partition)
        if replica is None:
            raise StorageError(f"this node has no replica of {topic}-{partition}")
        return replica.directory

    def describe(self) -> Mapping[int, Sequence[tuple[str, int]]]:
        """(topic, partition) of all replicas, by directory index."""
        found: dict[int, list[tuple[str, int]]] = {directory.index: [] for directory in self.directories}
        for replica in self.replicas():
            found[replica.directory.index].append(replica.key)
        return found

    def size_of(self, topic: str, partition: int) -> int:
        """Bytes of all segments of a replica.

        Raises:
            NotOpen: nobody knows yet; the sizes of all closed logs of its directory are being added up.
            StorageError: there is no such replica, or its directory is offline.
        """
        replica = self.find(topic, partition)
        if replica is None or replica.directory.error is not None:
            raise StorageError(f"this node has no replica of {topic}-{partition}, or its log directory is offline")
        return self.size_of_replica(replica)

    def size_of_replica(self, replica: Replica) -> int:
        """As `size_of`, of a replica in a directory that is well."""
        if replica.log is not None:
            return replica.log.size_bytes
        if replica.size_bytes is not None:
            return replica.size_bytes
        raise self.lifecycle.measure(replica)

    # High watermarks

    def high_watermark(self, topic: str, partition: int) -> int:
        """The checkpointed high watermark; 0 if unknown."""
        replica = self.find(topic, partition)
        return replica.directory.high_watermarks.get(replica.key) or 0 if replica is not None else 0

    def set_high_watermark(self, topic: str, partition: int, offset: int) -> None:
        """Remembers it for the next checkpoint."""
        replica = self.find(topic, partition)
        if replica is not None:
            directory = replica.directory
            self.upkeep.note(directory, directory.high_watermarks, replica.key, offset)

    # Time and operations

    def tick(self, now_ms: int) -> None:
        """Does what is due: flushes, checkpoints, retention, deletion of what was renamed."""
        if self._stopping is None:
            self.upkeep.tick(now_ms)

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due next; None when there is nothing to wait for."""
        return self.upkeep.next_deadline_ms() if self._stopping is None else None

    def take_operations(self) -> Sequence[Operation]:
        """The operations to run now, those of the open logs included; gone from here."""
        taken: list[Operation] = []
        waiting, self._operations = self._operations, []
        for item in waiting:
            if isinstance(item, Log):
                taken += item.take_operations()
            elif self.directories[item.directory].error is None:
                taken.append(item)
            else:
                self.operation_ended()
        if any(directory.error is not None for directory in self.directories):
            taken = [operation for operation in taken if self.directories[operation.directory].error is None]
        if self._stopping is not None:
            self._stopping.proceed()
            taken += self.take_operations() if self._operations else []
        return taken

    def fail_directory(self, index: int, error: OSError, now_ms: int) -> None:
        """Takes a directory offline: its logs are forgotten, those who wait for one are called."""
        directory = self.directories[index]
        if directory.error is not None:
            return
        directory.error = error
        self.report(DirectoryFailed(directory.path, error))
        futures = [key for key, replica in self.moving.futures.items() if replica.directory is directory]
        lost = [replica for replica in self.replicas() if replica.directory is directory]
        lost += [self.moving.futures.pop(key) for key in futures]
        for replica in lost:
            if replica.log is not None:
                self._open.pop(replica.log.name, None)
            replica.log = None
            replica.state = State.BROKEN
        self.listener.directory_failed(index, error, now_ms)
        for replica in lost:
            replica.done(now_ms)
        directory.measured(now_ms)
        self.after_operation(now_ms)

    # For the parts of the manager

    def find(self, topic: str, partition: int) -> Replica | None:
        """The replica, in whatever state."""
        partitions = self._replicas.get(topic)
        return partitions.get(partition) if partitions is not None else None

    def find_name(self, name: str) -> Replica | None:
        """The replica whose directory has this name."""
        partition = parse_name(name)
        if partition is not None:
            return self.find(*partition)
        future = parse_future_name(name)
        return self.moving.futures.get(future) if future is not None else None

    def replicas(self) -> Iterator[Replica]:
        """All replicas: only for start, stop, strays, failures and descriptions."""
        for partitions in self._replicas.values():
            yield from partitions.values()

    def add(self, replica: Replica) -> None:
        """Puts a replica into the table."""
        partitions = self._replicas.setdefault(replica.topic, {})
        assert replica.partition not in partitions, f"{replica.name} is there already"
        partitions[replica.partition] = replica
        replica.directory.replicas += 1

    def remove(self, replica: Replica) -> None:
        """Takes a replica out of the table."""
        partitions = self._replicas[replica.topic]
        del partitions[replica.partition]
        if not partitions:
            del self._replicas[replica.topic]
        replica.directory.replicas -= 1

    def emit(self, operation: Operation) -> None:
        """Has an operation of the manager run."""
        self._in_flight += 1
        self._operations.append(operation)

    def operation_ended(self) -> None:
        """An operation that was emitted here has ended, well or not."""
        self._in_flight -= 1
        assert self._in_flight >= 0

    def after_operation(self, now_ms: int) -> None:
        """All is said about an operation that ended: a clean stop may take its next step."""
        if self._stopping is not None:
            self._stopping.proceed()

    @property
    def quiet(self) -> bool:
        """Whether no log is open and none of the manager's operations is under way."""
        return not self._open and not self._in_flight

    def now_open(self, replica: Replica, log: Log, now_ms: int) -> None:
        """A log was opened: those who wait get it, and the one least recently used may have to close."""
        replica.state = State.OPEN
        replica.log = log
        self._open[log.name] = replica
        self.upkeep.expect_expiry(replica, log)
        replica.done(now_ms)
        if self._stopping is not None:
            self.close(replica, now_ms)
        elif len(self._open) > self.open_logs_max:
            self._close_oldest(now_ms)

    def _close_oldest(self, now_ms: int) -> None:
        """Closes what is too much: the logs longest unused. One that is busy stays, and goes after a later opening."""
        excess = len(self._open) - self.open_logs_max
        for replica in list(islice(self._open.values(), excess + BUSY_LOGS_PASSED_OVER_MAX)):
            if excess <= 0:
                return
            if replica.state is State.CLOSING:
                excess -= 1
            elif replica.state is State.OPEN and replica.log is not None and replica.log.idle:
                self.close(replica, now_ms)
                excess -= 1

    def close(self, replica: Replica, now_ms: int) -> None:
        """Closes an open log; `lifecycle.settled` when it has."""
        if replica.state is State.OPEN:
            assert replica.log is not None
            replica.state = State.CLOSING
            replica.log.close(now_ms)

    def _of_log(self, log: Log) -> Replica | None:
        """The replica whose log this is; None when it was deleted or its directory failed meanwhile."""
        replica = self._open.get(log.name)
        return replica if replica is not None and replica.log is log else None

    # LogOwner

    def log_has_operations(self, log: Log) -> None:
        if self._of_log(log) is not None:
            self._operations.append(log)

    def log_advanced(self, log: Log, now_ms: int) -> None:
        replica = self._of_log(log)
        if replica is not None:
            self.upkeep.now_ms = max(self.upkeep.now_ms, now_ms)
            self.upkeep.changed(replica)
            self.upkeep.expect_flush(replica, log)
            self.upkeep.expect_expiry(replica, log)
            self.listener.log_advanced(log, now_ms)

    def log_start_moved(self, log: Log) -> None:
        replica = self._of_log(log)
        if replica is not None:
            directory = replica.directory
            self.upkeep.note(directory, directory.log_starts, replica.key, log.log_start_offset)
            self.upkeep.changed(replica)
            self.listener.log_start_moved(log, self.upkeep.now_ms)

    def log_flushed(self, log: Log, now_ms: int) -> None:
        replica = self._of_log(log)
        if replica is not None:
            directory = replica.directory
            self.upkeep.note(directory, directory.recovery_points, replica.key, log.recovery_point)

    def log_truncated(self, log: Log, now_ms: int) -> None:
        replica = self._of_log(log)
        if replica is not None:
            directory = replica.directory
            self.upkeep.note(directory, directory.recovery_points, replica.key, log.recovery_point)
            self.upkeep.write_checkpoint(directory, directory.recovery_points)
            self.listener.log_truncated(log, now_ms)

    def log_closed(self, log: Log, now_ms: int) -> None:
        replica = self._of_log(log)
        if replica is not None:
            directory = replica.directory
            self.upkeep.note(directory, directory.recovery_points, replica.key, log.recovery_point)
            replica.size_bytes = log.size_bytes
            replica.log = None
            del self._open[log.name]
            self.lifecycle.settled(replica, now_ms)
            self.after_operation(now_ms)

    def log_files_deleted(self, log: Log, paths: Sequence[str], now_ms: int) -> None:
        replica = self._of_log(log)
        if replica is not None and paths:
            self.upkeep.unlink_later(replica, paths, now_ms)

    def log_failed(self, log: Log, error: OSError, now_ms: int) -> None:
        if self._of_log(log) is not None:
            self.listener.log_failed(log, error, now_ms)
            self.fail_directory(log.disk.directory, error, now_ms)
