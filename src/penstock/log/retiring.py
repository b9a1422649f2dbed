"""Carries out retention: open logs remove their own segments, those of closed logs are removed by their files.

The names, sizes and times of a closed log's files are enough. A segment ends where the next begins; its largest
timestamp is the last entry of its time index (or, if it has none, the file's modification time, as in Kafka), which is
checked before anything goes by it (`penstock.log.checked_times`). `RetireSegments` applies the rule
(`penstock.log.retention`) in the lane, to a few replicas at a time. Only a log whose active segment itself is too old
must be opened, since a new segment takes its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from penstock.errors import NotResident
from penstock.log.checked_times import TimesNotChecked, checked_time, must_be_checked
from penstock.log.compaction.swap import RemoveCleaned
from penstock.log.compaction.task import cleaning_order
from penstock.log.deadlines import Deadlines
from penstock.log.directory_operations import ReadMissing
from penstock.log.disk import Disk, FileInfo, Operation, OperationOwner
from penstock.log.events import LogEvent, SegmentsRetired, TimeIndexWrong
from penstock.log.index import OffsetIndex, TimeIndex
from penstock.log.names import CLEANED, INDEX_SUFFIXES, LOG, OFFSET_INDEX, SNAPSHOT, TIME_INDEX, file_name, offset_of
from penstock.log.open_logs import OpenLogs
from penstock.log.operations import rename_deleted
from penstock.log.outbox import Outbox
from penstock.log.removals import Removals
from penstock.log.replica import Replica, State
from penstock.log.replica_directories import ReplicaDirectories
from penstock.log.retention import UNKNOWN_END_OFFSET, Retention, extents
from penstock.log.retention_schedule import RetentionSchedule
from penstock.log.segment import Segment
from penstock.log.table import ReplicaTable
from penstock.records.wall import WallTime

RETENTION_ORDER = ".retention"
BATCH_REPLICAS_MAX = 32
"""Replicas that one operation looks at; while it runs they cannot be opened."""


@dataclass(slots=True)
class Retired:
    """The result of retention for one replica.

    Attributes:
        paths: files that were renamed, to be removed later.
        size_bytes: of the remaining records.
        next_ms: when age may remove something next; None for never without appends.
        needs_log: the active segment is too old, so the log must be opened.
        wrong: what is wrong with time indexes.
        cleaned: files of a pass of the cleaner are there.
    """

    paths: list[str] = field(default_factory=list)
    segments: int = 0
    bytes: int = 0
    reasons: list[str] = field(default_factory=list)
    log_start_offset: int = 0
    size_bytes: int = 0
    next_ms: int | None = None
    needs_log: bool = False
    wrong: list[str] = field(default_factory=list)
    cleaned: bool = False


@dataclass(slots=True)
class SegmentFile:
    """A segment by its files."""

    base_offset: int
    log: FileInfo
    offset_index_bytes: int
    time_index_bytes: int

    def of_log(self, name: str) -> Segment:
        """The segment of this log, to be looked into."""
        segment = Segment(name, self.base_offset, 0, size_bytes=self.log.size_bytes)
        segment.modified_ms = self.log.modified_ms
        segment.largest_timestamp_ms = None
        segment.largest_is_right = False
        segment.offset_index.written = self.offset_index_bytes // OffsetIndex.ENTRY.size
        segment.time_index.written = self.time_index_bytes // TimeIndex.ENTRY.size
        return segment


class RetireSegments(Operation):
    """Removes old segments of closed logs, by the rule for each. The result is a `Retired` for each.

    `replicas` are for the caller, which handles the result; `run` does not look at them.
    """

    __slots__ = ("replicas", "requests", "wall_ms")

    def __init__(
        self, directory: int, owner: OperationOwner, rules: Sequence[tuple[Replica, Retention]], wall_ms: int
    ) -> None:
        assert len(rules) <= BATCH_REPLICAS_MAX
        super().__init__(directory, RETENTION_ORDER, owner)
        self.replicas = [replica for replica, _ in rules]
        self.requests = [(replica.name, rule) for replica, rule in rules]
        self.wall_ms = wall_ms

    def run(self, disk: Disk) -> list[Retired]:
        return [retire(disk, *request, self.wall_ms) for request in self.requests]


def list_segments(disk: Disk, name: str) -> list[SegmentFile]:
    """The segments of a replica, oldest first, by its directory's listing."""
    return segments_in(disk.list(name))


