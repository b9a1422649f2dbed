"""A whole log directory: its own files, what its checkpoints say of each log, and what it holds beside logs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.errors import ConfigError
from penstock.log import clean_shutdown
from penstock.log.checkpoints import (
    CLEANER_OFFSET,
    HIGH_WATERMARK,
    LOG_START,
    RECOVERY_POINT,
    MalformedCheckpoint,
    TopicPartition,
    parse_checkpoint,
)
from penstock.log.directory import METADATA_LOG
from penstock.log.disk import FSYNC_FAILED, Disk
from penstock.log.meta_properties import FILE as META_PROPERTIES
from penstock.log.meta_properties import parse_meta_properties
from penstock.log.names import LOG, PARTITION_METADATA, offset_of, parse_future_name, parse_name
from penstock.log.verification.findings import Findings
from penstock.log.verification.inspection import unreadable
from penstock.log.verification.leftovers import LEFT_ALONE, meaning_of_directory
from penstock.log.verification.partition import Beside

CHECKPOINTS = (RECOVERY_POINT, LOG_START, HIGH_WATERMARK, CLEANER_OFFSET)
ITS_OWN = (META_PROPERTIES, *CHECKPOINTS, clean_shutdown.FILE, ".lock", "bootstrap.checkpoint")

MARKS = ".penstock-"
"""How the names of files begin that say who made a directory, or that one is being tried out."""


@dataclass(slots=True)
class DirectoryReport:
    """What is known of a log directory but for the logs. `logs`: the directories to check, and what is beside each."""

    findings: Findings
    logs: list[tuple[str, Beside]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """What a log directory's own files say of its logs."""

    checkpoints: Mapping[str, Mapping[TopicPartition, int]]
    was_stopped_cleanly: bool
    is_written: bool

    def beside(self, name: str) -> Beside:
        """What is known of the log in the directory `name`."""
        partition = parse_name(name)
        known = partition is not None and name != METADATA_LOG
        recovery_point, log_start, high_watermark, clean_offset = (
            self.checkpoints[file].get(partition) if known and partition is not None else None for file in CHECKPOINTS
        )
        return Beside(
            recovery_point,
            log_start,
            high_watermark,
            clean_offset,
            is_written=self.is_written,
            was_stopped_cleanly=known and self.was_stopped_cleanly and recovery_point is not None,
        )


def is_log_directory(disk: Disk) -> bool:
    """Whether a directory is one of `log.dirs`, and not one partition's."""
    entries = disk.list("")
    if any(each.name in (META_PROPERTIES, *CHECKPOINTS) for each in entries):
        return True
    return any(each.is_directory and parse_name(each.name) is not None for each in entries)


def is_partition(disk: Disk) -> bool:
    """Whether a directory has files of a log."""
    return any(offset_of(each.name, LOG) is not None or each.name == PARTITION_METADATA for each in disk.list(""))


def state_of(disk: Disk, findings: Findings, *, is_written: bool) -> DirectoryState:
    """Reads the checkpoints and the mark of a clean stop; what is wrong with them goes to `findings`."""
    checkpoints: dict[str, dict[TopicPartition, int]] = {file: {} for file in CHECKPOINTS}
    for file in CHECKPOINTS:
        if not disk.exists(file):
            continue
        try:
            content = disk.read(file, 0, disk.size(file))
            checkpoints[file] = parse_checkpoint(content)
        except OSError as error:
            findings.problem(file, unreadable(error))
        except MalformedCheckpoint as error:
            findings.problem(file, f"{error}; a broker takes it for empty")
        else:
            if len(content.splitlines()) < 2:
                findings.note(file, "it is empty: as a new one is, and nothing is known of the logs by it")
    return DirectoryState(checkpoints, disk.exists(clean_shutdown.FILE) and not is_written, is_written)


def check_directory(disk: Disk, *, is_written: bool) -> DirectoryReport:
    """Looks at a log directory's own files. Raises OSError if it cannot be listed."""
    report = DirectoryReport(Findings())
    findings = report.findings
    state = state_of(disk, findings, is_written=is_written)
    check_meta_properties(disk, findings)
    entries = disk.list("")
    names = {each.name for each in entries if each.is_directory}
    for each in entries:
        if not each.is_directory:
            name_file(each.name, findings)
        elif meaning := meaning_of_directory(each.name):
            findings.note(each.name, meaning)
            if parse_future_name(each.name) is not None or each.name.endswith("-stray"):
                report.logs.append((each.name, Beside(is_written=is_written)))
        elif parse_name(each.name) is None:
            findings.note(each.name, f"a directory that is no partition's; {LEFT_ALONE}")
        else:
            report.logs.append((each.name, state.beside(each.name)))
    for file, offsets in state.checkpoints.items():
        gone = [f"{topic}-{partition}" for topic, partition in offsets if f"{topic}-{partition}" not in names]
        if gone and not is_written:
            more = f" and {len(gone) - 1} more" if len(gone) > 1 else ""
            findings.note(file, f"it has an offset of {gone[0]}{more}, of which no directory is here")
    return report


def check_meta_properties(disk: Disk, findings: Findings) -> None:
    if not disk.exists(META_PROPERTIES):
        findings.note(META_PROPERTIES, "it is missing: no node takes this directory for its own")
        return
    try:
        parse_meta_properties(disk.read(META_PROPERTIES, 0, disk.size(META_PROPERTIES)), META_PROPERTIES)
    except OSError as error:
        findings.problem(META_PROPERTIES, unreadable(error))
    except ConfigError as error:
        findings.problem(META_PROPERTIES, str(error).removeprefix(META_PROPERTIES).lstrip(" :,"))


def name_file(file: str, findings: Findings) -> None:
    if file == FSYNC_FAILED:
        findings.note(file, "an fsync failed here: until it is written again, what is read may not be on the medium")
    elif file.endswith(".tmp"):
        findings.note(file, "a small file that was being replaced; it is not used")
    elif file not in ITS_OWN and not file.startswith(MARKS):
        findings.note(file, LEFT_ALONE)
