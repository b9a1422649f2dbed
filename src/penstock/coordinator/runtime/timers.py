"""Timers of coordinators as data: a deadline for each key, in one heap for all shards.

Most timers are put off long before they are due (a heartbeat puts off the session's end), so that costs one dictionary
operation: the heap keeps the earlier entry, and when that is due, it is put back with the current deadline. So an entry
moves once in a session, not with each heartbeat. Entries that are due soon after are put back with it, as each by
itself would wake the node for nothing. `node.timers` compares the kinds of timers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from heapq import heapify, heappop, heappush, heapreplace

SOON_MS = 1_000
"""Entries that were put off and come up within so long are put back together."""
PUT_BACK_PER_LOOK = 500
"""How many are put back at a time; a look that has put so many back is to be repeated at once."""
STALE_ENTRIES_MAX = 10_000
"""Entries of the heap beyond twice the timers that there are; then those of cancelled timers are thrown out."""


class Timers:
    """The timers of one runtime. Shards have their own view, `of(shard)`. `wake_by` is told of deadlines that are not
    put off.
    """

    __slots__ = ("_count", "_deadlines", "_heap", "_sequence", "_wake_by")

    def __init__(self, wake_by: Callable[[int], None] = lambda deadline_ms: None) -> None:
        self._count = 0
        self._wake_by = wake_by
        self._deadlines: dict[int, dict[Hashable, tuple[int, int]]] = {}
        self._heap: list[tuple[int, int, int, Hashable]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return self._count

    def of(self, shard: int) -> ShardTimers:
        return ShardTimers(self, shard)

    def next_deadline_ms(self) -> int | None:
        """The time to call `due`; None without timers. It is never after the first deadline, but may be before."""
        heap = self._heap
        while heap:
            deadline_ms, sequence, shard, key = heap[0]
            held = self._deadlines.get(shard, {}).get(key)
            if held is not None and held[1] == sequence:
                return deadline_ms
            heappop(heap)  # it was cancelled, or brought forward
        return None

    def due(self, now_ms: int) -> tuple[int, Hashable] | None:
        """Removes and returns the first timer that is due: (shard, key). None also when there were very many to put
        back: then the next deadline is in the past.
        """
        heap = self._heap
        for _ in range(PUT_BACK_PER_LOOK):
            deadline_ms = self.next_deadline_ms()
            if deadline_ms is None or deadline_ms > now_ms + SOON_MS:
                return None
            _, sequence, shard, key = heap[0]
            held_ms, _ = self._deadlines[shard][key]
            if held_ms != deadline_ms:
                heapreplace(heap, (held_ms, sequence, shard, key))
            elif deadline_ms > now_ms:
                return None
            else:
                heappop(heap)
                del self._deadlines[shard][key]
                self._count -= 1
                return shard, key
        return None

    def _set(self, shard: int, key: Hashable, deadline_ms: int) -> None:
        deadlines = self._deadlines.setdefault(shard, {})
        held = deadlines.get(key)
        if held is not None and held[0] <= deadline_ms:
            deadlines[key] = (deadline_ms, held[1])
            return
        if held is None:
            self._count += 1
        self._sequence += 1
        deadlines[key] = (deadline_ms, self._sequence)
        heappush(self._heap, (deadline_ms, self._sequence, shard, key))
        self._wake_by(deadline_ms)
        if len(self._heap) > STALE_ENTRIES_MAX and len(self._heap) > 2 * len(self) + STALE_ENTRIES_MAX:
            self._heap = [
                (held_ms, sequence, number, each)
                for number, held_keys in self._deadlines.items()
                for each, (held_ms, sequence) in held_keys.items()
            ]
            heapify(self._heap)


class ShardTimers:
    """The timers of one shard, which the machine sets and cancels."""

    __slots__ = ("_shard", "_timers")

    def __init__(self, timers: Timers, shard: int) -> None:
        self._timers = timers
        self._shard = shard

    def __contains__(self, key: Hashable) -> bool:
        return key in self._timers._deadlines.get(self._shard, ())

    @property
    def of_all_shards(self) -> int:
        """How many timers all shards have: one for each member on this broker, and one or two for each shard."""
        return len(self._timers)

    def set(self, key: Hashable, deadline_ms: int) -> None:
        """Sets a timer: the machine's `expired(key, now_ms)` is called at the deadline, unless the timer is reset or
        cancelled.
        """
        self._timers._set(self._shard, key, deadline_ms)

    def deadline_ms(self, key: Hashable) -> int | None:
        """When it is due, or None."""
        held = self._timers._deadlines.get(self._shard, {}).get(key)
        return None if held is None else held[0]

    def cancel(self, key: Hashable) -> None:
        """Cancels a timer, if it is set."""
        if self._timers._deadlines.get(self._shard, {}).pop(key, None) is not None:
            self._timers._count -= 1

    def cancel_all(self) -> None:
        self._timers._count -= len(self._timers._deadlines.pop(self._shard, ()))
