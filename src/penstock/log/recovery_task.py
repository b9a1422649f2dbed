"""The recovery of a log as tasks for workers, which only read.

A log of usual size is one task (`PlanRecovery`): it is done on a `RecordingDisk`, and the report is what it would have
changed. So a worker runs the same code as the lane does. The lane makes the changes, if the log's files are still those
that the worker has seen.

A log with much to scan goes to several workers, a segment a task (`ScanSegment`), a few at a time (`SplitRecovery`).
The lane writes the indexes of those that are done, as a recovery does, which may be broken off and repeated anywhere:
but not those of an older segment, which is scanned because it lacks one, and would not be again. When all are done it
runs the recovery with these scans, and has then little to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from penstock.config.values import GiB
from penstock.log.disk import Disk, FileInfo
from penstock.log.limits import (
    COMPILED_MIN_BYTES,
    RECOVERY_CHANGES_MAX_BYTES,
    RECOVERY_PART_BATCHES_MAX,
    RECOVERY_PART_INDEXES_MAX_BYTES,
    RECOVERY_PARTS_MAX,
    RECOVERY_PRODUCER_BATCHES_MAX,
    RECOVERY_TASK_MAX_BYTES,
    RECOVERY_TASK_MAX_MS,
    RECOVERY_WORKER_MIN_BYTES,
)
from penstock.log.loading import OpenArguments, listing
from penstock.log.names import LOG, SWAP, offset_of
from penstock.log.recording_disk import Change, RecordingDisk, apply
from penstock.log.recovery import RecoveryReport, first_doubtful, lacks_index, recover_log, write_indexes
from penstock.log.segment import Segment
from penstock.log.segment_scan import Account, ProducerBatch, Scan, SegmentScan, SegmentToScan, scan_segment
from penstock.log.segment_scanners import fastest_scan
from penstock.log.tasks import Parts, Task

COORDINATORS, ASKED_FOR, OTHERS = range(3)
"""Ranks of recoveries: without the coordinators' topics no group and no transaction goes on."""


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
    """Plans a recovery. See the module's head.

    Attributes: `scan_bytes` in so many `segments` are what there is to scan, unless the log ends sooner.
    """

    report_type: ClassVar[type] = PlannedRecovery
    arguments: OpenArguments
    scan_bytes: int
    precedence: int = OTHERS
    segments: int = 1

    @property
    def what(self) -> str:
        return f"the recovery of {self.arguments.name}"

    @property
    def rank(self) -> int:
        return self.precedence

    @property
    def deadline_ms(self) -> int:
        return deadline_ms(self.scan_bytes)

    def run(self, disk: Disk) -> PlannedRecovery:
        files = files_of(disk, self.arguments.name)
        recording = RecordingDisk(disk, RECOVERY_CHANGES_MAX_BYTES)
        report = recover_log(recording, self.arguments, scan=scan_for(self.scan_bytes))
        return PlannedRecovery(report, recording.changes, files)


@dataclass(frozen=True, slots=True)
class ScannedSegment:
    """A segment that was scanned, and what was found; `batches` are None if that is too much to report."""

    wanted: SegmentToScan
    found: SegmentScan
    batches: list[ProducerBatch] | None


@dataclass(frozen=True, slots=True)
class ScanSegment(Task):
    """Scans one segment of a log that is recovered in parts."""

    report_type: ClassVar[type] = ScannedSegment
    wanted: SegmentToScan
    precedence: int = OTHERS

    @property
    def what(self) -> str:
        return f"the recovery of {self.wanted.path}"

    @property
    def rank(self) -> int:
        return self.precedence

    @property
    def deadline_ms(self) -> int:
        return deadline_ms(self.wanted.size_bytes)

    def run(self, disk: Disk) -> ScannedSegment:
        kept: list[ProducerBatch] = []
        count = 0

        def keep(batches: Sequence[ProducerBatch]) -> None:
            nonlocal count
            count += len(batches)
            if count <= RECOVERY_PART_BATCHES_MAX:
                kept.extend(batches)

        found = scan_for(self.wanted.size_bytes)(disk, self.wanted, keep)
        if count > RECOVERY_PART_BATCHES_MAX or index_bytes(found) > RECOVERY_PART_INDEXES_MAX_BYTES:
            return ScannedSegment(self.wanted, without_indexes(found), None)
        return ScannedSegment(self.wanted, found, kept)


