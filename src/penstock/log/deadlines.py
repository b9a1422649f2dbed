"""One heap of deadlines: functions to call at a time, in the order of (time, when they were set)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush


class Deadlines:
    """Nothing is cancelled: a function that is called too late for its purpose sees that by itself.

    Attributes: `now_ms`, the latest time that an event brought; it stands still while nothing happens.
    """

    __slots__ = ("_heap", "_sequence", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._sequence = 0

    def seen(self, now_ms: int) -> None:
        """An event brought this time."""
        self.now_ms = max(self.now_ms, now_ms)

    def at(self, deadline_ms: int, function: Callable[[int], None]) -> None:
        """`function(now_ms)` is to be called from the deadline on."""
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, function))

    def after(self, delay_ms: int, function: Callable[[int], None]) -> None:
        """As `at`, counted from the latest event."""
        self.at(self.now_ms + delay_ms, function)

    def due(self, now_ms: int) -> Iterator[Callable[[int], None]]:
        """Takes what is due, one after the other: when one is called and raises, those after it stay.

        What is set meanwhile for now or earlier waits for the next time.
        """
        self.seen(now_ms)
        last = self._sequence
        while self._heap and self._heap[0][0] <= now_ms and self._heap[0][1] <= last:
            yield heappop(self._heap)[2]

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        return self._heap[0][0] if self._heap else None
