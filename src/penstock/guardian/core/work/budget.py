"""How fast copies may be, where a plan leaves that to Guardian: by what they do to others.

Every five seconds the signals are looked at. One that is red halves the rate, down to a floor; after three looks in a
row without one, the rate grows by a twentieth of what is left to the ceiling. At the floor, three reds in a row pause
the copies (nothing begins), and thirty seconds of that end those under way. It is a function from a pace and a look to
the next pace: what it comes to can be computed again from the signals alone.

A signal that nobody measures is None, and says nothing; so far the executor measures `behind` alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.guardian.core.work.looks import Look, Partition

STEP_MS = 5_000
FLOOR_BYTES = 1_000_000
CEILING_BYTES = 200_000_000
BEGIN_BYTES = 20_000_000
"""Bytes a second of one broker's copies: at least, at most, and at first."""
GREENS = 3
REDS_AT_FLOOR = 3
GROWTH = 0.05
PAUSED_MAX_MS = 30_000
UTILISATION_MAX = 0.9
"""From here on a disk has no time to spare."""
P99_FACTOR, P99_MORE_MS = 2.0, 20.0
"""Requests may take twice as long as in a quiet hour, or this much longer, whichever is more."""
OPEN, HELD, GIVEN_UP = "open", "paused", "given up"


@dataclass(frozen=True, slots=True)
class Signals:
    """What is measured of others.

    Attributes: `disk_utilisation`, 0 to 1, of the busiest disk; `p99_ms` of requests, and `quiet_p99_ms`, the same in a
    quiet hour; `behind`, replicas that are not in sync although their broker is there and nobody moves them.
    """

    disk_utilisation: float | None = None
    p99_ms: float | None = None
    quiet_p99_ms: float | None = None
    behind: int | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast copies may be now. `reds` and `greens` are looks in a row, `reds` only those at the floor."""

    rate_bytes: int = BEGIN_BYTES
    state: str = OPEN
    reds: int = 0
    greens: int = 0
    held_ms: int = 0
    why: str = ""


def red(signals: Signals) -> str:
    """Which signal is red, in words; "" for none."""
    if signals.disk_utilisation is not None and signals.disk_utilisation > UTILISATION_MAX:
        return f"a disk is {signals.disk_utilisation:.0%} busy"
    if signals.p99_ms is not None and signals.quiet_p99_ms is not None:
        bound_ms = max(P99_FACTOR * signals.quiet_p99_ms, signals.quiet_p99_ms + P99_MORE_MS)
        if signals.p99_ms > bound_ms:
            return f"requests take {signals.p99_ms:.0f} ms (p99), and may take {bound_ms:.0f}"
    if signals.behind:
        return f"{signals.behind} replicas that nobody moves are not in sync"
    return ""


def next_pace(pace: Pace, signals: Signals, now_ms: int) -> Pace:
    """The pace after a look."""
    why = red(signals)
    if why:
        at_floor = pace.rate_bytes <= FLOOR_BYTES
        reds = pace.reds + 1 if at_floor else 0
        rate = max(FLOOR_BYTES, pace.rate_bytes // 2)
        if pace.state != OPEN:
            over = now_ms - pace.held_ms >= PAUSED_MAX_MS
            return Pace(rate, GIVEN_UP if over else pace.state, reds, 0, pace.held_ms, why)
        if reds >= REDS_AT_FLOOR:
            return Pace(rate, HELD, reds, 0, now_ms, why)
        return Pace(rate, OPEN, reds, 0, 0, why)
    greens = pace.greens + 1
    if greens < GREENS:
        return Pace(pace.rate_bytes, pace.state, 0, greens, pace.held_ms, pace.why)
    rate = min(CEILING_BYTES, pace.rate_bytes + int(GROWTH * (CEILING_BYTES - pace.rate_bytes)))
    return Pace(rate, OPEN, 0, greens)


def signals_of(look: Look, moving: Collection[Partition]) -> Signals:
    """What a look of the executor's says of others."""
    behind = 0
    for key, placed in look.partitions.items():
        if key not in moving and key not in look.reassigned:
            behind += sum(each in look.alive and each not in placed.in_sync for each in placed.replicas)
    return Signals(behind=behind)


class Budget:
    """The pace of one cluster, looked at every STEP_MS. Attributes: `pace`."""

    def __init__(self) -> None:
        self.pace = Pace()
        self._looked_ms: int | None = None

    @property
    def rate_bytes(self) -> int:
        return self.pace.rate_bytes

    def take(self, signals: Signals, now_ms: int) -> None:
        """Signals of now."""
        if self._looked_ms is None or now_ms - self._looked_ms >= STEP_MS:
            self._looked_ms = now_ms
            self.pace = next_pace(self.pace, signals, now_ms)
