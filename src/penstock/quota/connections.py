"""How many new connections an address may make a second (KIP-612).

A connection above the limit is not counted and is closed, after a delay that is at most one window: so a client that
connects again and again does so no more often than that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice

from penstock.quota.limits import ADDRESSES_LOOKED_AT_MAX
from penstock.quota.rate import Rate
from penstock.quota.usages import Windows


class ConnectionRates:
    """See the module's head.

    Args: `addresses_max`, bound on the addresses that are measured; beyond it those that have been measured longest are
    forgotten.

    Attributes: `refused`, how many connections were above a limit.
    """

    def __init__(self, windows: Windows, addresses_max: int) -> None:
        self._windows = windows
        self._addresses_max = addresses_max
        self._limits: dict[str | None, float] = {}
        self._named: dict[str | None, dict[str, float]] = {}
        self._rates: dict[str, Rate] = {}
        self.refused = 0

    def change(self, address: str | None, name: str, limit: float | None) -> None:
        """Puts the limit of an address into force, or takes it away (None). That of the address None holds for each
        that has none. An address may be limited under several names (spellings): the last one in order counts.
        """
        named = self._named.setdefault(address, {})
        if limit is None:
            named.pop(name, None)
        else:
            named[name] = limit
        if named:
            self._limits[address] = named[max(named)]
            return
        del self._named[address]
        self._limits.pop(address, None)
        if not self._limits:
            self._rates.clear()

    def delay_ms(self, address: str, now_ms: int) -> int:
        """Counts a new connection. Above the limit: after how many ms it is to be closed; else 0."""
        limits = self._limits
        if not limits:
            return 0
        limit = limits.get(address, limits.get(None, math.inf))
        if not limit < math.inf:
            return 0
        rate = self._rates.get(address)
        if rate is None:
            self._make_room(now_ms)
            rate = self._rates[address] = Rate(self._windows.number, self._windows.width_ms)
        delay_ms = min(rate.delay_ms(limit, now_ms, 1), self._windows.width_ms)
        if delay_ms and not rate.is_empty:  # with one window, a first one is above any limit
            self.refused += 1
            return delay_ms
        rate.record(1, now_ms)
        return 0

    def measured(self) -> Iterator[tuple[str, float, Rate]]:
        """The addresses that are measured, each with its limit and its rate."""
        for address, rate in self._rates.items():
            limit = self._limits.get(address, self._limits.get(None, math.inf))
            if limit < math.inf:
                yield address, limit, rate

    def has_own_limit(self, address: str) -> bool:
        """Whether an address has a limit of its own, not the default's."""
        return address in self._limits

    def _make_room(self, now_ms: int) -> None:
        """Forgets addresses that have not connected lately, a few at a time, and if there are none the oldest."""
        for address in list(islice(self._rates, ADDRESSES_LOOKED_AT_MAX)):
            rate = self._rates.pop(address)
            rate.forget(now_ms)
            if not rate.is_empty:
                self._rates[address] = rate
        while len(self._rates) >= self._addresses_max:
            del self._rates[next(iter(self._rates))]
