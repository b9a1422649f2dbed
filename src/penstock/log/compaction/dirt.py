"""How much of a log a pass could clean, by its files: what decides which log is cleaned next.

A log is due when the share of it that was not looked through exceeds `min.cleanable.dirty.ratio`, or when a record has
been in that part for `max.compaction.lag.ms`. The active segment, what lies beyond the last stable offset and what is
younger than `min.compaction.lag.ms` does not count. Source: `LogCleanerManager` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from penstock.config.topic import TopicConfig
from penstock.config.values import LONG_MAX
from penstock.errors import CorruptRecordError, InvalidRecordError, StorageError
from penstock.log.checked_times import checked_time
from penstock.log.disk import Disk, Operation, OperationOwner
from penstock.log.loading import listing, load_active, load_segments
from penstock.log.names import LOG, file_name
from penstock.log.replica import Replica
from penstock.log.retiring import SegmentFile, list_segments
from penstock.log.segment import Segment
from penstock.records.batch import HEADER_BYTES, NO_TIMESTAMP, read_entry

MEASURE_ORDER = ".cleaner"


class Bounds(NamedTuple):
    """Where the last pass over a log ended, None if there was none; where the log starts; and its last stable offset,
    or the high watermark where that is all that is known."""

    clean_offset: int | None
    log_start_offset: int
    stable_offset: int


class Dirt(NamedTuple):
    """What a pass could clean.

    Attributes:
        clean_bytes, cleanable_bytes: of the segments below and above the offset at which the last pass ended.
        delay_ms: by how much a record there is older than `max.compaction.lag.ms`; 0 if none is.
        next_ms: the wall time at which more is due without another append; None for never.
    """

    clean_bytes: int
    cleanable_bytes: int
    delay_ms: int = 0
    next_ms: int | None = None

    @property
    def overdue(self) -> bool:
        return self.delay_ms > 0

    @property
    def ratio(self) -> float:
        return self.cleanable_bytes / max(self.clean_bytes + self.cleanable_bytes, 1)

    def is_due(self, config: TopicConfig) -> bool:
        """Whether the log is to be cleaned now."""
        return self.cleanable_bytes > 0 and (self.overdue or self.ratio > config.min_cleanable_dirty_ratio)


class MeasureDirt(Operation):
    """Looks at the files of several logs of a directory, open or not. The result is a `Dirt` for each.

    None stands for a log whose files are gone. `replicas` are for the caller; `run` does not look at them.
    """

    __slots__ = ("replicas", "requests", "wall_ms")

    def __init__(
        self,
        directory: int,
        owner: OperationOwner,
        requests: Sequence[tuple[Replica, Bounds, TopicConfig]],
        wall_ms: int,
    ) -> None:
        super().__init__(directory, MEASURE_ORDER, owner)
        self.replicas = [replica for replica, _, _ in requests]
        self.requests = [(replica.name, bounds, config) for replica, bounds, config in requests]
        self.wall_ms = wall_ms

    def run(self, disk: Disk) -> list[Dirt | None]:
        return [measured(disk, *request, self.wall_ms) for request in self.requests]


def measured(disk: Disk, name: str, bounds: Bounds, config: TopicConfig, wall_ms: int) -> Dirt | None:
    """The dirt of one log; None if it was deleted."""
    try:
        return dirt_of(disk, name, bounds, config, wall_ms)
    except FileNotFoundError:
        return None


def dirt_of(disk: Disk, name: str, bounds: Bounds, config: TopicConfig, wall_ms: int) -> Dirt:
    """What can be cleaned of a log. Raises FileNotFoundError if it is gone."""
    segments = list_segments(disk, name)
    closed = list(pairwise(segments))
    first_dirty = first_dirty_offset(disk, name, bounds, segments)
    dirty = [(each, following) for each, following in closed if following.base_offset > first_dirty]
    clean_bytes = sum(each.log.size_bytes for each, _ in closed[: len(closed) - len(dirty)])
    cleanable_bytes = 0
    again_ms: list[int] = []
    for each, following in dirty:
        young_until_ms = 0
        if config.min_compaction_lag_ms > 0:
            young_until_ms = time_ms(disk, each.of_log(name)) + config.min_compaction_lag_ms
        if young_until_ms >= wall_ms or following.base_offset > bounds.stable_offset:
            again_ms.append(max(young_until_ms + 1, wall_ms))
            break
        cleanable_bytes += each.log.size_bytes
    delay_ms = 0
    if config.max_compaction_lag_ms < LONG_MAX:
        times_ms = [first_ms for each, _ in dirty if (first_ms := first_batch_ms(disk, name, each)) > 0]
        if times_ms:
            overdue_ms = min(times_ms) + config.max_compaction_lag_ms
            delay_ms = max(wall_ms - overdue_ms, 0)
            again_ms.append(max(overdue_ms + 1, wall_ms))
    return Dirt(clean_bytes, cleanable_bytes, delay_ms, min(again_ms, default=None))


def time_ms(disk: Disk, segment: Segment) -> int:
    """The largest timestamp of a segment. One beyond the last change of its file is checked: by it, the log would stay
    as it is for long. An earlier one is checked before a pass goes by it.
    """
    if segment.retention_time_ms(disk) > segment.modified_ms:
        segment.largest_timestamp_ms, *_ = checked_time(disk, segment)
    return segment.retention_time_ms(disk)


def first_dirty_offset(disk: Disk, name: str, bounds: Bounds, segments: Sequence[SegmentFile]) -> int:
    """Where the next pass begins to look for keys.

    A clean offset beyond the log's end, as Apache Kafka may have left it, says nothing, and all counts as dirty. It is
    looked for only if the active segment begins below, which it seldom does.
    """
    clean_offset = bounds.clean_offset or 0
    if segments and clean_offset > segments[-1].base_offset and clean_offset > end_offset(disk, name):
        clean_offset = 0
    return max(clean_offset, bounds.log_start_offset)


def end_offset(disk: Disk, name: str) -> int:
    """Where a log ends, by its active segment; if that cannot be read, where that begins."""
    active = None
    try:
        active = load_segments(name, listing(disk, name), 0)[-1]
        return load_active(disk, active)
    except StorageError:
        return active.base_offset if active is not None else 0


def first_batch_ms(disk: Disk, name: str, segment: SegmentFile) -> int:
    """The time of a segment's first batch; -1 if it has none."""
    path = f"{name}/{file_name(segment.base_offset, LOG)}"
    try:
        return read_entry(disk.read(path, 0, HEADER_BYTES)).max_timestamp_ms
    except (CorruptRecordError, InvalidRecordError):
        return NO_TIMESTAMP
