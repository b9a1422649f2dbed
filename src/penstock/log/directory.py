"""One log directory: who it belongs to, how it was stopped, its checkpoints, and the replicas found in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from penstock.log.checkpoints import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    Checkpoint,
    MalformedCheckpoint,
)
from penstock.log.clean_shutdown import read_clean_shutdown, remove_clean_shutdown
from penstock.log.disk import FSYNC_FAILED, Disk
from penstock.log.events import CheckpointUnreadable, LogEvent
from penstock.log.names import parse_future_name, parse_name
from penstock.log.not_open import Opening
from penstock.log.recovery_progress import RecoveryProgress
from penstock.log.space import Space

METADATA_LOG = "__cluster_metadata-0"
"""The metadata log's directory: it belongs to the controller, not to the log manager."""
DELETE_SUFFIX = "-delete"


@dataclass(slots=True)
class Found:
    """The result of listing the directory, by names alone.

    `partitions` are (topic, partition) of replicas; `deleted` the directories whose removal was not finished; `futures`
    those of replicas on their way into use, with their names.
    """

    partitions: list[tuple[str, int]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    futures: list[tuple[tuple[str, int], str]] = field(default_factory=list)


class LogDirectory:
    """One log directory: where it is, its disk (which raises NotResident) and the blocking one for start-up.

    Attributes:
        index: position in `log.dirs`; operations and file slices carry it.
        path: as configured, for people and DescribeLogDirs.
        id: `directory.id` of its meta.properties.
        error: why it is offline; None while it is well.
        clean_epoch: broker epoch of the clean stop before this start; None after an unclean one.
        doubtful: an fsync had failed before this start: what recovery reads is written again before it counts.
        recovery_points, log_starts, high_watermarks, clean_offsets: the checkpoints.
        replicas: how many it has. recovery: how far that is, after an unclean stop.
        measuring: set while the sizes of its closed logs are being added up.
        space: the room in its file system.
    """

    __slots__ = (
        "blocking_disk",
        "clean_epoch",
        "clean_offsets",
        "disk",
        "doubtful",
        "error",
        "high_watermarks",
        "id",
        "index",
        "log_starts",
        "measuring",
        "path",
        "recovery",
        "recovery_points",
        "replicas",
        "space",
    )

    def __init__(self, index: int, path: str, disk: Disk, blocking_disk: Disk) -> None:
        self.index = index
        self.path = path
        self.disk = disk
        self.blocking_disk = blocking_disk
        self.id: UUID | None = None
        self.error: OSError | None = None
        self.clean_epoch: int | None = None
        self.doubtful = False
        self.recovery_points = Checkpoint(RECOVERY_POINT)
        self.log_starts = Checkpoint(LOG_START)
        self.high_watermarks = Checkpoint(HIGH_WATERMARK)
        self.clean_offsets = Checkpoint(CLEANER_OFFSET)
        self.replicas = 0
        self.recovery = RecoveryProgress()
        self.measuring: Opening | None = None
        self.space = Space()

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        return (self.recovery_points, self.log_starts, self.high_watermarks, self.clean_offsets)

    def load(self, report: Callable[[LogEvent], None]) -> Found:
        """Reads the mark of a clean stop, the checkpoints and the names in the directory, waiting for the disk.

        A checkpoint that cannot be read is reported and counts as empty. Raises OSError as the disk does.
        """
        disk = self.blocking_disk
        self.clean_epoch = read_clean_shutdown(disk)
        self.doubtful = disk.exists(FSYNC_FAILED)
        for checkpoint in self.checkpoints:
            try:
                checkpoint.load(disk)
            except MalformedCheckpoint as error:
                report(CheckpointUnreadable(f"{self.path}/{checkpoint.file}", str(error)))
        found = Found()
        for entry in disk.list(""):
            if not entry.is_directory or entry.name == METADATA_LOG:
                continue
            if entry.name.endswith(DELETE_SUFFIX):
                found.deleted.append(entry.name)
            elif (future := parse_future_name(entry.name)) is not None:
                found.futures.append((future, entry.name))
            elif (partition := parse_name(entry.name)) is not None:
                found.partitions.append(partition)
        return found

    def unmark(self) -> None:
        """Removes the mark of a clean stop, durably and before anything else is written; waits for the disk."""
        remove_clean_shutdown(self.blocking_disk)

    def measured(self, now_ms: int) -> None:
        """The sizes are known, or will never be: calls those who wait for them."""
        measuring, self.measuring = self.measuring, None
        if measuring is not None:
            measuring.done(now_ms)
