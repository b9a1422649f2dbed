"""What waits for a thread of a lane, and what of it is next: tenants take turns.

The node's own work (writes, fsyncs, segments, replication) waits first-in first-out, and has every other turn while
somebody else waits. The reads of clients are taken round by tenant (deficit round robin, Shreedhar and Varghese 1995):
each may have LANE_TURN_BYTES read in its turn, a read counts as LANE_OPERATION_BYTES more than it has, since the disk
has to find it, and what a turn was exceeded by is missing in the next one. So one tenant's 200 cold reads hold up
another one's by those of one turn. A tenant of whom nothing waits has no state.

The loop and workers put, threads get. A token in a queue stands for each entry, so that threads wait without a lock.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable
from queue import SimpleQueue
from threading import Lock
from typing import Generic, TypeVar

from penstock.server.limits import LANE_OPERATION_BYTES, LANE_TURN_BYTES

T = TypeVar("T")


class Waiting(Generic[T]):
    """What waits of one tenant, with what each costs, and how many bytes are left of its turn."""

    __slots__ = ("entries", "left_bytes")

    def __init__(self) -> None:
        self.entries: deque[tuple[T, int]] = deque()
        self.left_bytes = LANE_TURN_BYTES


class LaneQueue(Generic[T]):
    """See the module's head. Attributes: `tenants`, of whom something waits, in the order of their turns."""

    def __init__(self) -> None:
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._lock = Lock()
        self._own: deque[T] = deque()
        self._own_was_last = False
        self.tenants: OrderedDict[Hashable, Waiting[T]] = OrderedDict()

    def put(self, entry: T, tenant: Hashable, size_bytes: int) -> None:
        """Adds what is to be done for a tenant (None: for the node itself)."""
        with self._lock:
            if tenant is None:
                self._own.append(entry)
            else:
                waiting = self.tenants.get(tenant)
                if waiting is None:
                    waiting = self.tenants[tenant] = Waiting()
                waiting.entries.append((entry, size_bytes + LANE_OPERATION_BYTES))
        self._tokens.put(True)

    def get(self) -> T | None:
        """Waits for an entry, and takes it; None: there will be no more."""
        if not self._tokens.get():
            return None
        with self._lock:
            self._own_was_last = bool(self._own) and not (self._own_was_last and self.tenants)
            return self._own.popleft() if self._own_was_last else self._take()

    def end(self) -> None:
        """Has one thread end, when it has taken what was added before."""
        self._tokens.put(False)

    def _take(self) -> T:
        while True:
            tenant, waiting = next(iter(self.tenants.items()))
            if waiting.left_bytes > 0:
                entry, cost_bytes = waiting.entries.popleft()
                waiting.left_bytes -= cost_bytes
                if not waiting.entries:
                    del self.tenants[tenant]
                return entry
            waiting.left_bytes += LANE_TURN_BYTES
            self.tenants.move_to_end(tenant)
