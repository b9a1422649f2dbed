"""The two times of a node: a monotonic one, and the wall clock's.

`now_ms` begins at the wall clock of the start and continues with the monotonic clock, so that setting the machine's
clock, by milliseconds or by days, moves no session, election or timeout. How far the wall clock is ahead of it is read
with every event and kept in `wall`, for timestamps (penstock.records.wall).

Time in which the process did not run does not count either: while the machine slept (the monotonic clock of Linux
stands still then) or the process was stopped or starved. The shell says when it must be called at the latest; if that
is long past, the other nodes could not be heard meanwhile, and must not be taken for silent.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from penstock.records.wall import WallTime
from penstock.server.limits import LATE_MAX_MS


class Clock:
    """Milliseconds. `wall` and `monotonic` return nanoseconds; tests supply their own.

    Attributes:
        wall: how far the wall clock was ahead at the last call, and how long the process did not run in total, as far
            as it was noticed.
        due_ms: when `now_ms` must be called at the latest, in its own time; None: nothing is due.
    """

    __slots__ = ("_base_ns", "_last_ms", "_monotonic", "_wall", "due_ms", "wall")

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._base_ns = wall() - monotonic()
        self._last_ms = 0
        self.wall = WallTime()
        self.due_ms: int | None = None

    def now_ms(self) -> int:
        """The time for timers: never less than at an earlier call, whatever happens to the wall clock."""
        now_ms = (self._base_ns + self._monotonic()) // 1_000_000
        if self.due_ms is not None and now_ms > self.due_ms + LATE_MAX_MS:
            now_ms = self._did_not_run(now_ms)
        if now_ms < self._last_ms:  # noqa: PLR1730 - half the cost of max()
            now_ms = self._last_ms
        self._last_ms = now_ms
        self.wall.ahead_ms = self._wall() // 1_000_000 - now_ms
        return now_ms

    def _did_not_run(self, now_ms: int) -> int:
        """Subtracts time in which the process did not run."""
        assert self.due_ms is not None
        stopped_ms = now_ms - max(self.due_ms + LATE_MAX_MS, self._last_ms)
        self._base_ns -= stopped_ms * 1_000_000
        self.wall.stopped_ms += stopped_ms
        return now_ms - stopped_ms
