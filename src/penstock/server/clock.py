"""The one clock of a node: wall-clock milliseconds that never go backwards.

The time is the wall clock at start plus what the monotonic clock has counted since, so a step of the wall clock neither
expires sessions nor stalls timers. `resynchronise`, called now and then, follows the wall clock: forward at once when
it is far ahead (a machine that slept), else by at most `SLEW_MS` a call.
"""

from __future__ import annotations

import time
from collections.abc import Callable

SLEW_MS = 50
STEP_AFTER_MS = 10_000


class Clock:
    """Milliseconds since the epoch. `wall` and `monotonic` return nanoseconds; tests give their own.

    Attributes: `drift_ms`, how far the wall clock was ahead at the last resynchronisation (negative: behind).
    """

    __slots__ = ("_base_ns", "_last_ms", "_monotonic", "_wall", "drift_ms")

    def __init__(
        self, wall: Callable[[], int] = time.time_ns, monotonic: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._wall = wall
        self._monotonic = monotonic
        self._base_ns = wall() - monotonic()
        self._last_ms = 0
        self.drift_ms = 0

    def now_ms(self) -> int:
        """The time. Never less than it was at an earlier call."""
        now_ms = (self._base_ns + self._monotonic()) // 1_000_000
        if now_ms < self._last_ms:
            return self._last_ms
        self._last_ms = now_ms
        return now_ms

    def resynchronise(self) -> None:
        """Goes towards the wall clock, slowly unless it is far ahead."""
        drift_ns = self._wall() - (self._base_ns + self._monotonic())
        self.drift_ms = drift_ns // 1_000_000
        if drift_ns > STEP_AFTER_MS * 1_000_000:
            self._base_ns += drift_ns
        else:
            slew_ns = SLEW_MS * 1_000_000
            self._base_ns += max(-slew_ns, min(slew_ns, drift_ns))
