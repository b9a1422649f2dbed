"""One heap of deadlines: functions to call at a time, in the order of (time, when they were added).

Nearly all of them are called, to the millisecond, so this is no timer wheel; `node.timers` compares the two.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush


class Deadlines:
    """Nothing is cancelled: a function that is called although it is not needed any more must find that out itself.

    Args: `wake_by`, told of each deadline.
    Attributes: `now_ms`, the time of the latest event; it stands still while nothing happens.
    """

    __slots__ = ("_due", "_heap", "_sequence", "_wake_by", "now_ms")

    def __init__(self, wake_by: Callable[[int], None] = lambda deadline_ms: None) -> None:
        self.now_ms = 0
        self._wake_by = wake_by
        self._due: deque[tuple[int, int, Callable[[int], None]]] = deque()
        self._heap: list[tuple[int, int, Callable[[int], None]]] = []
        self._sequence = 0

    def seen(self, now_ms: int) -> None:
        """An event brought this time."""
        self.now_ms = max(self.now_ms, now_ms)

    def at(self, deadline_ms: int, function: Callable[[int], None]) -> None:
        """Schedules `function(now_ms)` for the deadline."""
        self._sequence += 1
        heappush(self._heap, (deadline_ms, self._sequence, function))
        self._wake_by(deadline_ms)

    def after(self, delay_ms: int, function: Callable[[int], None]) -> None:
        """Like `at`, with the time counted from the latest event."""
        self.at(self.now_ms + delay_ms, function)

    def due(self, now_ms: int) -> Iterator[Callable[[int], None]]:
        """Takes the functions that are due, one by one: if a call of one raises, the later ones stay.

        Those added meanwhile for now or earlier wait for the next call.
        """
        self.seen(now_ms)
        while self._heap and self._heap[0][0] <= now_ms:
            self._due.append(heappop(self._heap))
        while self._due:
            yield self._due.popleft()[2]

    def next_ms(self) -> int | None:
        """The earliest deadline, perhaps in the past; None if there is none."""
        first = self._due or self._heap
        return first[0][0] if first else None
