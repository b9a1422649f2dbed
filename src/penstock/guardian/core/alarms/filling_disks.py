"""Disks that will be full: what is usable falls on a line that reaches nothing before long, or is nearly nothing now.

The line is the least-squares one through what was usable at the last looks. The points are as far apart as they must be
for the whole of them to span hours; a new leader has none, and tells of a trend only when it has seen some.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.dead_disks import disks_seen_ms
from penstock.guardian.core.alarms.finding import FILLING_DISK, Detector, Finding, Subject, Verdicts
from penstock.guardian.core.limits import GUARDIAN_TREND_POINTS_MAX
from penstock.guardian.core.sight import ClusterSight

Point = tuple[int, int]
"""Wall time in ms, usable bytes."""
POINTS_MIN = 5
SPAN_MIN_MS = 5 * 60_000
"""Fewer points, or over a shorter time, make no line."""
NEARLY_FULL = 0.05
"""Of the capacity: less than this is told of without a trend."""
WELL_AGAIN = 1.25
"""What was told of is well only when it is farther away than that by this factor, so that it does not come and go."""


class FillingDisks(Detector):
    """See the module's head. `horizon_ms`: how soon a disk must be full to be told of."""

    kind = FILLING_DISK

    def __init__(self, horizon_ms: int) -> None:
        self._horizon_ms = horizon_ms
        self._trends: dict[tuple[int, str], Trend] = {}
        self._told: dict[Subject, None] = {}

    def look(self, seen: ClusterSight, census: Census, wall_ms: int) -> Verdicts:
        for gone in [each for each in self._trends if each not in seen.disks]:
            del self._trends[gone]
        findings = {}
        for key, disk in sorted(seen.disks.items()):
            stamp_ms = disks_seen_ms(seen, disk.broker, wall_ms)
            if stamp_ms is None or disk.error or disk.usable_bytes < 0:
                continue
            trend = self._trends.setdefault(key, Trend())
            trend.add((stamp_ms, disk.usable_bytes))
            subject = Subject(*key)
            factor = WELL_AGAIN if subject in self._told else 1.0
            evidence = self._evidence(trend.points, disk.usable_bytes, disk.capacity_bytes, factor)
            if evidence:
                self._told[subject] = None
                findings[subject] = Finding(stamp_ms, evidence)
            else:
                self._told.pop(subject, None)
        return Verdicts(findings, lambda subject: disks_seen_ms(seen, subject.broker, wall_ms))

    def _evidence(
        self, points: Sequence[Point], usable_bytes: int, capacity_bytes: int, factor: float
    ) -> tuple[str, ...]:
        """Why a disk is to be told of; nothing if it is not."""
        if capacity_bytes > 0 and usable_bytes < capacity_bytes * NEARLY_FULL * factor:
            return (f"{usable_bytes:,} of {capacity_bytes:,} bytes are usable ({usable_bytes / capacity_bytes:.1%})",)
        per_ms = slope(points)
        if per_ms is None or per_ms >= 0:
            return ()
        left_ms = usable_bytes / -per_ms
        if left_ms >= self._horizon_ms * factor:
            return ()
        span_min = (points[-1][0] - points[0][0]) / 60_000
        return (
            f"{usable_bytes:,} bytes are usable",
            f"they have become fewer by {-per_ms * 1000:,.0f} bytes a second over {span_min:.0f} minutes",
            f"at that pace nothing is left in {left_ms / 3_600_000:.1f} hours",
        )


class Trend:
    """What was usable at some of the looks, `step_ms` apart at least. The last point is always the newest look."""

    def __init__(self) -> None:
        self.points: list[Point] = []
        self.step_ms = 0

    def add(self, point: Point) -> None:
        """Adds a look. Where there are too many points, every other one is dropped and they are twice as far apart."""
        points = self.points
        if points and point[0] <= points[-1][0]:
            if point[0] == points[-1][0]:
                return
            points.clear()  # the clock was set back: these are no line any more
        if len(points) > 1 and points[-1][0] - points[-2][0] < self.step_ms:
            points[-1] = point
            return
        points.append(point)
        if len(points) > GUARDIAN_TREND_POINTS_MAX:
            self.step_ms = 2 * (points[-1][0] - points[0][0]) // (len(points) - 1)
            del points[1:-1:2]


def slope(points: Sequence[Point]) -> float | None:
    """Bytes a millisecond by which usable bytes change; None: too little is known."""
    count = len(points)
    if count < POINTS_MIN or points[-1][0] - points[0][0] < SPAN_MIN_MS:
        return None
    mean_ms = sum(at_ms for at_ms, _ in points) / count
    mean_bytes = sum(usable for _, usable in points) / count
    spread = sum((at_ms - mean_ms) ** 2 for at_ms, _ in points)
    return sum((at_ms - mean_ms) * (usable - mean_bytes) for at_ms, usable in points) / spread