def segments_in(entries: Iterable[FileInfo]) -> list[SegmentFile]:
    """The segments whose files are in a listing, oldest first."""
    files = {entry.name: entry for entry in entries}
    segments = []
    for entry in files.values():
        base_offset = offset_of(entry.name, LOG)
        if base_offset is not None:
            indexes = [files.get(file_name(base_offset, suffix)) for suffix in (OFFSET_INDEX, TIME_INDEX)]
            sizes_bytes = [index.size_bytes if index is not None else 0 for index in indexes]
            segments.append(SegmentFile(base_offset, entry, *sizes_bytes))
    segments.sort(key=lambda segment: segment.base_offset)
    return segments


def retire(disk: Disk, name: str, rule: Retention, wall_ms: int) -> Retired:
    """Applies the rule to one closed log; renames the files of what goes."""
    entries, retired = disk.list(name), Retired()
    segments = [each.of_log(name) for each in segments_in(entries)]

    def time_ms(place: int) -> int:
        segment = segments[place]
        if must_be_checked(segment, segment.retention_time_ms(disk), rule, wall_ms):
            found = checked_time(disk, segment)
            segment.largest_timestamp_ms, segment.largest_is_right = found.timestamp_ms, True
            if found.wrong:
                retired.wrong.append(found.wrong)
        return segment.retention_time_ms(disk)

    sizes_bytes = [segment.size_bytes for segment in segments]
    bases = [segment.base_offset for segment in segments]
    reasons = rule.due(extents(bases, sizes_bytes, UNKNOWN_END_OFFSET), wall_ms, time_ms)
    count = len(reasons)
    retired.segments, retired.bytes = count, sum(sizes_bytes[:count])
    retired.reasons = list(dict.fromkeys(reasons))
    for base_offset in bases[:count]:
        names = [f"{name}/{file_name(base_offset, suffix)}" for suffix in (LOG, *INDEX_SUFFIXES, SNAPSHOT)]
        retired.paths += rename_deleted(disk, names)
    retired.size_bytes = sum(sizes_bytes) - retired.bytes
    retired.log_start_offset = max(rule.start_offset, bases[count] if segments else 0)
    retired.cleaned = any(entry.name.endswith(CLEANED) for entry in entries)
    one_is_left = count == len(segments) - 1
    if segments and rule.retention_ms >= 0 and not (one_is_left and not sizes_bytes[count]):
        retired.next_ms = rule.next_ms(time_ms(count))
        retired.needs_log = one_is_left and retired.next_ms is not None and retired.next_ms <= wall_ms
    return retired


