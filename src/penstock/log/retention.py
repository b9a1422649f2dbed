"""Retention by age and size, and of what DeleteRecords has passed, also for logs that nobody has open.

An open log retires its own segments (`Log.delete_old_segments`). For the others the names, sizes and times of files are
enough: a segment ends where the next begins, its largest timestamp is the last entry of its time index (or the time
the file was modified, if it has none, as Kafka does). `RetireSegments` does that in the lane for a few replicas at a
time. Only a log whose active segment itself is too old must be opened, since a new segment takes its place.

Rules, as Kafka's: only segments wholly below the high watermark go, from the oldest on; by age with `retention.ms`, by
size with `retention.bytes`, both only if `cleanup.policy` includes delete; what lies below the log start offset goes
always. An active segment older than `segment.ms` is closed by the next append, not by a clock: on an idle log it stays
active until all of it is too old to keep.

`Schedule` says which replicas to look at: those that changed since the last look, and those whose time has come.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import pairwise

from penstock.config.topic import TopicConfig
from penstock.log.disk import Disk, FileInfo, Operation, OperationOwner
from penstock.log.names import INDEX_SUFFIXES, LOG, SNAPSHOT, TIME_INDEX, file_name, offset_of
from penstock.log.operations import rename_deleted
from penstock.log.replica import Replica

TIME_ENTRY = struct.Struct(">qi")
RETENTION_ORDER = ".retention"
BATCH_REPLICAS_MAX = 32
"""Replicas that one operation looks at; while it runs they cannot be opened."""


@dataclass(slots=True)
class RetentionRequest:
    """A replica that is not open and the rules for it. Limits are -1 for none, as in Kafka."""

    name: str
    retention_ms: int
    retention_bytes: int
    log_start_offset: int
    high_watermark: int

    @classmethod
    def of(cls, name: str, config: TopicConfig, log_start_offset: int, high_watermark: int) -> RetentionRequest:
        deletes = "delete" in config.cleanup_policy
        return cls(
            name,
            config.retention_ms if deletes else -1,
            config.retention_bytes if deletes else -1,
            log_start_offset,
            high_watermark,
        )


@dataclass(slots=True)
class Retired:
    """What retention did to a replica.

    Attributes:
        paths: files that are renamed, to be removed later.
        size_bytes: of the records that are left.
        next_ms: when age may delete something next; None for never without appends.
        needs_log: the active segment is too old, so the log must be opened.
    """

    name: str
    paths: list[str] = field(default_factory=list)
    segments: int = 0
    bytes: int = 0
    reasons: list[str] = field(default_factory=list)
    log_start_offset: int = 0
    size_bytes: int = 0
    next_ms: int | None = None
    needs_log: bool = False


@dataclass(slots=True)
class SegmentFile:
    """A segment by its files."""

    base_offset: int
    log: FileInfo
    time_index_bytes: int


class RetireSegments(Operation):
    """Takes old segments of closed logs away. The result is a `Retired` for each request.

    `replicas` are those of the requests, for the manager; `run` does not look at them.
    """

    __slots__ = ("now_ms", "replicas", "requests")

    def __init__(
        self,
        directory: int,
        owner: OperationOwner,
        replicas: Sequence[Replica],
        requests: Sequence[RetentionRequest],
        now_ms: int,
    ) -> None:
        assert len(replicas) == len(requests) <= BATCH_REPLICAS_MAX
        super().__init__(directory, RETENTION_ORDER, owner)
        self.replicas = replicas
        self.requests = requests
        self.now_ms = now_ms

    def run(self, disk: Disk) -> list[Retired]:
        return [retire(disk, request, self.now_ms) for request in self.requests]


def list_segments(disk: Disk, name: str) -> list[SegmentFile]:
    """The segments of a replica, oldest first, by its directory's listing."""
    files = {entry.name: entry for entry in disk.list(name)}
    segments = []
    for entry in files.values():
        base_offset = offset_of(entry.name, LOG)
        if base_offset is not None:
            time_index = files.get(file_name(base_offset, TIME_INDEX))
            segments.append(SegmentFile(base_offset, entry, time_index.size_bytes if time_index else 0))
    segments.sort(key=lambda segment: segment.base_offset)
    return segments


