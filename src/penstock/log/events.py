"""Events of the log directories for people: values that the shell logs, one event a line.

The room does not log. It passes each of these to the `report` function that it was given.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DirectoryFailed:
    """A log directory went offline. All its partitions answer KAFKA_STORAGE_ERROR until the node is restarted."""

    path: str
    error: OSError

    def __str__(self) -> str:
        return f"log directory {self.path} is offline: {self.error}"


@dataclass(frozen=True, slots=True)
class NotStoppedCleanly:
    """A log directory had no room for what a clean stop writes: its logs are recovered at the next start."""

    path: str
    error: OSError

    def __str__(self) -> str:
        return (
            f"log directory {self.path} has no room for a clean stop ({self.error}): its logs are checked at the next "
            "start"
        )


@dataclass(frozen=True, slots=True)
class DirectoryFull:
    """A log directory takes no more records of clients and leaders, until more of its file system is free.

    `reason` is the error of a write that found no room; "" if the reserve was reached before that.
    """

    path: str
    free_bytes: int
    reserve_bytes: int
    back_bytes: int
    reason: str

    def __str__(self) -> str:
        why = self.reason or f"{self.free_bytes} bytes are free, and {self.reserve_bytes} are kept in reserve"
        return (
            f"log directory {self.path} is full ({why}): no records are taken before {self.back_bytes} bytes are free"
        )


@dataclass(frozen=True, slots=True)
class DirectoryHasRoom:
    """A full log directory takes records again."""

    path: str
    free_bytes: int

    def __str__(self) -> str:
        return f"log directory {self.path} takes records again: {self.free_bytes} bytes are free"


@dataclass(frozen=True, slots=True)
class MetadataLogFull:
    """The metadata log waits for room. The node serves on with what it knows."""

    path: str
    reason: str

    def __str__(self) -> str:
        return (
            f"the metadata log in {self.path} has no room ({self.reason}): no change of metadata counts here before "
            "there is some"
        )


@dataclass(frozen=True, slots=True)
class MetadataLogHasRoom:
    """The metadata log goes on."""

    path: str

    def __str__(self) -> str:
        return f"the metadata log in {self.path} goes on: there is room again"


@dataclass(frozen=True, slots=True)
class LogBroken:
    """The files of one log are unusable: it answers KAFKA_STORAGE_ERROR, the others of its directory go on."""

    log: str
    reason: str

    def __str__(self) -> str:
        return f"{self.log} cannot be opened: {self.reason}"


@dataclass(frozen=True, slots=True)
class LogRecovered:
    """The files of a log contradict each other though its directory was stopped cleanly; it is recovered first."""

    log: str
    reason: str

    def __str__(self) -> str:
        return f"{self.log} is recovered before it is opened: {self.reason}"


@dataclass(frozen=True, slots=True)
class TimeIndexWrong:
    """The indexes of a segment say another largest timestamp than its batches. What depends on age goes by these."""

    log: str
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.log}: the latest time of a segment is taken from its batches, not from its indexes: {self.reason}"
        )


@dataclass(frozen=True, slots=True)
class RecordsLost:
    """Recovery after an unclean stop cut a log: offsets in [first, end) were written but cannot be trusted.

    `moved_to` names the files into which valid batches after a damaged one were moved, "" if there were none.
    """

    log: str
    first_offset: int
    end_offset: int
    cut_bytes: int
    moved_to: str

    def __str__(self) -> str:
        kept = f"; what was readable after the damage is kept in {self.moved_to}" if self.moved_to else ""
        return f"{self.log}: lost offsets {self.first_offset} to {self.end_offset - 1} in an unclean stop{kept}"


@dataclass(frozen=True, slots=True)
class TailCut:
    """Recovery cut an incomplete batch from the end of a log; how many records it held is unknown."""

    log: str
    end_offset: int
    cut_bytes: int

    def __str__(self) -> str:
        return f"{self.log}: cut {self.cut_bytes} bytes of an incomplete write at the end, offset {self.end_offset}"


@dataclass(frozen=True, slots=True)
class RecoveryStarted:
    """A log directory was not stopped cleanly; its logs are recovered before they are served."""

    path: str
    logs: int

    def __str__(self) -> str:
        return f"log directory {self.path} was not stopped cleanly: recovering {self.logs} logs"


@dataclass(frozen=True, slots=True)
class RecoveryGoesOn:
    """The recovery of a directory takes a while; this is how far it is."""

    path: str
    recovered: int
    logs: int
    read_bytes: int

    def __str__(self) -> str:
        done = f"{self.recovered} of {self.logs} logs are recovered, {self.read_bytes} bytes read"
        return f"log directory {self.path}: {done}"


@dataclass(frozen=True, slots=True)
class RecoveryFinished:
    """All logs of a directory are recovered."""

    path: str
    logs: int
    read_bytes: int

    def __str__(self) -> str:
        return f"log directory {self.path}: recovered {self.logs} logs, {self.read_bytes} bytes read"


@dataclass(frozen=True, slots=True)
class CheckpointUnreadable:
    """A checkpoint file is damaged; its offsets count as 0, so more is recovered than needed."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"cannot read checkpoint {self.path} ({self.reason}); going on without it"


