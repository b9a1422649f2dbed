"""The recovery of a log as a task: it is done on a `RecordingDisk`, and the report is what it would have changed.

So a worker runs the same code as the lane does, and only reads. The lane makes the changes, if the log's files are
still those that the worker has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from penstock.config.values import GiB
from penstock.log.disk import Disk, FileInfo
from penstock.log.limits import (
    COMPILED_MIN_BYTES,
    RECOVERY_CHANGES_MAX_BYTES,
    RECOVERY_TASK_MAX_MS,
    RECOVERY_WORKER_MIN_BYTES,
)
from penstock.log.loading import OpenArguments, listing
from penstock.log.names import LOG, offset_of
from penstock.log.recording_disk import Change, RecordingDisk, apply
from penstock.log.recovery import RecoveryReport, recover_log
from penstock.log.segment_scan import scan_segment
from penstock.log.segment_scanners import fastest_scan
from penstock.log.tasks import Task


@dataclass(frozen=True, slots=True)
class PlannedRecovery:
    """What a recovery found, the changes that it makes, and the files of the log that it is about."""

    recovery: RecoveryReport
    changes: list[Change]
    files: list[FileInfo]

    def still_holds(self, disk: Disk) -> bool:
        """Whether the log's files are those that were scanned: it was not cut, deleted or replaced meanwhile."""
        return files_of(disk, self.recovery.name) == self.files

    def carry_out(self, disk: Disk) -> RecoveryReport:
        """Makes the changes. Raises OSError as the disk does."""
        apply(disk, self.changes)
        return self.recovery


@dataclass(frozen=True, slots=True)
class PlanRecovery(Task):
    """Plans a recovery. See the module's head. Attributes: `scan_bytes`, roughly how much there is to scan."""

    report_type: ClassVar[type] = PlannedRecovery
    arguments: OpenArguments
    scan_bytes: int

    @property
    def what(self) -> str:
        return f"the recovery of {self.arguments.name}"

    @property
    def deadline_ms(self) -> int:
        return RECOVERY_TASK_MAX_MS * (1 + self.scan_bytes // GiB)

    def run(self, disk: Disk) -> PlannedRecovery:
        files = files_of(disk, self.arguments.name)
        recording = RecordingDisk(disk, RECOVERY_CHANGES_MAX_BYTES)
        scan = fastest_scan() if self.scan_bytes >= COMPILED_MIN_BYTES else scan_segment
        return PlannedRecovery(recover_log(recording, self.arguments, scan=scan), recording.changes, files)


def plan_recovery(disk: Disk, arguments: OpenArguments) -> PlanRecovery | None:
    """The task of recovering a log; None if there is little to scan, or all of it may have to be written again."""
    if arguments.doubtful:
        return None
    sizes = {offset: info.size_bytes for info in files_of(disk, arguments.name) if (offset := log_offset(info)) >= 0}
    first = max((base for base in sizes if base <= arguments.recovery_point), default=0)
    scan_bytes = sum(size_bytes for base, size_bytes in sizes.items() if base >= first)
    return PlanRecovery(arguments, scan_bytes) if scan_bytes >= RECOVERY_WORKER_MIN_BYTES else None


def files_of(disk: Disk, name: str) -> list[FileInfo]:
    """The files of a log, in the order of their names."""
    return list(listing(disk, name).values())


def log_offset(info: FileInfo) -> int:
    """The base offset of the segment whose records a file holds; -1 for other files."""
    offset = offset_of(info.name, LOG)
    return -1 if offset is None else offset