def largest_timestamp_ms(disk: Disk, name: str, segment: SegmentFile) -> int:
    """Of a segment's records, by the last entry of its time index; when it was modified if there is none."""
    entries = segment.time_index_bytes // TIME_ENTRY.size
    if entries:
        path = f"{name}/{file_name(segment.base_offset, TIME_INDEX)}"
        timestamp_ms, _ = TIME_ENTRY.unpack(disk.read(path, (entries - 1) * TIME_ENTRY.size, TIME_ENTRY.size))
        if timestamp_ms >= 0:
            return int(timestamp_ms)
    return segment.log.modified_ms


def retire(disk: Disk, request: RetentionRequest, now_ms: int) -> Retired:
    """Applies the rules to one closed log; renames the files of what goes."""
    segments = list_segments(disk, request.name)
    retired = Retired(request.name, size_bytes=sum(segment.log.size_bytes for segment in segments))
    excess_bytes = retired.size_bytes - request.retention_bytes if request.retention_bytes >= 0 else -1
    first_kept = 0
    for segment, following in pairwise(segments):
        if following.base_offset > request.high_watermark:
            break
        reason = ""
        if following.base_offset <= request.log_start_offset:
            reason = "log start offset"
        elif excess_bytes >= segment.log.size_bytes:
            reason = "retention.bytes"
        elif 0 <= request.retention_ms < now_ms - largest_timestamp_ms(disk, request.name, segment):
            reason = "retention.ms"
        if not reason:
            break
        excess_bytes -= segment.log.size_bytes
        retired.bytes += segment.log.size_bytes
        if reason not in retired.reasons:
            retired.reasons.append(reason)
        first_kept += 1
    for segment in segments[:first_kept]:
        suffixes = (LOG, *INDEX_SUFFIXES, SNAPSHOT)
        names = [f"{request.name}/{file_name(segment.base_offset, suffix)}" for suffix in suffixes]
        retired.paths += rename_deleted(disk, names)
    retired.segments = first_kept
    retired.size_bytes -= retired.bytes
    kept = segments[first_kept:]
    retired.log_start_offset = max(request.log_start_offset, kept[0].base_offset if kept else 0)
    look_ahead(disk, request, kept, now_ms, retired)
    return retired


def look_ahead(
    disk: Disk, request: RetentionRequest, kept: Sequence[SegmentFile], now_ms: int, retired: Retired
) -> None:
    """Finds out when age may delete the oldest segment that is left."""
    if not kept or request.retention_ms < 0 or (len(kept) == 1 and not kept[0].log.size_bytes):
        return
    due_ms = largest_timestamp_ms(disk, request.name, kept[0]) + request.retention_ms + 1
    retired.next_ms = due_ms
    retired.needs_log = len(kept) == 1 and due_ms <= now_ms


class Schedule:
    """Which replicas retention looks at, and when."""

    def __init__(self) -> None:
        self._changed: dict[tuple[str, int], Replica] = {}
        self._heap: list[tuple[int, int, Replica]] = []
        self._sequence = 0

    def changed(self, replica: Replica) -> None:
        """Something was appended, or the rules are others: look at the next opportunity."""
        self._changed[replica.key] = replica

    def expect(self, replica: Replica, due_ms: int | None) -> None:
        """Look again then; None for not before a change. Replaces what was expected before."""
        replica.retention_ms = due_ms
        if due_ms is not None:
            self._sequence += 1
            heappush(self._heap, (due_ms, self._sequence, replica))

    def next_ms(self) -> int | None:
        """The earliest time at which there is something to look at; 0 for now."""
        if self._changed:
            return 0
        while self._heap and self._heap[0][2].retention_ms != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def take(self, now_ms: int) -> list[Replica]:
        """The replicas to look at now, each once."""
        taken, self._changed = self._changed, {}
        while self._heap and self._heap[0][0] <= now_ms:
            due_ms, _, replica = heappop(self._heap)
            if replica.retention_ms == due_ms:
                taken.setdefault(replica.key, replica)
        for replica in taken.values():
            replica.retention_ms = None
        return list(taken.values())
