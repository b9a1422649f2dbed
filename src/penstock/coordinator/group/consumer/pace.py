"""How soon members of groups that change are told to come again, so that all groups of a broker do not come at once.

A group of ten that settles sends thirty heartbeats a second, and a thousand such groups, as after a failover, more than
a broker can answer; all that they ask meanwhile is whether the others have come. So heartbeats at short intervals draw
on one budget of the broker's: each that is asked for takes a turn, turns pass at a fixed rate, and who takes one comes
again when it has passed. While few ask, that is before the short interval is over, and nobody waits longer than it.
"""

from __future__ import annotations

from penstock.coordinator.limits import SETTLING_BACKLOG_MAX_MS, SETTLING_HEARTBEATS_PER_SECOND

TURN_US = 1_000_000 // SETTLING_HEARTBEATS_PER_SECOND


class SettlingPace:
    """See the module's head. One for all shards of a broker; soft state."""

    __slots__ = ("_taken_until_us",)

    def __init__(self) -> None:
        self._taken_until_us = 0

    def interval_ms(self, shortest_ms: int, now_ms: int) -> int:
        """Takes a turn. Returns when whoever takes it should come again, in no less than `shortest_ms`."""
        now_us = now_ms * 1_000
        latest_us = now_us + SETTLING_BACKLOG_MAX_MS * 1_000
        self._taken_until_us = min(max(self._taken_until_us, now_us) + TURN_US, latest_us)
        return max(shortest_ms, (self._taken_until_us - now_us) // 1_000)
