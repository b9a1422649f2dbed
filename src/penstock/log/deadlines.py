"""One heap of deadlines: functions to call at a time, in the order of (time, when they were set)."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush


class Deadlines:
    """Nothing is cancelled: a function that is called too late for its purpose sees that by itself."""

    __slots__ = ("_heap", "_sequence")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._heap)

    def at(self, deadline_ms: int, function: Callable[[int], None]) -> None:
        """Calls `function(now_ms)` from the first `advance` at or after the deadline."""
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, function))

    def advance(self, now_ms: int) -> None:
        """Calls what is due. What a called function sets for now or earlier waits for the next call."""
        due = []
        while self._heap and self._heap[0][0] <= now_ms:
            due.append(heappop(self._heap)[2])
        for function in due:
            function(now_ms)

    def next_ms(self) -> int | None:
        """The earliest deadline."""
        return self._heap[0][0] if self._heap else None
