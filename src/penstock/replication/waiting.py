"""Who waits for a partition to come as far as some offset: in the order of offsets, not of their coming.

Nearly always these are the same, as offsets only grow. But a repeated batch waits for where its original lies, which
may be below what was appended since. Who gives up is taken out at once: where the offset is never reached, and
producers repeat, there would be ever more of them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Protocol

from penstock.errors import ErrorCode


class AppendWaiter(Protocol):
    """A request that waits for an append. `slot` is its own note of which append it was."""

    def appended(self, slot: object, code: ErrorCode, now_ms: int) -> None:
        """The append has come as far as was asked (NONE), or never will."""

    def broke(self, error: Exception, now_ms: int) -> None:
        """A bug: `appended` has raised `error`. Nobody else who waits on the partition notices."""


def tell(waiter: AppendWaiter, slot: object, code: ErrorCode, now_ms: int) -> None:
    """Tells a waiter about its append. An exception that it raises does not affect others."""
    try:
        waiter.appended(slot, code, now_ms)
    except Exception as error:
        waiter.broke(error, now_ms)


Waiting = tuple[int, AppendWaiter, object]
OFFSET = itemgetter(0)


class Waiters:
    """The queue of one partition and one end. Of one offset, who came first is first."""

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
        """Takes out those who waited for `offset` or less."""
        waiting = self._waiting
        if not waiting or waiting[0][0] > offset:
            return []
        count = bisect_right(waiting, offset, key=OFFSET)
        reached = waiting[:count]
        del waiting[:count]
        return reached

    def all(self) -> list[Waiting]:
        """Removes and returns all waiters."""
        everybody, self._waiting = self._waiting, []
        return everybody
