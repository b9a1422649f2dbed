"""Parked requests: each waits for keys that events fire, or for its deadline.

A key is any hashable: `("image", topic)`, a partition object's key, a controller offset. `fire(key)` asks each request
parked on it, in the order in which they were parked, whether it can be completed now.

Produce requests with acks=all (`replication/waiting.py`) and fetches (`node/fetches.py`) are not parked here: they wait
on the partitions themselves. All use the same timers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from penstock.node.request import Parked
from penstock.node.timers import Timer, TimerWheel
from penstock.protocol.message import Message

if TYPE_CHECKING:
    from penstock.replication.partition import Partition

Broke = Callable[[Exception, int], None]


class Waiting:
    """A parked request and how to answer it."""

    __slots__ = ("answer", "broke", "forgotten", "parked", "sequence", "timer")

    def __init__(self, sequence: int, parked: Parked, answer: Callable[[Message, int], None], broke: Broke) -> None:
        self.sequence = sequence
        self.parked = parked
        self.answer = answer
        self.broke = broke
        self.forgotten = False
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

    def park(self, parked: Parked, answer: Callable[[Message, int], None], broke: Broke) -> Waiting:
        """Keeps a request until a key completes it or its deadline passes; then calls `answer(message, now_ms)` once.

        If its completion raises, `broke(error, now_ms)` is called instead; the others are not affected.
        """
        self._sequence += 1
        waiting = Waiting(self._sequence, parked, answer, broke)
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
            try:
                message = waiting.parked.complete(now_ms)
                if message is not None:
                    self._forget(waiting)
                    waiting.answer(message, now_ms)
            except Exception as error:
                if not waiting.forgotten:
                    self._forget(waiting)
                waiting.broke(error, now_ms)

    def low_watermark_moved(self, partition: Partition, now_ms: int) -> None:
        """The lowest log start offset of a partition's replicas may have changed."""
        self.fire(low_watermark_of(partition), now_ms)

    def cancel(self, waiting: Waiting) -> None:
        """Drops a parked request without an answer: its connection is gone, or a bug has ended it."""
        if not waiting.forgotten:
            self._forget(waiting)
        if waiting.parked.cancelled is not None:
            waiting.parked.cancelled()

    def _expire(self, waiting: Waiting, now_ms: int) -> None:
        self._forget(waiting)
        try:
            waiting.answer(waiting.parked.expire(now_ms), now_ms)
        except Exception as error:
            waiting.broke(error, now_ms)

    def _forget(self, waiting: Waiting) -> None:
        waiting.forgotten = True
        for key in waiting.parked.keys:
            here = self._by_key.get(key)
            if here is not None:
                here.pop(waiting.sequence, None)
                if not here:
                    del self._by_key[key]
        if waiting.timer is not None:
            self._timers.cancel(waiting.timer)
        self._size -= 1


def low_watermark_of(partition: Partition) -> Hashable:
    """The key of a partition's low watermark."""
    return ("low watermark", partition.topic, partition.index)
