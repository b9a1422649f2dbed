"""Virtual time: a number that only the simulation (or a test) moves."""

from __future__ import annotations

START_MS = 1_700_000_000_000
"""Where virtual time begins unless told otherwise: late 2023, so that timestamps look like timestamps."""


class VirtualClock:
    """Milliseconds that stand still until `advance` or `set`. Calling the clock reads it."""

    __slots__ = ("now_ms",)

    def __init__(self, now_ms: int = START_MS) -> None:
        self.now_ms = now_ms

    def __call__(self) -> int:
        return self.now_ms

    def advance(self, milliseconds: int) -> int:
        """Moves forward and returns the new time."""
        assert milliseconds >= 0, "time only moves forward; use set() for a clock step"
        self.now_ms += milliseconds
        return self.now_ms

    def set(self, now_ms: int) -> None:
        """A clock step in either direction, as an administrator or NTP does it."""
        self.now_ms = now_ms
