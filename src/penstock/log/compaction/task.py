"""A pass, or a part of one, as a task: a worker reads closed segments and writes new ones under names that end with
`.cleaned`.

Nobody takes such files for a part of the log. `swap` gives them their names; a pass that does not end well removes
them, and so does the next one, or a recovery.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from errno import EIO, ENODEV, ENXIO, EROFS, ESTALE
from typing import Any, ClassVar

from penstock.config.values import GiB
from penstock.errors import ConfigError, PenstockError, StorageError
from penstock.log.compaction.cleaning import run_pass
from penstock.log.compaction.maps import offset_map
from penstock.log.compaction.offset_map import ENTRY_BYTES, LatestOffsets, OffsetMap
from penstock.log.compaction.parts import Room
from penstock.log.compaction.passes import Pass
from penstock.log.compaction.report import PassReport
from penstock.log.compaction.target import Target
from penstock.log.disk import Disk, OperationOwner
from penstock.log.limits import CLEANING_TASK_MAX_MS, COMPILED_MIN_BYTES
from penstock.log.names import CLEANED
from penstock.log.replica import Replica
from penstock.log.space import is_full
from penstock.log.tasks import Task, TaskOperation

LEAST_SLOTS = 8
DISK_FAILURES = frozenset((EIO, EROFS, ENODEV, ENXIO, ESTALE))
"""Errors of a worker that say that the disk is not well; others are of the process, such as too many open files."""


@dataclass(frozen=True, slots=True)
class PassOutcome:
    """How a pass ended: with a report, or with what kept it from being made."""

    report: PassReport | None
    failure: str = ""


@dataclass(frozen=True, slots=True)
class RunPass(Task):
    """Runs a pass, or the part of it for which there is room.

    `buffer_bytes`, `load_factor` and `hash_key` are those of its map of keys; `reserve_bytes` are kept free of records.
    """

    report_type: ClassVar[type] = PassOutcome
    writes: ClassVar[bool] = True
    paced: ClassVar[bool] = True
    work: Pass
    buffer_bytes: int
    load_factor: float
    hash_key: bytes
    reserve_bytes: int = 0

    @property
    def what(self) -> str:
        return f"the compaction of {self.work.name}"

    @property
    def size_bytes(self) -> int:
        """What it reads, at most; what is dirty it reads twice."""
        return sum(segment.size_bytes for segment in self.work.to_clean)

    @property
    def needed_bytes(self) -> int:
        """What the map needs at most: there are no more keys than dirty offsets."""
        keys = self.work.end_offset - self.work.map_start_offset
        return min(self.buffer_bytes, 2 * ENTRY_BYTES * (int(keys / self.load_factor) + LEAST_SLOTS))

    @property
    def deadline_ms(self) -> int:
        return CLEANING_TASK_MAX_MS * (1 + self.size_bytes // GiB)

    def run(self, disk: Disk) -> PassOutcome:
        """In a worker, which may import what makes a long pass fast."""
        return self.run_with(disk, offset_map if self.size_bytes >= COMPILED_MIN_BYTES else OffsetMap)

    def run_with(self, disk: Disk, map_of: Callable[[int, float, bytes], LatestOffsets]) -> PassOutcome:
        """Raises OSError for a disk that fails; a full one, and files that are gone or damaged, are an outcome."""
        name = self.work.name
        try:
            remove_cleaned(disk, name)
            dirty_bytes = sum(segment.size_bytes for segment in self.work.dirty)
            room = Room.of(disk.free_bytes(), self.reserve_bytes, dirty_bytes)
            offsets = map_of(self.needed_bytes, self.load_factor, self.hash_key)
            return PassOutcome(run_pass(disk, self.work, offsets, Target(disk, name, CLEANED), room))
        except FileNotFoundError as error:
            failure = f"its files have changed: {error}"
        except (StorageError, ConfigError) as error:
            failure = str(error)
        except OSError as error:
            if not is_full(error):
                raise
            failure = f"the disk is full: {error}"
        with suppress(FileNotFoundError):
            remove_cleaned(disk, name)
        return PassOutcome(None, failure)


class TaskRaisedError(PenstockError):
    """A pass has raised in a worker what is no error of the disk: a bug."""


class CleanLog(TaskOperation):
    """Runs a pass beside the log's other operations. The result is a `PassOutcome`. `replica` is for the caller."""

    __slots__ = ("pass_task", "replica")

    def __init__(self, replica: Replica, owner: OperationOwner, pass_task: RunPass) -> None:
        super().__init__(replica.directory.index, cleaning_order(replica), owner)
        self.replica = replica
        self.pass_task = pass_task

    def run(self, disk: Disk) -> PassOutcome:
        return self.pass_task.run_with(disk, OffsetMap)

    def task(self, disk: Disk) -> RunPass:
        return self.pass_task

    def finish(self, disk: Disk, report: Any) -> PassOutcome:
        assert isinstance(report, PassOutcome)
        return report

    def without_worker(self, disk: Disk, reason: str) -> PassOutcome:
        """A pass waits until there is a worker. In the node it would hold the interpreter, take the memory of its map,
        and go as fast as the disk does.
        """
        return PassOutcome(None, reason)

    def when_raised(self, disk: Disk, reason: str, errno: int | None) -> PassOutcome:
        """Raises OSError if the disk has failed, TaskRaisedError for a bug."""
        if errno is None:
            raise TaskRaisedError(f"{self.pass_task.what}: {reason}")
        if errno in DISK_FAILURES:
            raise OSError(errno, reason)
        return self.without_report(disk, f"{self.pass_task.what}: {reason}")

    def without_report(self, disk: Disk, reason: str) -> PassOutcome:
        """What the workers have left goes at once: the next try is far, and there may be little room."""
        with suppress(FileNotFoundError):
            remove_cleaned(disk, self.pass_task.work.name)
        return PassOutcome(None, reason)


def cleaning_order(replica: Replica) -> str:
    """The order of operations on a log's `.cleaned` files, which no other operation of the log waits for."""
    return f"{replica.name}/clean"


def remove_cleaned(disk: Disk, name: str) -> None:
    """Removes what a pass has left that did not end. Raises FileNotFoundError if the log is gone."""
    for info in disk.list(name):
        if info.name.endswith(CLEANED):
            disk.unlink(f"{name}/{info.name}")
