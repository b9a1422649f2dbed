"""Places of long work: so much of it may be under way at a time, and what waits for a place has it by turns of tenants.

Work that takes more than a step has its message in memory, many times the size of its frame. `of_all` bounds how many
are under way, `of_tenant` how many of one tenant, so that others find a place while one has much to do.
"""

from __future__ import annotations

from collections import deque

from penstock.node.connection import Connection, Work
from penstock.node.line import Tenant


class Places:
    """See the module's head. Attributes: `held`, how many a tenant has; `waiting`: work that has none, by tenant."""

    __slots__ = ("_free", "_of_tenant", "held", "waiting")

    def __init__(self, of_all: int, of_tenant: int) -> None:
        self._free = of_all
        self._of_tenant = of_tenant
        self.held: dict[Tenant, int] = {}
        self.waiting: dict[Tenant, deque[Work]] = {}

    def take(self, work: Work, tenant: Tenant) -> bool:
        """Gives work a place; without one it waits, and False is returned."""
        if self._free and self.held.get(tenant, 0) < self._of_tenant:
            self._give(work, tenant)
            return True
        self.waiting.setdefault(tenant, deque()).append(work)
        return False

    def give_back(self, work: Work) -> list[Work]:
        """Takes the place of this work, if it has one, and returns what has got one instead."""
        tenant, work.place = work.place, None
        if tenant is not None:
            self._free += 1
            self.held[tenant] -= 1
            if not self.held[tenant]:
                del self.held[tenant]
        given = []
        while self._free and (tenant := self._next()) is not None:
            waiting = self.waiting.pop(tenant)
            given.append(waiting.popleft())
            if waiting:
                self.waiting[tenant] = waiting
            self._give(given[-1], tenant)
        return given

    def forget(self, connection: Connection) -> None:
        """What waits of a connection that is closed needs no place."""
        tenant = connection.tenant
        waiting = None if tenant is None else self.waiting.pop(tenant, None)
        if tenant is not None and waiting is not None:
            left = deque(work for work in waiting if work.connection is not connection)
            if left:
                self.waiting[tenant] = left

    def _next(self) -> Tenant | None:
        """The tenant whose turn it is: one that has waited longest since it got a place, and may have one more."""
        return next((tenant for tenant in self.waiting if self.held.get(tenant, 0) < self._of_tenant), None)

    def _give(self, work: Work, tenant: Tenant) -> None:
        self._free -= 1
        self.held[tenant] = self.held.get(tenant, 0) + 1
        work.place = tenant
