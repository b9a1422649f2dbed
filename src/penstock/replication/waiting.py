"""Requests that wait for a partition to reach an offset: here a produce request with acks=all waits for its replicas.

A partition has one queue for its log end (acks=1) and one for its high watermark (acks=all), sorted by offset. That is
nearly always the order of arrival; but a duplicate batch waits for the offset of the original, which may be lower. A
request that times out is removed at once, or the queue would grow for as long as the offset is not reached.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Protocol

from penstock.errors import ErrorCode


class AppendWaiter(Protocol):
    """A request that waits for an append. `slot` is its own note of which append it is."""

    def appended(self, slot: object, code: ErrorCode, now_ms: int) -> None:
        """The append has come as far as the request asked for (NONE), or never will."""

    def broke(self, error: Exception, now_ms: int) -> None:
        """A bug: `appended` has raised `error`. Others that wait on the partition are not affected."""


def tell(waiter: AppendWaiter, slot: object, code: ErrorCode, now_ms: int) -> None:
    """Tells a waiter about its append. An exception that it raises does not affect others."""
    try:
        waiter.appended(slot, code, now_ms)
    except Exception as error:
        waiter.broke(error, now_ms)


Waiting = tuple[int, AppendWaiter, object]
OFFSET = itemgetter(0)


class Waiters:
    """The requests that wait for one end of one partition; for the same offset in the order of arrival."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting)

    def add(self, offset: int, waiter: AppendWaiter, slot: object) -> None:
        """`waiter` waits for everything below `offset`."""
        waiting = self._waiting
        if not waiting or waiting[-1][0] <= offset:
            waiting.append((offset, waiter, slot))
        else:
            waiting.insert(bisect_right(waiting, offset, key=OFFSET), (offset, waiter, slot))

    def remove(self, offset: int, waiter: AppendWaiter, slot: object) -> bool:
        """Removes a waiter. False if it was not waiting, because it has already been told."""
        waiting = self._waiting
        for index in range(bisect_left(waiting, offset, key=OFFSET), len(waiting)):
            found, other, other_slot = waiting[index]
            if found != offset:
                break
            if other is waiter and other_slot is slot:
                del waiting[index]
                return True
        return False

    def reached(self, offset: int) -> list[Waiting]:
        """Removes and returns those that wait for `offset` or less."""
        waiting = self._waiting
        if not waiting or waiting[0][0] > offset:
            return []
        if waiting[-1][0] <= offset:
            self._waiting = []
            return waiting
        count = bisect_right(waiting, offset, key=OFFSET)
        reached = waiting[:count]
        del waiting[:count]
        return reached

    def beyond(self, offset: int) -> list[Waiting]:
        """Removes and returns those that wait for more than `offset`."""
        count = bisect_right(self._waiting, offset, key=OFFSET)
        beyond = self._waiting[count:]
        del self._waiting[count:]
        return beyond

    def all(self) -> list[Waiting]:
        """Removes and returns all waiters."""
        everybody, self._waiting = self._waiting, []
        return everybody
