"""All files of one partition's directory. Pure: it is given a disk and what the checkpoints beside the log say.

Beside a running broker two things are different. The tail of the last segment, and index entries that point behind what
was there when the look began, are not judged. And files come, go and change while they are read: what a look finds
wrong counts only if a second one finds it, too.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.log.disk import Disk
from penstock.log.limits import VERIFY_LOOKS_MAX
from penstock.log.loading import listing
from penstock.log.names import CLEANED, LEADER_EPOCHS, LOG, SWAP, offset_of
from penstock.log.verification.batches import SeenBatch, seen_batches
from penstock.log.verification.findings import Findings
from penstock.log.verification.inspection import Inspection, Progress, unreadable
from penstock.log.verification.leftovers import CHECKPOINT, meaning_of
from penstock.log.verification.record_checks import RecordCheck, WalkRecords
from penstock.log.verification.segment_check import LogWalk, SegmentCheck
from penstock.log.verification.small_files import (
    check_epochs_end,
    check_quorum_state,
    check_snapshots,
    check_topic_id,
    leader_epochs_of,
)


@dataclass(frozen=True, slots=True)
class Beside:
    """What is known of a log from the log directory that it is in.

    Attributes:
        recovery_point, log_start_offset, high_watermark, clean_offset: from the checkpoints; None where they have none.
        is_written: a broker holds the lock of the directory.
        was_stopped_cleanly: the directory has the mark of a clean stop.
    """

    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    clean_offset: int | None = None
    is_written: bool = False
    was_stopped_cleanly: bool = False


@dataclass(slots=True)
class PartitionReport:
    """What a check of one partition's directory came to. Offsets are those of the files: [`start`, `end`)."""

    name: str
    findings: Findings
    segments: int = 0
    batches: int = 0
    records: int = 0
    old_messages: int = 0
    bytes: int = 0
    start_offset: int = 0
    end_offset: int = 0


def check_partition(
    disk: Disk, name: str, beside: Beside, walk_records: WalkRecords, progress: Progress
) -> PartitionReport:
    """Looks at a partition's directory until what it finds can be relied on. Raises OSError where that cannot be read,
    FileNotFoundError if it is gone."""
    before: Findings | None = None
    gone = ""
    for _ in range(VERIFY_LOOKS_MAX):
        try:
            report = look(disk, name, beside, walk_records, progress)
        except FileNotFoundError as error:
            disk.list(name)  # it is gone altogether: that is for the caller
            gone = str(error.filename).rpartition("/")[2]
            continue
        if not beside.is_written or not report.findings.problems:
            return report
        if before is not None:
            report.findings = report.findings.only_seen_in(before)
            return report
        before = report.findings
    report = PartitionReport(name, Findings())
    if beside.is_written:
        report.findings.unjudged("", f"its files changed each of the {VERIFY_LOOKS_MAX} times that they were looked at")
    else:
        report.findings.problem(gone, "it cannot be opened: nothing is there, as behind a link that leads nowhere")
    return report


def look(disk: Disk, name: str, beside: Beside, walk_records: WalkRecords, progress: Progress) -> PartitionReport:
    """One look. Raises FileNotFoundError if a file is gone meanwhile."""
    files, findings = listing(disk, name), Findings()
    at = Inspection(disk, name, files, findings, RecordCheck(walk_records), progress, beside.is_written)
    bases = [base for file in files if (base := offset_of(file, LOG)) is not None]
    name_leftovers(at, bases)
    epochs = leader_epochs_of(at)
    walk = LogWalk(bases[0] if bases else 0, None if epochs is None else epochs.epoch_for)
    check_segments(at, bases, walk)
    if walk.latest_epoch >= 0 and LEADER_EPOCHS not in files:
        findings.problem(LEADER_EPOCHS, f"it is missing, and batches have leader epochs up to {walk.latest_epoch}")
    end_offset = walk.next_offset if bases else beside.log_start_offset or 0
    if walk.is_whole:
        check_epochs_end(at, epochs, end_offset)
        check_snapshots(at, end_offset)
        check_checkpoints(beside, bases, end_offset, findings)
    say_gaps(walk, beside, at)
    check_topic_id(at)
    check_quorum_state(at)
    check_snapshots_of_metadata(at)
    if findings.problems:
        say_what_a_start_does(beside, findings)
    return PartitionReport(
        name,
        findings,
        segments=walk.segments,
        batches=walk.batches,
        records=walk.records,
        old_messages=walk.old_messages,
        bytes=sum(at.size(file) for file in files if offset_of(file, LOG) is not None),
        start_offset=bases[0] if bases else end_offset,
        end_offset=end_offset,
    )


