"""Durations in buckets that double: cheap to add to, good enough for the 99.9th percentile."""

from __future__ import annotations

BUCKETS = 24
"""Bucket n counts durations below 2**n microseconds; the last one counts the rest (8 s and more)."""


class Histogram:
    """Counts durations. `count`, `sum_s` and `largest_s` are exact, quantiles within a factor of two."""

    __slots__ = ("buckets", "count", "largest_s", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * BUCKETS
        self.count = 0
        self.sum_s = 0.0
        self.largest_s = 0.0

    def add(self, seconds: float) -> None:
        """Counts one duration."""
        bucket = int(seconds * 1e6).bit_length()
        self.buckets[bucket if bucket < BUCKETS else BUCKETS - 1] += 1
        self.count += 1
        self.sum_s += seconds
        if seconds > self.largest_s:  # noqa: PLR1730 - half the cost of max()
            self.largest_s = seconds

    def quantile_s(self, share: float) -> float:
        """A duration that `share` of all stayed below: the upper bound of a bucket. 0.0 if nothing was counted."""
        wanted, seen = share * self.count, 0
        for bucket, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return min(self.largest_s, (1 << bucket) / 1e6)
        return self.largest_s