@dataclass(eq=False)
class Retiring:
    """Looks at replicas that are due: open logs remove segments themselves, the lane does it for closed ones."""

    _table: ReplicaTable
    _deadlines: Deadlines
    _outbox: Outbox
    _schedule: RetentionSchedule
    _logs: OpenLogs
    _directories: ReplicaDirectories
    _removals: Removals
    _wall: WallTime
    _report: Callable[[LogEvent], None]
    _to_look_at: dict[int, list[Replica]] = field(default_factory=dict, init=False)
    _under_way: set[int] = field(default_factory=set, init=False)

    def look(self, now_ms: int) -> None:
        """Looks at the next few replicas that are due."""
        for replica in self._schedule.take(now_ms):
            if replica.state in (State.GONE, State.BROKEN) or replica.directory.error is not None:
                continue
            if replica.state is State.OPEN:
                self._look_at_open(replica, now_ms)
            elif replica.state is State.CLOSED:
                self._to_look_at.setdefault(replica.directory.index, []).append(replica)
            else:
                self._schedule.changed(replica)
        for index in list(self._to_look_at):
            self._look_at_closed(index, now_ms)
        self._schedule.arm()

    def stop(self) -> None:
        """Looks at nothing more."""
        self._to_look_at.clear()

    def _look_at_open(self, replica: Replica, now_ms: int) -> None:
        log = replica.log
        if replica.state is not State.OPEN or log is None:
            self._schedule.changed(replica)
            return
        before_bytes = log.size_bytes
        try:
            segments = log.delete_old_segments(now_ms, replica.high_watermark)
            rule = Retention.of(log.config, log.log_start_offset, replica.high_watermark)
            next_ms = log.segments.next_retention_ms(rule)
        except NotResident as missing:
            self._outbox.emit(ReadMissing(missing, self._outbox), self._look_again)
            return
        if segments:
            removed_bytes = before_bytes - log.size_bytes
            self._report(SegmentsRetired(log.name, segments, removed_bytes, log.log_start_offset, "retention"))
        self._schedule.expect(replica, next_ms)
        self._schedule.arm()

    def _look_again(self, operation: ReadMissing, result: Any, now_ms: int) -> None:
        self._deadlines.seen(now_ms)
        missing = operation.missing
        replica = self._table.find_name(missing.path.partition("/")[0])
        if replica is None:
            return
        if result is None:  # the file is gone
            self._schedule.changed(replica)
            self._schedule.arm()
            return
        missing.was_read(result)
        if isinstance(missing, TimesNotChecked):
            still = replica.log.segments.sound if replica.log is not None else ()
            for wrong in missing.wrong(result, still):
                self._report(TimeIndexWrong(replica.name, wrong))
        self._look_at_open(replica, now_ms)

    def _look_at_closed(self, index: int, now_ms: int) -> None:
        """The next few closed logs of a directory; those after them when these are done."""
        if index in self._under_way:
            return
        waiting = self._to_look_at.pop(index, [])
        batch, rest = waiting[:BATCH_REPLICAS_MAX], waiting[BATCH_REPLICAS_MAX:]
        if rest:
            self._to_look_at[index] = rest
        rules = []
        for replica in batch:
            if replica.state is State.CLOSED:
                replica.state = State.RETIRING
                config = self._table.topic_config(replica.topic)
                log_start_offset = replica.directory.log_starts.get(replica.key) or 0
                rule = Retention.of(config, log_start_offset, replica.high_watermark)
                rules.append((replica, rule))
            elif replica.state is not State.GONE:
                self._schedule.changed(replica)
        if rules:
            retire = RetireSegments(index, self._outbox, rules, self._wall.at(now_ms))
            self._under_way.add(index)
            self._outbox.emit(
                retire, self._retired, ended=partial(self._under_way.discard, index), no_room=self._retire_later
            )
        elif rest:
            self._look_at_closed(index, now_ms)

    def _retired(self, operation: RetireSegments, results: Sequence[Retired], now_ms: int) -> None:
        self._deadlines.seen(now_ms)
        stopping = self._table.stopping
        for replica, result in zip(operation.replicas, results, strict=True):
            if replica.state is not State.RETIRING:
                self._directories.leave_if_held(replica)
                continue
            self._note_retired(replica, result, now_ms)
            self._logs.now_closed(replica, now_ms)
            if result.needs_log and not stopping:
                replica.when_open().append(partial(self._look_at_open, replica))
                self._logs.proceed(replica, now_ms)
        if not stopping and operation.directory in self._to_look_at:
            self._look_at_closed(operation.directory, now_ms)
        self._schedule.arm()

    def _retire_later(self, operation: RetireSegments, now_ms: int) -> None:
        """Nothing could be removed for lack of room: tries again with the next look."""
        self._deadlines.seen(now_ms)
        for replica in operation.replicas:
            if replica.state is State.RETIRING:
                self._schedule.changed(replica)
                self._logs.now_closed(replica, now_ms)
            else:
                self._directories.leave_if_held(replica)
        self._schedule.arm()

    def _note_retired(self, replica: Replica, result: Retired, now_ms: int) -> None:
        replica.size_bytes = result.size_bytes
        for wrong in result.wrong:
            self._report(TimeIndexWrong(replica.name, wrong))
        if result.cleaned and not replica.opened:  # of a pass that the last stop has ended
            self._outbox.emit(RemoveCleaned(replica, self._outbox, cleaning_order(replica)))
        if not result.needs_log:
            self._schedule.expect(replica, result.next_ms)
        if result.paths:
            self._removals.unlink_later(replica, result.paths, now_ms)
        if result.segments:
            reason = " and ".join(result.reasons)
            self._report(SegmentsRetired(replica.name, result.segments, result.bytes, result.log_start_offset, reason))
