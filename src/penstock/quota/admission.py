"""Which connections of clients may come in, and when: Kafka's ConnectionQuotas (KIP-306, KIP-612).

A connection that may not come in yet waits before its listener, unaccepted: until fewer are open (`max.connections`),
or until as many have come as may in that time (`max.connection.creation.rate`). Both hold for the broker and for each
listener. A listener at which one waits accepts nobody else meanwhile.

The listener of the brokers among themselves is protected, unless it is the only one: it has its own limits, but the
broker's do not hold there. What has come in there counts, though: when there are too many connections in all, those of
other listeners that have been idle longest must go (`excess`). Listeners of controllers stand apart: they have their
own limits only, and their connections do not count for the broker.

Then there is the limit by address: a connection beyond it does not wait, it is refused.

A connection counts for the rates when it arrives, so that those at other listeners wait for it, too. It waits a window
at most, and then comes in whatever the rate is, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.config.values import INT_MAX
from penstock.quota.rate import Rate
from penstock.quota.usages import Windows


class ListenerLimit(NamedTuple):
    """How many connections a listener may have, and how many may come a second."""

    connections_max: int = INT_MAX
    per_second: int = INT_MAX


UNLIMITED = ListenerLimit()


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """All limits on connections.

    Attributes:
        connections_max, per_second: of the broker. listeners: of each listener.
        protected: the inter-broker listener, if there is another one. apart: the listeners of controllers.
        of_address_max: connections of one address; of_addresses: of those that have another limit.
    """

    connections_max: int = INT_MAX
    per_second: int = INT_MAX
    listeners: Mapping[str, ListenerLimit] = field(default_factory=dict)
    protected: str | None = None
    apart: frozenset[str] = frozenset()
    of_address_max: int = INT_MAX
    of_addresses: Mapping[str, int] = field(default_factory=dict)


class ListenerCounts:
    """What is counted of one listener.

    Attributes:
        connections: open now. rate: of new ones.
        throttle_ms: how long connections were made to wait because of rates, in all. address_throttle_ms: how long
            those above the rate of their address, which are closed then.
        due_ms: when the connection that waits may come in as far as rates are concerned; None: none waits.
    """

    __slots__ = ("address_throttle_ms", "connections", "due_ms", "rate", "throttle_ms")

    def __init__(self, windows: Windows) -> None:
        self.connections = 0
        self.rate = Rate(windows.number, windows.width_ms)
        self.throttle_ms = 0
        self.address_throttle_ms = 0
        self.due_ms: int | None = None


class Admission:
    """See the module's head.

    Args: `sockets_max`, bound on all connections together, whatever the limits say.

    Attributes: `limits`, in force; `listeners`, what is counted, by name; `rate`, of the broker's new connections.
    """

    def __init__(self, windows: Windows, sockets_max: int = INT_MAX) -> None:
        self._windows = windows
        self._sockets_max = sockets_max
        self._addresses: dict[str, int] = {}
        self._apart = 0
        self._total = 0
        self.limits = ConnectionLimits()
        self.listeners: dict[str, ListenerCounts] = {}
        self.rate = Rate(windows.number, windows.width_ms)

    def configure(self, limits: ConnectionLimits) -> None:
        """Puts limits into force. A connection that waits for a rate waits as long as it was told, as in Kafka."""
        self.limits = limits
        self._apart = sum(self.of(name).connections for name in limits.apart)
        for name in limits.listeners:
            self.of(name)

    def of(self, listener: str) -> ListenerCounts:
        """What is counted of a listener."""
        counts = self.listeners.get(listener)
        if counts is None:
            counts = self.listeners[listener] = ListenerCounts(self._windows)
        return counts

    # Before a connection is accepted

    def wait_ms(self, listener: str, now_ms: int) -> int | None:
        """A connection stands before a listener. For how many ms it waits before this is asked again; None: until a
        connection closes or limits change. 0: it may come in.
        """
        counts = self.of(listener)
        if counts.due_ms is None:
            counts.due_ms = now_ms + self._count(listener, counts, now_ms)
        if counts.due_ms > now_ms:
            return counts.due_ms - now_ms
        return 0 if self._has_room(listener, counts) else None

    def is_open(self, listener: str, now_ms: int) -> bool:
        """Whether one more could come in now, if there is one."""
        counts = self.of(listener)
        return self._has_room(listener, counts) and not self._delay_ms(listener, counts, now_ms)

    # One that is accepted

    def arrives(self, listener: str, now_ms: int) -> None:
        """A connection has been accepted; it counts for the rates, if it has not been counted before."""
        counts = self.of(listener)
        if counts.due_ms is None:
            self._record(listener, counts, now_ms)
        counts.due_ms = None

    def refused_by_rate(self, listener: str, delay_ms: int, now_ms: int) -> None:
        """A connection is above the rate of its address, and is closed after a delay: it counts for no other rate."""
        counts = self.of(listener)
        counts.address_throttle_ms += delay_ms
        counts.rate.take_back(1, now_ms)
        if self.gives_way(listener):
            self.rate.take_back(1, now_ms)

    def allows(self, address: str) -> bool:
        """Whether an address may have one more connection."""
        limits = self.limits
        return self._addresses.get(address, 0) < limits.of_addresses.get(address, limits.of_address_max)

    def entered(self, listener: str, address: str) -> None:
        """A connection is open."""
        self._change(listener, 1)
        self._addresses[address] = self._addresses.get(address, 0) + 1

    def left(self, listener: str, address: str) -> None:
        """A connection has been closed."""
        self._change(listener, -1)
        left = self._addresses[address] - 1
        if left:
            self._addresses[address] = left
        else:
            del self._addresses[address]

    # Too many

    @property
    def is_full(self) -> bool:
        """Whether there are as many as there may be at all."""
        return self._total >= self._sockets_max

    @property
    def excess(self) -> int:
        """How many connections of listeners that are neither protected nor apart are to be closed, idle ones first."""
        return max(0, self._total - self._apart - self.limits.connections_max, self._total - self._sockets_max)

    def gives_way(self, listener: str) -> bool:
        """Whether connections of a listener are closed when there are too many."""
        return listener != self.limits.protected and listener not in self.limits.apart

    # How it counts

    def _change(self, listener: str, by: int) -> None:
        self.of(listener).connections += by
        self._total += by
        if listener in self.limits.apart:
            self._apart += by

    def _has_room(self, listener: str, counts: ListenerCounts) -> bool:
        limits = self.limits
        if counts.connections >= limits.listeners.get(listener, UNLIMITED).connections_max:
            return False
        if not self.gives_way(listener):
            return True
        return self._total - self._apart < limits.connections_max and not self.is_full

    def _count(self, listener: str, counts: ListenerCounts, now_ms: int) -> int:
        delay_ms = self._delay_ms(listener, counts, now_ms)
        self._record(listener, counts, now_ms)
        counts.throttle_ms += delay_ms
        return delay_ms

    def _delay_ms(self, listener: str, counts: ListenerCounts, now_ms: int) -> int:
        limits = self.limits
        delay_ms = self._over(counts.rate, limits.listeners.get(listener, UNLIMITED).per_second, now_ms)
        if self.gives_way(listener):
            delay_ms = max(delay_ms, self._over(self.rate, limits.per_second, now_ms))
        return delay_ms

    def _over(self, rate: Rate, per_second: int, now_ms: int) -> int:
        """How long one more must wait for a rate; the first one, which would be above any rate of one window, never."""
        if per_second == INT_MAX:
            return 0
        delay_ms = rate.delay_ms(per_second, now_ms, 1)
        return 0 if rate.is_empty and per_second else min(delay_ms, self._windows.width_ms)

    def _record(self, listener: str, counts: ListenerCounts, now_ms: int) -> None:
        counts.rate.record(1, now_ms)
        if self.gives_way(listener):
            self.rate.record(1, now_ms)