class SplitRecovery:
    """The recovery of one log in parts, between its rounds. Attributes: `left`, segments to scan."""

    def __init__(self, arguments: OpenArguments, wanted: Sequence[SegmentToScan], files: list[FileInfo]) -> None:
        self.left = list(wanted)
        self._arguments = arguments
        self._files = files
        self._scanned: dict[int, ScannedSegment] = {}
        self._batches = 0
        self._kept_bytes = 0

    def next_parts(self, precedence: int) -> Parts:
        """The next few tasks."""
        return Parts([ScanSegment(wanted, precedence) for wanted in self.left[:RECOVERY_PARTS_MAX]])

    def take(self, disk: Disk, reports: Sequence[ScannedSegment]) -> bool:
        """Takes up what the tasks have found; False if the log is to be recovered in one task, or has changed.

        Raises OSError as the disk does.
        """
        if segment_files_of(disk, self._arguments.name) != self._files:
            return False
        for scanned in reports:
            if scanned.batches is None:
                return False
            self._batches += len(scanned.batches)
            self._scanned[scanned.wanted.base_offset] = self._written(disk, scanned)
        del self.left[: len(reports)]
        return self._batches <= RECOVERY_PRODUCER_BATCHES_MAX and self._kept_bytes <= RECOVERY_CHANGES_MAX_BYTES

    def _written(self, disk: Disk, scanned: ScannedSegment) -> ScannedSegment:
        """The same without the indexes, if they may be written now."""
        wanted, found = scanned.wanted, scanned.found
        if wanted.following is not None and wanted.following <= self._arguments.recovery_point:
            self._kept_bytes += index_bytes(found)
            return scanned
        write_indexes(disk, Segment(wanted.name, wanted.base_offset, 0), found)
        return replace(scanned, found=without_indexes(found))

    def carry_out(self, disk: Disk) -> RecoveryReport:
        """Recovers the log when all its segments are scanned. Raises as `recover_log`."""
        return recover_log(disk, self._arguments, scan=self._scan)

    def _scan(self, disk: Disk, wanted: SegmentToScan, account: Account) -> SegmentScan:
        scanned = self._scanned.get(wanted.base_offset)
        if scanned is None or wanted.account_from > wanted.base_offset:
            return scan_segment(disk, wanted, account)
        asked = replace(wanted, account_from=scanned.wanted.account_from)
        if scanned.batches is None or scanned.wanted != asked:
            return scan_segment(disk, wanted, account)
        account(scanned.batches)
        return scanned.found


def plan_recovery(disk: Disk, arguments: OpenArguments, precedence: int = OTHERS) -> PlanRecovery | None:
    """The task of recovering a log; None if there is little to scan, or all of it may have to be written again."""
    if arguments.doubtful:
        return None
    wanted = segments_to_scan(disk, arguments)
    scan_bytes = sum(each.size_bytes for each in wanted)
    if scan_bytes < RECOVERY_WORKER_MIN_BYTES:
        return None
    return PlanRecovery(arguments, scan_bytes, precedence, len(wanted))


def split_recovery(disk: Disk, arguments: OpenArguments) -> SplitRecovery | None:
    """The recovery of a log with much to scan; None for others.

    While a swap of the cleaner is to be finished, nobody knows which segments there will be.
    """
    wanted = segments_to_scan(disk, arguments)
    if len(wanted) < 2 or sum(each.size_bytes for each in wanted) <= RECOVERY_TASK_MAX_BYTES:
        return None
    if any(info.name.endswith(SWAP) for info in files_of(disk, arguments.name)):
        return None
    return SplitRecovery(arguments, wanted, segment_files_of(disk, arguments.name))


def segments_to_scan(disk: Disk, arguments: OpenArguments) -> list[SegmentToScan]:
    """The segments that a recovery scans, unless the log ends before one of them."""
    name = arguments.name
    files = listing(disk, name)
    sizes = {base: info.size_bytes for info in files.values() if (base := offset_of(info.name, LOG)) is not None}
    bases = list(sizes)
    first = first_doubtful(bases, arguments.recovery_point)
    interval_bytes = arguments.config.index_interval_bytes
    return [
        SegmentToScan(name, base, sizes[base], following, interval_bytes, account_from=0)
        for number, (base, following) in enumerate(zip(bases, [*bases[1:], None], strict=False))
        if number >= first or lacks_index(name, base, files)
    ]


def index_bytes(found: SegmentScan) -> int:
    """How much of indexes a scan has made."""
    return len(found.offset_index or b"") + len(found.time_index or b"")


def without_indexes(found: SegmentScan) -> SegmentScan:
    return replace(found, offset_index=None, time_index=None)


def scan_for(scan_bytes: int) -> Scan:
    """The scan for so many bytes. In a worker, which may import what makes a long scan fast."""
    return fastest_scan() if scan_bytes >= COMPILED_MIN_BYTES else scan_segment


def deadline_ms(scan_bytes: int) -> int:
    return RECOVERY_TASK_MAX_MS * (1 + scan_bytes // GiB)


def files_of(disk: Disk, name: str) -> list[FileInfo]:
    """The files of a log, in the order of their names."""
    return list(listing(disk, name).values())


def segment_files_of(disk: Disk, name: str) -> list[FileInfo]:
    """The files of a log that have its records."""
    return [info for info in files_of(disk, name) if offset_of(info.name, LOG) is not None]
