"""Requests that wait for something: for keys that events fire, or for their deadline.

A key is any hashable: `("image", topic)`, a partition object's key, a controller offset. `fire(key)` asks each
request parked on it whether it can be completed now, in the order in which they were parked. Requests that wait on
data of partitions (fetch) and on the high watermark (produce) do not go through keys: their waiters hang on the
partition itself. Both share the timers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

from penstock.node.request import Message, Parked
from penstock.node.timers import Timer, TimerWheel


class Waiting:
    """A parked request and how to answer it."""

    __slots__ = ("answer", "parked", "sequence", "timer")

    def __init__(self, sequence: int, parked: Parked, answer: Callable[[Message, int], None]) -> None:
        self.sequence = sequence
        self.parked = parked
        self.answer = answer
        self.timer: Timer | None = None


class Purgatory:
    """The parked requests of a node, by key."""

    def __init__(self, timers: TimerWheel) -> None:
        self._timers = timers
        self._by_key: dict[Hashable, dict[int, Waiting]] = {}
        self._sequence = 0
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def park(self, parked: Parked, answer: Callable[[Message, int], None]) -> Waiting:
        """Keeps a request until a key completes it or its deadline passes; then `answer(message, now_ms)` once."""
        self._sequence += 1
        waiting = Waiting(self._sequence, parked, answer)
        for key in parked.keys:
            self._by_key.setdefault(key, {})[waiting.sequence] = waiting
        if parked.deadline_ms is not None:
            waiting.timer = self._timers.at(parked.deadline_ms, lambda now_ms: self._expire(waiting, now_ms))
        self._size += 1
        return waiting

    def fire(self, key: Hashable, now_ms: int) -> None:
        """Something happened to `key`: completes the requests parked on it that can be completed."""
        waiting_here = self._by_key.get(key)
        if not waiting_here:
            return
        for waiting in list(waiting_here.values()):
            if waiting.sequence not in waiting_here:
                continue
            message = waiting.parked.complete(now_ms)
            if message is not None:
                self._forget(waiting)
                waiting.answer(message, now_ms)

    def cancel(self, waiting: Waiting) -> None:
        """Drops a parked request without an answer: its connection is gone."""
        self._forget(waiting)
        if waiting.parked.cancelled is not None:
            waiting.parked.cancelled()

    def _expire(self, waiting: Waiting, now_ms: int) -> None:
        self._forget(waiting)
        waiting.answer(waiting.parked.expire(now_ms), now_ms)

    def _forget(self, waiting: Waiting) -> None:
        for key in waiting.parked.keys:
            here = self._by_key.get(key)
            if here is not None:
                here.pop(waiting.sequence, None)
                if not here:
                    del self._by_key[key]
        if waiting.timer is not None:
            self._timers.cancel(waiting.timer)
        self._size -= 1