def check_segments(at: Inspection, bases: list[int], walk: LogWalk) -> None:
    """Every segment in turn. One whose file cannot be read is a problem of its own."""
    for base, following in zip(bases, [*bases[1:], None], strict=False):
        check = SegmentCheck(at, base, following, walk)
        try:
            check.run()
        except FileNotFoundError:
            raise
        except OSError as error:
            at.findings.problem(check.file, unreadable(error))
    if not bases:
        at.findings.note("", "it has no segments: nothing was written to it yet")


def name_leftovers(at: Inspection, bases: list[int]) -> None:
    """Files that are no part of the log, by name."""
    known = set(bases)
    for file in at.files:
        digits = file.partition(".")[0]
        base = int(digits) if digits.isascii() and digits.isdigit() else -1
        if meaning := meaning_of(file, has_segment=base in known):
            at.findings.note(file, meaning)
    for info in at.disk.list(at.name):
        if info.is_directory:
            at.findings.note(info.name, "a directory, which no broker makes here; it is left alone")


def check_checkpoints(beside: Beside, bases: list[int], end_offset: int, findings: Findings) -> None:
    """What the checkpoints say of a log that ends at `end_offset`, and perhaps later where it is written to."""
    for what, offset in (
        ("recovery point", beside.recovery_point),
        ("high watermark", beside.high_watermark),
        ("start of the log", beside.log_start_offset),
        ("end of the last cleaning", beside.clean_offset),
    ):
        if offset is not None and offset < 0:
            findings.problem("", f"the {what} by the checkpoint is {offset}")
        elif offset is not None and offset > end_offset and not beside.is_written:
            why = f"offsets {end_offset} to {offset - 1} were in it once" if bases else "it has no files"
            findings.problem("", f"the {what} by the checkpoint is {offset}; the log ends at {end_offset}: {why}")
    if beside.was_stopped_cleanly and bases and (beside.recovery_point or 0) < end_offset:
        message = f"the log directory was stopped cleanly, with {beside.recovery_point or 0} as the end of this log"
        findings.problem("", f"{message}; now it ends at {end_offset}")


def say_gaps(walk: LogWalk, beside: Beside, at: Inspection) -> None:
    """Offsets that no batch has. No checksum covers a batch's offset: that of the last one has no witness."""
    if not walk.gap_count:
        return
    if walk.last_gap_end == walk.last_base_offset and not beside.was_stopped_cleanly:
        message = f"the last batch has offset {walk.last_base_offset} after a gap: no checksum covers its offset"
        at.findings.unjudged("", message)
    if walk.was_compacted or beside.clean_offset is not None:
        return
    if not any(file.endswith((SWAP, CLEANED)) for file in at.files):
        first, last = walk.gaps[0]
        more = f", and {walk.gap_count - 1} more such gaps" if walk.gap_count > 1 else ""
        why = "as compaction leaves it, though this log shows no other sign of that"
        at.findings.note("", f"no batch has the offsets {first} to {last}{more}: {why}")


def say_what_a_start_does(beside: Beside, findings: Findings) -> None:
    """Which problems go away by themselves."""
    if beside.recovery_point is not None and not beside.was_stopped_cleanly and not beside.is_written:
        message = f"the next start of a broker recovers it from offset {beside.recovery_point} on"
        findings.note("", f"it was not stopped cleanly: {message}, and cuts or rebuilds what is wrong there")


def check_snapshots_of_metadata(at: Inspection) -> None:
    """Snapshots of the metadata log: batches with offsets of their own."""
    for file in at.files:
        if not file.endswith(CHECKPOINT):
            continue
        for seen in seen_batches(at.disk, at.path(file), 0, at.size(file)):
            place = f"byte {seen.position}"
            if not isinstance(seen, SeenBatch):
                at.findings.problem(file, seen.message, place)
            elif seen.header.is_old:
                at.findings.problem(file, "a message of an old format", place)
            elif seen.data is None:
                at.findings.problem(file, "the batch is damaged: its checksum is wrong", place)
            elif problem := at.records.check(seen.data, seen.header).problem:
                at.findings.problem(file, problem, place)
        at.progress(at.size(file))
