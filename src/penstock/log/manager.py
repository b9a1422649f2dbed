"""The log directories of a node and all replicas in them: created, opened at first use, closed, deleted, recovered.

A replica that nobody uses is one slotted record; its log opens when somebody asks for it and closes when it is the one
least recently used. Nothing here waits: what may block is an operation. The node drains `take_operations()`, which also
gives what the open logs have waiting, at the end of every event, and calls `tick` when `next_deadline_ms` has come.

- `start` reads, blocking, what each directory says of itself: its identity, whether it was stopped cleanly, the checkpoints, the names
  of the partition directories. After a clean stop it reads nothing else.
- `log(name)` answers the open `Log` or raises `NotOpen`: the log is being created, opened or recovered by an operation, and
  those who wait on the exception's `opening` are called when that has ended. The dispatcher runs the handler again then.
- After an unclean stop every log is recovered before it is served: those asked for first, the others after them, a few
  at a time. What was lost is reported by offset range.
- An error of the file system takes its directory offline: all its logs, for good. `StorageError` from then on.
- What went by (appends, new starts, new high watermarks) puts replicas into dirty sets; checkpoints, flushes and
  retention look at those and at one heap of deadlines, never at all replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any
from uuid import UUID

from penstock.errors import NotResident
from penstock.log.disk import Disk, Operation
from penstock.log.events import LogEvent
from penstock.log.listener import LogListener

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.config.topic import TopicConfig
    from penstock.log.log import Log


class LogDirectory:
    """One log directory: where it is, its disk (which raises NotResident) and the blocking one for start-up.

    Attributes:
        index: position in `log.dirs`; operations and file slices carry it.
        path: as configured, for people and DescribeLogDirs.
        id: `directory.id` of its meta.properties.
        error: why it is offline; None while it is well.
    """

    __slots__ = ("blocking_disk", "disk", "error", "id", "index", "path")

    def __init__(self, index: int, path: str, disk: Disk, blocking_disk: Disk) -> None:
        self.index = index
        self.path = path
        self.disk = disk
        self.blocking_disk = blocking_disk
        self.id: UUID | None = None
        self.error: OSError | None = None


class Opening:
    """A log on its way to being open. `when_done` functions are called once, on the loop, however it ended."""

    __slots__ = ("name", "when_done")

    def __init__(self, name: str) -> None:
        self.name = name
        self.when_done: list[Callable[[int], None]] = []


class NotOpen(NotResident):
    """The log is not open yet. Append a function to `opening.when_done`, and run the handler again when it is called."""

    def __init__(self, directory: int, opening: Opening) -> None:
        super().__init__(directory, opening.name, 0, 0)
        self.opening = opening


@dataclass(frozen=True, slots=True)
class ReplicaRequest:
    """A replica that this node is to have. `directory_id` is the controller's wish; None lets the node choose."""

    topic: str
    partition: int
    topic_id: UUID
    directory_id: UUID | None = None


class LogManager:
    """All log directories of a node. See the module's head.

    Args:
        settings: the broker's settings.
        directories: in the order of `log.dirs`.
        topic_config: the present configuration of a topic, by name; asked when a log opens and at retention.
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
        raise NotImplementedError

    # Start and stop

    def start(self, now_ms: int) -> None:
        """Reads the directories, blocking, and removes the marks of a clean stop. No log is opened.

        Raises:
            ConfigError: meta.properties is missing, or belongs to another cluster or node.
            StorageError: no directory is readable.
        """

    @property
    def previous_broker_epoch(self) -> int:
        """The broker epoch of the last clean stop, for registration; -1 if any directory was not stopped cleanly."""
        raise NotImplementedError

    def stop(self, broker_epoch: int, now_ms: int) -> None:
        """Begins a clean stop: flush and close all logs, write checkpoints, mark the directories. See `stopped`."""

    @property
    def stopped(self) -> bool:
        """Whether a clean stop is complete (or nothing more can be done for it)."""
        raise NotImplementedError

    # Replicas

    def create(self, requests: Sequence[ReplicaRequest], now_ms: int) -> None:
        """Makes the replicas that are missing: in the wished directory, else in the one with fewest. One batch a directory."""

    def exists(self, topic: str, partition: int) -> bool:
        """Whether this node has the replica, open or not."""
        raise NotImplementedError

    def log(self, topic: str, partition: int, now_ms: int) -> Log:
        """The open log.

        Raises:
            NotOpen: it is being created, opened or recovered.
            StorageError: its directory is offline, or there is no such replica.
        """
        raise NotImplementedError

    def open_log(self, topic: str, partition: int) -> Log | None:
        """The log if it is open; never begins to open it."""
        raise NotImplementedError

    def delete(self, topic: str, partition: int, now_ms: int) -> None:
        """Takes the replica away at once; its directory is renamed, and removed after `file.delete.delay.ms`."""

    def set_aside_strays(self, assigned: Callable[[str, int], UUID | None], now_ms: int) -> None:
        """Renames directories of partitions that are not assigned to this node (`assigned` gives the topic id, or None)."""

    def config_changed(self, topic: str, now_ms: int) -> None:
        """The topic's configuration is another: open logs get it, and retention looks again."""

    def directory_of(self, topic: str, partition: int) -> LogDirectory:
        """Where the replica is."""
        raise NotImplementedError

    def describe(self) -> Mapping[int, Sequence[tuple[str, int]]]:
        """(topic, partition) of all replicas, by directory index."""
        raise NotImplementedError

    def size_of(self, topic: str, partition: int) -> int:
        """Bytes of all segments; from the file sizes if the log is not open (may block on a listing: lane or DescribeLogDirs)."""
        raise NotImplementedError

    # High watermarks

    def high_watermark(self, topic: str, partition: int) -> int:
        """The checkpointed high watermark; 0 if unknown."""
        raise NotImplementedError

    def set_high_watermark(self, topic: str, partition: int, offset: int) -> None:
        """Remembers it for the next checkpoint."""

    # Time and operations

    def tick(self, now_ms: int) -> None:
        """Does what is due: flushes, checkpoints, retention, rolls by time, deletion of what was renamed."""

    def next_deadline_ms(self) -> int | None:
        """When `tick` is due next."""
        raise NotImplementedError

    def take_operations(self) -> Sequence[Operation]:
        """The operations to run now, those of the open logs included; gone from here."""
        raise NotImplementedError

    def log_has_operations(self, log: Log) -> None:
        """An open log says that it has operations to be taken."""

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """OperationOwner: one of our own operations (not those of a log) has ended well."""

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """OperationOwner: the file system failed; the directory goes offline."""

    def fail_directory(self, index: int, error: OSError, now_ms: int) -> None:
        """Takes a directory offline: its logs are forgotten, those who wait for one are called."""