@dataclass(frozen=True, slots=True)
class LogCleaned:
    """A pass of the cleaner has left the last record of each key between two offsets."""

    log: str
    first_dirty_offset: int
    end_offset: int
    before_bytes: int
    after_bytes: int
    removed_records: int

    def __str__(self) -> str:
        return (
            f"{self.log}: cleaned, keys of offsets {self.first_dirty_offset} to {self.end_offset - 1};"
            f" {self.removed_records} records removed, {self.before_bytes} bytes before, {self.after_bytes} now"
        )


@dataclass(frozen=True, slots=True)
class LogPartCleaned:
    """A part of a pass is in use: the segments from one base offset to before another. The next part follows."""

    log: str
    first_offset: int
    next_offset: int
    before_bytes: int
    after_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.log}: cleaned the segments from {self.first_offset} to before {self.next_offset};"
            f" {self.before_bytes} bytes before, {self.after_bytes} now; the rest follows"
        )


@dataclass(frozen=True, slots=True)
class LogNotCleaned:
    """The cleaner could not clean a log, or kept what is damaged in it. It tries again."""

    log: str
    reason: str

    def __str__(self) -> str:
        return f"{self.log} cannot be cleaned: {self.reason}"


@dataclass(frozen=True, slots=True)
class SegmentsRetired:
    """Retention removed segments from the start of a log."""

    log: str
    segments: int
    bytes: int
    log_start_offset: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.log}: removed {self.segments} segments, {self.bytes} bytes, by {self.reason};"
            f" the log now starts at {self.log_start_offset}"
        )


@dataclass(frozen=True, slots=True)
class StrayFound:
    """A partition directory that no longer belongs to this node was set aside as `renamed`."""

    log: str
    renamed: str

    def __str__(self) -> str:
        return f"{self.log} is not assigned to this node; it was moved aside as {self.renamed}"


@dataclass(frozen=True, slots=True)
class FoundTwice:
    """A partition is in two log directories; the metadata says which of them is right."""

    log: str
    path: str
    other_path: str

    def __str__(self) -> str:
        return f"{self.log} is in two log directories, {self.path} and {self.other_path}: the metadata decides"


LogEvent = (
    DirectoryFailed
    | DirectoryFull
    | DirectoryHasRoom
    | FoundTwice
    | LogBroken
    | RecordsLost
    | TailCut
    | RecoveryStarted
    | RecoveryGoesOn
    | RecoveryFinished
    | CheckpointUnreadable
    | LogCleaned
    | LogNotCleaned
    | LogPartCleaned
    | LogRecovered
    | MetadataLogFull
    | MetadataLogHasRoom
    | NotStoppedCleanly
    | SegmentsRetired
    | StrayFound
    | TimeIndexWrong
)
