"""One replica as the log manager keeps it: a slotted record, with a `Log` only while somebody uses it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import StorageError
from penstock.log.directory import LogDirectory
from penstock.log.not_open import NotOpen, Opening

if TYPE_CHECKING:
    from penstock.log.log import Log


class State(Enum):
    """Where a replica is between disk and memory."""

    CREATING = "creating"
    """Its directory is being made."""
    UNRECOVERED = "unrecovered"
    """Its directory was not stopped cleanly; it must be recovered first."""
    RECOVERING = "recovering"
    CLOSED = "closed"
    """Good on disk, nothing in memory."""
    RETIRING = "retiring"
    """Retention is looking at its files."""
    OPENING = "opening"
    OPEN = "open"
    CLOSING = "closing"
    SWAPPING = "swapping"
    """Cleaned segments are taking the place of others."""
    BROKEN = "broken"
    """It cannot be opened; `error` says why."""
    GONE = "gone"
    """Deleted, or its directory failed; nobody finds it any more."""


@dataclass(frozen=True, slots=True)
class ReplicaRequest:
    """A replica that this node is to have. `directory_id` is the controller's wish; None lets the node choose.

    `is_new`: it has just been assigned to this node, so it cannot lie in a directory which is offline.
    """

    topic: str
    partition: int
    topic_id: UUID
    directory_id: UUID | None = None
    is_new: bool = True


class Replica:
    """One replica of this node.

    Attributes:
        topic_id: as assigned or as found in its files; None while neither is known.
        log: set exactly while the state is OPEN or CLOSING.
        opening: set while somebody waits for the log.
        size_bytes: of a log that is not open; None while unknown.
        retention_ms: when retention looks at it next; None if only after a change.
        flush_set: whether a deadline for flush.ms is in the heap.
        opened: whether its log was open since the start, so that a pass of the cleaner may be under way.
        own_name: of a future replica, on its way into use from another directory (`penstock.log.moving`).
        frozen: None, or it is closed, or about to, and not to be opened before it has swapped with another, or some of
            its segments have; then called whenever a step has ended with it closed. Where there is no room to close it,
            it is open and not frozen any more, and this is called, too.
        no_room: it cannot be created, recovered or opened before there is room on its disk.
        cuts: how often its log was truncated.
        dirty_ratio, overdue_ms: which share of it was not cleaned, and by how much a record there is older than
            max.compaction.lag.ms, when the log cleaner looked last; 0 if it does not clean it.
        unused: its directory has been made and nothing in it yet, so that opening it needs no look.
    """

    __slots__ = (
        "cuts",
        "directory",
        "dirty_ratio",
        "error",
        "flush_set",
        "frozen",
        "log",
        "no_room",
        "opened",
        "opening",
        "overdue_ms",
        "own_name",
        "partition",
        "retention_ms",
        "size_bytes",
        "state",
        "topic",
        "topic_id",
        "unused",
    )

    def __init__(
        self,
        topic: str,
        partition: int,
        topic_id: UUID | None,
        directory: LogDirectory,
        state: State,
        *,
        own_name: str | None = None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.directory = directory
        self.state = state
        self.log: Log | None = None
        self.opened = False
        self.opening: Opening | None = None
        self.error: StorageError | None = None
        self.size_bytes: int | None = None
        self.retention_ms: int | None = None
        self.flush_set = False
        self.own_name = own_name
        self.frozen: Callable[[int], None] | None = None
        self.no_room = False
        self.cuts = 0
        self.dirty_ratio = 0.0
        self.overdue_ms = 0
        self.unused = False

    @property
    def key(self) -> tuple[str, int]:
        return (self.topic, self.partition)

    @property
    def name(self) -> str:
        """Name of its directory within the log directory."""
        return self.own_name or f"{self.topic}-{self.partition}"

    @property
    def is_open(self) -> bool:
        """Whether its log can be used now."""
        return self.state is State.OPEN

    @property
    def is_future(self) -> bool:
        """Whether it is on its way into use."""
        return self.own_name is not None

    @property
    def known_bytes(self) -> int:
        """What its log takes; 0 while nobody knows."""
        return self.log.size_bytes if self.log is not None else self.size_bytes or 0

    @property
    def high_watermark(self) -> int:
        """The checkpointed high watermark; 0 if unknown."""
        return self.directory.high_watermarks.get(self.key) or 0

    def when_open(self) -> list[Callable[[int], None]]:
        """Functions to call when the log is open, or cannot be."""
        if self.opening is None:
            self.opening = Opening(self.name)
        return self.opening.when_done

    def wait(self) -> NotOpen:
        """The exception for a caller who wants the log now."""
        self.when_open()
        assert self.opening is not None
        return NotOpen(self.directory.index, self.opening, no_room=self.no_room)

    def waits_for_room(self, now_ms: int) -> None:
        """A step on the way to being open has found no room: tells those who wait, who may not want to any more."""
        self.no_room = True
        self.done(now_ms)

    def done(self, now_ms: int) -> None:
        """Calls all that wait for the log, whatever the result."""
        opening, self.opening = self.opening, None
        if opening is not None:
            opening.done(now_ms)
