"""How soon members of groups that change are told to come again, so that all groups of a broker do not come at once.

A group of ten that settles sends thirty heartbeats a second, and a thousand such groups, as after a failover, more than
a broker can answer; all that they ask meanwhile is whether the others have come. So heartbeats at short intervals draw
on one budget of the broker's: each that is asked for takes a turn, turns pass at a fixed rate, and who takes one comes
again when it has passed. While few ask, that is before the short interval is over, and nobody waits longer than it.

The principals that take turns have equal shares of the budget: one that takes them without end, by heartbeats that come
before they should or by groups that never settle, waits for itself.
"""

from __future__ import annotations

from penstock.coordinator.limits import (
    SETTLING_BACKLOG_MAX_MS,
    SETTLING_HEARTBEATS_PER_SECOND,
    SETTLING_PRINCIPALS_MAX,
)

OTHERS = ""
"""The principals that share one share, when there are too many."""
LOOK_US = 100_000
"""So long a principal has a share at least."""
TURN_US = 1_000_000 // SETTLING_HEARTBEATS_PER_SECOND


class SettlingPace:
    """See the module's head. One for all shards of a broker; soft state."""

    __slots__ = ("_looked_us", "_taken_until_us")

    def __init__(self) -> None:
        self._taken_until_us: dict[str, int] = {}
        self._looked_us = 0

    def interval_ms(self, shortest_ms: int, now_ms: int, principal: str = OTHERS) -> int:
        """Takes a turn. Returns when whoever takes it should come again, in no less than `shortest_ms`."""
        now_us, taken = now_ms * 1_000, self._taken_until_us
        if now_us - self._looked_us >= LOOK_US:
            self._looked_us = now_us
            for each in [each for each, until_us in taken.items() if until_us <= now_us]:
                del taken[each]
        if principal not in taken and len(taken) >= SETTLING_PRINCIPALS_MAX:
            principal = OTHERS
        until_us = max(taken.get(principal, 0), now_us)
        shares = len(taken) + (principal not in taken)
        taken[principal] = min(until_us + TURN_US * shares, now_us + SETTLING_BACKLOG_MAX_MS * 1_000)
        return max(shortest_ms, (taken[principal] - now_us) // 1_000)
