"""A bound on a rate that is looked at before something begins, as Kafka's replication quotas are.

Nothing is refused in the middle: what has begun passes and is recorded, and the next waits until the rate has come down
to the bound. So the rate is kept on average, not at every moment.
"""

from __future__ import annotations

from penstock.config.values import LONG_MAX
from penstock.quota.rate import SimpleRate


class Throttle:
    """Bytes a second.

    Attributes:
        bound: the most that may pass; LONG_MAX for no bound. May be set at any time.
        bytes: all that was recorded.
    """

    __slots__ = ("_rate", "bound", "bytes")

    def __init__(self, *, windows: int = 11, window_ms: int = 1_000) -> None:
        self.bound = LONG_MAX
        self.bytes = 0
        self._rate = SimpleRate(windows=windows, window_ms=window_ms)

    def record(self, size_bytes: int, now_ms: int) -> None:
        """Records that this many bytes have passed."""
        self.bytes += size_bytes
        self._rate.record(size_bytes, now_ms)

    def exceeded(self, now_ms: int) -> bool:
        """Whether nothing more may begin now."""
        return self.bound != LONG_MAX and self._rate.per_second(now_ms) > self.bound

    def free_at_ms(self, now_ms: int) -> int:
        """When something may begin again; `now_ms` if it may."""
        return now_ms if self.bound == LONG_MAX else self._rate.below_at_ms(self.bound, now_ms)

    def per_second(self, now_ms: int) -> float:
        """The rate now."""
        return self._rate.per_second(now_ms)


def names_replica(throttled: tuple[str, ...], partition: int, broker_id: int) -> bool:
    """Whether a list of throttled replicas (`partition:broker`, or `*`) has this one."""
    return bool(throttled) and (throttled == ("*",) or f"{partition}:{broker_id}" in throttled)
