"""The log directories of a node and all replicas in them: created, opened at first use, closed, deleted, recovered.

A replica that nobody uses is one slotted record; its log opens when somebody asks for it and closes when it is the one
least recently used. Nothing here waits: what may block is an operation. The node drains `take_operations()`, which also
gives what the open logs have waiting, at the end of every event, and calls `tick` when `next_deadline_ms` has come.

- `start` reads, blocking, what each directory says of itself: its identity, whether it was stopped cleanly, the
  checkpoints, the names of the partition directories. After a clean stop it reads nothing else. It changes nothing:
  until `unmark`, a node may find that it cannot start.
- `log(name)` answers the open `Log` or raises `NotOpen`: the log is being created, opened or recovered by an operation,
  and those who wait on the exception's `opening` are called when that has ended. The dispatcher runs the handler again
  then.
- `begin` says that the topics' configurations are known. Until then no log is opened or recovered and retention looks
  at none: by the defaults, it would remove what a topic is to keep.
- After an unclean stop every log is recovered before it is served, a few at a time, the coordinators' topics first; one
  that is asked for does not wait for its turn. What was lost is reported by offset range.
- An error of the file system takes its directory offline: all its logs, for good. `StorageError` from then on. A full
  one is no such error: appends are undone, other changes tried again (`space`, `undoing`).
- What went by (appends, new starts, new high watermarks) puts replicas into dirty sets; checkpoints, flushes and
  retention look at those and at one heap of deadlines, never at all replicas. So an idle node has no deadline but the
  next segment that grows too old.

The parts share a `ReplicaTable`, one heap of `Deadlines` and an `Outbox`, and each has those that it uses, never the
manager: `checkpointing`, `flushes`, `placement`, `producer_expiry`, `removals`, `retention_schedule` and `space_looks`
know of no other, `replica_directories` is above them, then `open_logs`, then `retiring`, `compaction.log_cleaner`,
`moving`, `strays`. The rounds of `group_fsync`, one for each directory, are beside the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING

from penstock.errors import Report, StorageError, raise_it
from penstock.log.checkpointing import Checkpointing
from penstock.log.clean_shutdown import UNKNOWN_BROKER_EPOCH
from penstock.log.compaction.log_cleaner import LogCleaner
from penstock.log.compaction.schedule import CleaningSchedule
from penstock.log.deadlines import Deadlines
from penstock.log.directory import Found, LogDirectory
from penstock.log.disk import Operation
from penstock.log.events import LogEvent, MetadataLogFull, MetadataLogHasRoom, RecoveryStarted
from penstock.log.failures import Failures
from penstock.log.flushes import Flushes
from penstock.log.group_fsync import GroupFsync
from penstock.log.listener import LogListener
from penstock.log.log import Log
from penstock.log.meta_properties import identify
from penstock.log.moving import Moving
from penstock.log.not_open import NotOpen, Opening
from penstock.log.open_logs import OpenLogs
from penstock.log.outbox import Outbox
from penstock.log.placement import Placement, PlacementRound
from penstock.log.producer_expiry import ProducerExpiry
from penstock.log.removals import Removals
from penstock.log.replica import Replica, ReplicaRequest, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.retention_schedule import RetentionSchedule
from penstock.log.retiring import Retiring
from penstock.log.sizes import Sizes
from penstock.log.space_looks import SpaceLooks
from penstock.log.stopping import Stopping
from penstock.log.strays import Strays
from penstock.log.table import ReplicaTable
from penstock.records.wall import WallTime

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.config.topic import TopicConfig

__all__ = ["LogDirectory", "LogManager", "NotOpen", "Opening", "ReplicaRequest"]


class LogManager:
    """All log directories of a node. See the module's head.

    Args:
        settings: the broker's settings.
        directories: in the order of `log.dirs`.
        topic_config: the present configuration of a topic, by name; asked when a log opens and at retention, after
            `begin`. Must answer for topics that are deleted or unknown, too: with the defaults.
        random: for directory ids and the names of deleted directories.
        report: gets what a person should know; the shell logs it.
        listener: the node's replication, told when a log advanced, was cut or failed.
        wall: the wall time of retention and of what is stamped.
        bug: gets what should never be raised; it ends one replica.
        wake_by: told of each deadline.

    Attributes:
        table: what there is and where.
        outbox: has operations run, for who else works on the directories (moves between them).
        cleaner, moving, strays, sizes, spaces: those parts. fsyncs: the rounds of fsyncs of each directory.
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
        wall: WallTime | None = None,
        bug: Report = raise_it,
        wake_by: Callable[[int], None] = lambda deadline_ms: None,
    ) -> None:
        wall = wall or WallTime()
        self.cluster_id = ""
        self._report = report
        self._random = random
        self.table = table = ReplicaTable(directories, settings, topic_config)
        self.deadlines = deadlines = Deadlines(wake_by)
        self._failures = failures = Failures(table, report, listener)
        self.spaces = spaces = SpaceLooks(table, deadlines, report, listener)
        self.outbox = outbox = Outbox(table, deadlines, failures, bug, spaces.ran_out)
        self._checkpointing = points = Checkpointing(table, deadlines, outbox)
        self._removals = removals = Removals(table, deadlines, outbox)
        self._flushes = flushes = Flushes(deadlines)
        self._retention = retention = RetentionSchedule(table, deadlines, wall)
        self._cleaning = cleaning = CleaningSchedule(table, deadlines, wall)
        self._directories = places = ReplicaDirectories(table, outbox, points, removals, failures, random, report)
        producers = ProducerExpiry(table, deadlines)
        self.fsyncs = fsyncs = [GroupFsync(each.index, failures, ready=outbox.ready, bug=bug) for each in directories]
        self._logs = logs = OpenLogs(
            table,
            deadlines,
            outbox,
            places,
            failures,
            points,
            flushes,
            producers,
            retention,
            cleaning,
            removals,
            spaces,
            listener,
            report,
            random,
            wall,
            fsyncs,
        )
        self._retiring = Retiring(table, deadlines, outbox, retention, logs, places, removals, wall, report)
        self.cleaner = LogCleaner(
            table, deadlines, outbox, cleaning, logs, places, failures, points, removals, wall, random, report, bug
        )
        self.moving = Moving(table, outbox, logs, places, points, removals, retention, cleaning, random)
        self.strays = Strays(table, logs, places, failures, retention, cleaning, report)
        self.sizes = Sizes(table, outbox)
        self._placement = Placement(table)
        self._stopping = Stopping(table, outbox, points)

    # Start and stop

    def start(self, now_ms: int, *, metadata_directory: LogDirectory | None = None) -> None:
        """Reads the directories, blocking. No log is opened. `unmark` follows before anything is changed.

        Args:
            metadata_directory: the metadata log's, which is identified together with the others if it is none of them.

        Raises:
            ConfigError, StorageError: see `identify`; nothing is changed then.
            StorageError: no directory can be used.
        """
        table = self.table
        everywhere = list(table.directories)
        if metadata_directory is not None and metadata_directory not in everywhere:
            everywhere.append(metadata_directory)
        self.cluster_id = identify(
            everywhere, table.settings.node_id, self._random, self._report, metadata_directory=metadata_directory
        )
        for directory in table.online:
            try:
                found = directory.load(self._report)
                self.spaces.start(directory, now_ms)
            except OSError as error:
                self.fail_directory(directory.index, error, now_ms)
            else:
                self._adopt(directory, found)
        self._check_online()
        self.deadlines.now_ms = now_ms

    def unmark(self, now_ms: int) -> None:
        """Removes the marks of a clean stop, blocking: the files may change from now on.

        Raises:
            StorageError: no directory is left.
        """
        for directory in self.table.online:
            try:
                directory.unmark()
            except OSError as error:
                self.fail_directory(directory.index, error, now_ms)
        self._check_online()

    def _check_online(self) -> None:
        if not self.table.online:
            reasons = "\n  ".join(f"{directory.path}: {directory.error}" for directory in self.table.directories)
            raise StorageError(f"no log directory can be used\n  {reasons}")

    def begin(self, now_ms: int) -> None:
        """The topics' configurations are known: logs are opened, recovered and retired from now on."""
        table = self.table
        assert not table.begun, "once a start"
        table.begun = True
        if table.stopping:
            return
        self.deadlines.seen(now_ms)
        self._retention.begin(now_ms)
        self._cleaning.begin(now_ms)
        self.cleaner.looked_ms = now_ms
        for replica in list(table.replicas()):
            if replica.opening is not None and replica.state in (State.CLOSED, State.UNRECOVERED):
                self._logs.proceed(replica, now_ms)
        for directory in table.online:
            self._logs.recover_next(directory, now_ms)

    def _adopt(self, directory: LogDirectory, found: Found) -> None:
        """Makes the records of the replicas that a directory has."""
        state = State.CLOSED if directory.clean_epoch is not None else State.UNRECOVERED
        for topic, partition in found.partitions:
            self.strays.found(Replica(topic, partition, None, directory, state))
        for key, name in found.futures:
            if key in self.table.futures:
                self._removals.remove(directory.index, name)
            else:
                self.table.add(Replica(*key, None, directory, state, own_name=name))
        if unrecovered := self.table.unrecovered[directory.index]:
            self._report(RecoveryStarted(directory.path, len(unrecovered)))
        for name in found.deleted:
            self._removals.remove(directory.index, name)

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last clean stop, for registration; -1 if any directory was not stopped cleanly."""
        epochs = {directory.clean_epoch for directory in self.table.directories}
        epoch = epochs.pop() if len(epochs) == 1 else None
        return UNKNOWN_BROKER_EPOCH if epoch is None else epoch

    def stop(self, broker_epoch: int, now_ms: int) -> None:
        """Begins a clean stop: flush and close all logs, write checkpoints, mark the directories.

        Call `finish_stop` after every event from then on.
        """
        table = self.table
        if table.stopping:
            return
        if broker_epoch == UNKNOWN_BROKER_EPOCH and not table.begun:
            # It stops before it is registered, and has changed nothing: its last clean stop is still the one before.
            broker_epoch = self.previous_broker_epoch
        self._stopping.begin(broker_epoch)
        self._removals.stop()
        self._retiring.stop()
        if not table.begun:
            for replica in list(table.replicas()):
                replica.done(now_ms)
        self.outbox.stop(now_ms)
        self._logs.stop(now_ms)
        self._stopping.proceed()

    def finish_stop(self) -> bool:
        """Continues a clean stop if nothing of its last step is under way; returns whether it is complete."""
        if self.table.stopping:
            self._stopping.proceed()
        return self.stopped

    @property
    def stopped(self) -> bool:
        """Whether a clean stop is complete (or nothing more can be done for it)."""
        return self._stopping.done

    # Replicas

    def create(self, requests: Sequence[ReplicaRequest], now_ms: int) -> None:
        """Creates missing replicas, in the wished directory, otherwise in the best one (`penstock.log.placement`).

        All of one call are one operation for each directory. A replica with another topic id is set aside first.
        Replicas are left out, which `exists` tells, if no directory is left for them (all offline or cordoned), or if
        they may lie in a directory which is offline: an empty one elsewhere would be taken for the full one.
        """
        created = []
        placing = self._placement.begin(now_ms)
        for request in requests:
            replica = self.table.find(request.topic, request.partition)
            if replica is not None:
                if replica.topic_id in (None, request.topic_id):
                    replica.topic_id = request.topic_id
                    continue
                self._directories.dismiss(replica, "stray", now_ms)
            directory = self._choose(request, placing)
            if directory is not None:
                replica = Replica(request.topic, request.partition, request.topic_id, directory, State.CREATING)
                replica.size_bytes = 0
                self.table.add(replica)
                placing.took(replica)
                created.append(replica)
        self._directories.create(created, self._logs.now_closed)

    def _choose(self, request: ReplicaRequest, placing: PlacementRound) -> LogDirectory | None:
        online = self.table.online
        candidates = [directory for directory in online if not self.is_cordoned(directory)]
        preferred = self.moving.preferred.pop((request.topic, request.partition), None)
        if preferred in candidates and request.is_new:
            return preferred
        for directory in candidates:
            if directory.id is not None and directory.id == request.directory_id:
                return directory
        if not request.is_new and len(online) < len(self.table.directories):
            return None
        return placing.best(candidates)

    def is_cordoned(self, directory: LogDirectory) -> bool:
        """Whether a directory gets no new replicas (cordoned.log.dirs)."""
        cordoned = self.table.settings.cordoned_log_dirs
        return directory.path in cordoned or "*" in cordoned

    def exists(self, topic: str, partition: int) -> bool:
        """Whether this node has the replica, open or not."""
        return self.table.find(topic, partition) is not None

    def is_broken(self, topic: str, partition: int) -> bool:
        """Whether the replica exists but cannot be opened, although its directory is online."""
        replica = self.table.find(topic, partition)
        return replica is not None and replica.error is not None

    def log(self, topic: str, partition: int, now_ms: int) -> Log:
        """The open log.

        Raises:
            NotOpen: it is being created, opened or recovered.
            StorageError: its directory is offline, or there is no such replica.
        """
        replica = self.table.find(topic, partition)
        if replica is None:
            raise StorageError(f"this node has no replica of {topic}-{partition}")
        return self._logs.get(replica, now_ms)

    def open_log(self, topic: str, partition: int) -> Log | None:
        """The log if it is open; never begins to open it."""
        replica = self.table.find(topic, partition)
        return replica.log if replica is not None and replica.state is State.OPEN else None

    def delete(self, topic: str, partition: int, now_ms: int) -> None:
        """Removes the replica at once; its directory is renamed, and deleted after `file.delete.delay.ms`."""
        self.moving.abandon((topic, partition), now_ms)
        replica = self.table.find(topic, partition)
        if replica is not None:
            self._directories.dismiss(replica, "delete", now_ms)

    def settings_changed(self, settings: Settings) -> None:
        """Applies new broker settings."""
        reserve_changed = self.table.settings.penstock_log_dir_reserve_bytes != settings.penstock_log_dir_reserve_bytes
        self.table.settings = settings
        if reserve_changed and self.table.begun:
            self.spaces.look_soon()

    def config_changed(self, topic: str) -> None:
        """Applies a topic's new configuration to its open logs and to retention."""
        config = self.table.topic_config(topic)
        for replica in self.table.of_topic(topic):
            if replica.log is not None:
                replica.log.config = config
                self._flushes.expect(replica, replica.log)
            self._retention.changed(replica)
            self.cleaner.config_changed(replica)

    def directory_of(self, topic: str, partition: int) -> LogDirectory:
        """Where the replica is.

        Raises:
            StorageError: there is no such replica.
        """
        replica = self.table.find(topic, partition)
        if replica is None:
            raise StorageError(f"this node has no replica of {topic}-{partition}")
        return replica.directory

    def describe(self) -> Mapping[int, Sequence[tuple[str, int]]]:
        """(topic, partition) of all replicas, by directory index."""
        found: dict[int, list[tuple[str, int]]] = {directory.index: [] for directory in self.table.directories}
        for replica in self.table.replicas():
            found[replica.directory.index].append(replica.key)
        return found

    def size_of(self, topic: str, partition: int) -> int:
        """Bytes of all segments of a replica.

        Raises:
            NotOpen: nobody knows yet; the sizes of all closed logs of its directory are being added up.
            StorageError: there is no such replica, or its directory is offline.
        """
        replica = self.table.find(topic, partition)
        if replica is None or replica.directory.error is not None:
            raise StorageError(f"this node has no replica of {topic}-{partition}, or its log directory is offline")
        return self.sizes.of(replica)

    # High watermarks

    def high_watermark(self, topic: str, partition: int) -> int:
        """The checkpointed high watermark; 0 if unknown."""
        replica = self.table.find(topic, partition)
        return replica.high_watermark if replica is not None else 0

    def set_high_watermark(self, topic: str, partition: int, offset: int) -> None:
        """Keeps a high watermark for the next checkpoint."""
        replica = self.table.find(topic, partition)
        if replica is not None:
            self._checkpointing.note(replica, replica.directory.high_watermarks, offset)

    # Time and operations

    def tick(self, now_ms: int) -> None:
        """Does what is due: flushes, checkpoints, retention, deletion of what was renamed."""
        if self.table.stopping:
            return
        self._retention.clock_moved()
        self._cleaning.clock_moved()
        for function in self.deadlines.due(now_ms):
            function(now_ms)
            if self._retention.look_due:
                self._retiring.look(now_ms)
            if self._cleaning.look_due:
                self.cleaner.look(now_ms)
            if self.spaces.due:
                self.spaces.measure(self.outbox)

    def next_deadline_ms(self) -> int | None:
        """When `tick` must be called next; None if nothing is due."""
        return self.deadlines.next_ms() if not self.table.stopping else None

    @property
    def has_operations(self) -> bool:
        """Whether `take_operations` has something to do."""
        return bool(self.outbox.waiting) or self.table.stopping

    def take_operations(self) -> Sequence[Operation]:
        """Returns the operations to run now, including those of the open logs, and forgets them."""
        taken = self.outbox.take()
        if self.table.stopping:
            self._stopping.proceed()
            taken += self.outbox.take()
        return taken

    def read_failed(self, directory: int, error: OSError, now_ms: int) -> None:
        """Handles a failed read. A file that retention has removed is no fault; otherwise the directory has failed."""
        if not isinstance(error, FileNotFoundError):
            self.fail_directory(directory, error, now_ms)

    def metadata_log_has_no_room(self, directory: LogDirectory, error: OSError, now_ms: int) -> None:
        """The metadata log in this directory waits for room; so does what else is there."""
        self._report(MetadataLogFull(directory.path, str(error)))
        if directory in self.table.online:
            self.spaces.ran_out(directory, error, now_ms)

    def metadata_log_has_room(self, directory: LogDirectory) -> None:
        """The metadata log goes on."""
        self._report(MetadataLogHasRoom(directory.path))

    def fail_directory(self, index: int, error: OSError, now_ms: int) -> None:
        """Takes a directory offline: its logs are forgotten, and whoever waits for one of them is told."""
        self._failures.directory_failed(index, error, now_ms)
