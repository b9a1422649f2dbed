"""Retention: which segments of a log are removed; one rule for open logs and for those not opened since the start.

As in Kafka, segments are removed from the oldest on, and only those that end at or below `removable_end_offset`. A
segment wholly below `start_offset` is always removed, but never the active one. With `cleanup.policy=delete`, so is a
segment without which the log still has `retention.bytes`, or whose newest record is older than `retention.ms`.

An active segment older than `segment.ms` is closed by the next append, not by a clock: on an idle log it stays active
until all of it is too old to keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.config.topic import TopicConfig
from penstock.config.values import LONG_MAX

UNKNOWN_END_OFFSET = LONG_MAX
"""The end of an active segment that must stay: it is empty, or nobody has read where it ends."""

START_OFFSET, SIZE, AGE = "log start offset", "retention.bytes", "retention.ms"
"""Why a segment goes."""


class Extent(NamedTuple):
    """A segment as retention sees it: the offset after its last one, and the bytes of its records."""

    end_offset: int
    size_bytes: int


class Retention(NamedTuple):
    """The limits of what one log keeps.

    A log with remote storage has three offsets where others have one. It is to pass the *local start* as `start_offset`
    (the log start bounds what is removed from the remote tier), the *highest tiered* offset plus one as
    `removable_end_offset` if that is below the high watermark, and `local.retention.ms` and `local.retention.bytes`
    as limits; what is removed then moves the local start and leaves the log start.

    Attributes:
        retention_ms, retention_bytes: -1 for no limit.
        start_offset: nobody may read below it.
        removable_end_offset: nothing above it may go; the high watermark.
    """

    retention_ms: int
    retention_bytes: int
    start_offset: int
    removable_end_offset: int

    @classmethod
    def of(cls, config: TopicConfig, log_start_offset: int, high_watermark: int) -> Retention:
        """The retention of a log without remote storage."""
        if not config.delete:
            return cls(-1, -1, log_start_offset, high_watermark)
        return cls(config.retention_ms, config.retention_bytes, log_start_offset, high_watermark)

    def due(self, segments: Sequence[Extent], wall_ms: int, time_ms: Callable[[int], int]) -> list[str]:
        """The reason for removing each of the oldest segments; those beyond the result stay.

        Args:
            segments: all of the log, oldest first, the active one last.
            time_ms: returns the time that `retention.ms` counts from, by a segment's index; called only if needed.
        """
        reasons: list[str] = []
        excess_bytes = sum(segment.size_bytes for segment in segments) - self.retention_bytes
        for place, (end_offset, size_bytes) in enumerate(segments):
            if end_offset > self.removable_end_offset:
                break
            if end_offset <= self.start_offset and place < len(segments) - 1:
                reasons.append(START_OFFSET)
            elif self.retention_bytes >= 0 and excess_bytes >= size_bytes:
                reasons.append(SIZE)
            elif self.retention_ms >= 0 and self.is_over(time_ms(place), wall_ms):
                reasons.append(AGE)
            else:
                break
            excess_bytes -= size_bytes
        return reasons

    def is_over(self, time_ms: int, wall_ms: int) -> bool:
        """Whether age removes a segment of that time."""
        return 0 <= self.retention_ms < wall_ms - time_ms

    def next_ms(self, oldest_ms: int) -> int | None:
        """The wall time at which age removes a segment of that time; None for never."""
        return oldest_ms + self.retention_ms + 1 if self.retention_ms >= 0 else None


def extents(base_offsets: Sequence[int], sizes_bytes: Iterable[int], end_offset: int) -> list[Extent]:
    """The segments that begin at these offsets, each ending where the next begins."""
    return list(map(Extent, (*base_offsets[1:], end_offset), sizes_bytes))
