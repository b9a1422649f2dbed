"""Where connections of clients come in: listeners ask here before they accept one, and the shell for each accepted one.

`penstock.quota.admission` decides. A connection that has to wait is left to the operating system, in the backlog of its
listener: it has no socket, no buffer and no TLS state here, however many there are. Its listener is not looked at until
the time is over, or a connection closes, or limits change.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from heapq import nsmallest
from typing import TYPE_CHECKING, Protocol

from penstock.config.addresses import address_overrides
from penstock.config.values import INT_MAX
from penstock.events import RateLimit, events
from penstock.node.limits import REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX
from penstock.quota.admission import UNLIMITED, Admission, ConnectionLimits, ListenerLimit
from penstock.quota.usages import Windows
from penstock.server.closed_later import ClosedLater
from penstock.server.limits import EXCESS_CLOSED_PER_TURN

if TYPE_CHECKING:
    from penstock.config.server import Settings
    from penstock.server.connection import SocketConnection
    from penstock.server.node import Node


logger = events("server.entrance")


class EntranceHost(Protocol):
    """The shell: its node, its loop, and the connections that have come in."""

    node: Node
    loop: asyncio.AbstractEventLoop
    now_ms: int
    connections: dict[int, SocketConnection]

    def guarded(self, work: Callable[[], None]) -> None: ...

    def lose(self, connection: SocketConnection, reason: str) -> None: ...


class Entrance:
    """See the module's head.

    Attributes:
        admission: what is counted.
        refused: connections that were closed at once, or after the delay of their address. made_room: connections that
            were closed because there were too many.
        waiting: what goes on where a connection waits, by listener.
    """

    def __init__(self, host: EntranceHost, windows: Windows, sockets_max: int) -> None:
        self.admission = Admission(windows, sockets_max)
        self.refused = 0
        self.made_room = 0
        self._sockets_max = sockets_max
        self.waiting: dict[str, Callable[[], None]] = {}
        self._host = host
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._told = RateLimit(REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX)
        self._too_soon = ClosedLater(host.loop)
        self._closing_excess = False

    def configure(self, limits: ConnectionLimits) -> None:
        """Puts limits into force: closes connections that are too many, and goes on where more may come in."""
        self.admission.configure(limits)
        if self._sockets_max < limits.connections_max < INT_MAX:
            logger.warning(
                "max.connections is more than there are descriptors for; raise the limit (ulimit -n) and start again",
                max_connections=limits.connections_max,
                possible=self._sockets_max,
            )
        self._go_on()
        self.close_excess()

    # What listeners ask

    def wait_ms(self, listener: str) -> int | None:
        """See `Admission.wait_ms`."""
        return self.admission.wait_ms(listener, self._host.now_ms)

    def is_open(self, listener: str) -> bool:
        """See `Admission.is_open`."""
        return self.admission.is_open(listener, self._host.now_ms)

    def wait(self, listener: str, wait_ms: int | None, go_on: Callable[[], None]) -> None:
        """Calls `go_on` when the time is over, or, without one, when a connection has closed or limits have changed."""
        self.waiting[listener] = go_on
        if wait_ms is None:
            self._tell_of_wait(listener)
        else:
            self._timers[listener] = self._host.loop.call_later(wait_ms / 1_000, self._time_is_over, listener)

    def forget(self, listener: str) -> None:
        """A listener accepts no longer."""
        self.waiting.pop(listener, None)
        if (timer := self._timers.pop(listener, None)) is not None:
            timer.cancel()

    # What the shell asks

    def admits(self, sock: socket.socket, listener: str, address: str) -> bool:
        """Whether an accepted connection is served. If not, its socket is closed, now or after its delay."""
        host, admission = self._host, self.admission
        admission.arrives(listener, host.now_ms)
        try:
            delay_ms = host.node.connection_delay_ms(address, host.now_ms)
        except Exception as error:
            sock.close()
            host.node.bug("connection", f"a new connection of {address}", error)
            return False
        if delay_ms:
            self.refused += 1
            admission.refused_by_rate(listener, delay_ms, host.now_ms)
            self._too_soon.close_in(delay_ms, sock)
            return False
        if not admission.allows(address) or (admission.is_full and not self._make_room(listener)):
            self.refused += 1
            sock.close()
            return False
        return True

    def entered(self, listener: str, address: str) -> None:
        """A connection is open. If it is one too many another one is closed."""
        self.admission.entered(listener, address)
        if self.admission.excess:
            self.close_excess()

    def left(self, listener: str, address: str) -> None:
        """A connection has been closed."""
        self.admission.left(listener, address)
        self._go_on()

    def close_excess(self) -> None:
        """Closes connections of clients until there are not too many, idle ones first; a few in each turn."""
        excess = self.admission.excess
        if not self._close_idlest(min(excess, EXCESS_CLOSED_PER_TURN)) or excess <= EXCESS_CLOSED_PER_TURN:
            return
        if not self._closing_excess:
            self._closing_excess = True
            self._host.loop.call_soon(self._host.guarded, self._close_more)

    def stop(self) -> None:
        """Closes what waits to be closed; no listener goes on."""
        self._too_soon.close_all()
        for listener in list(self.waiting):
            self.forget(listener)

    # How it goes on

    def _tell_of_wait(self, listener: str) -> None:
        if self._told.suppressed(listener, self._host.now_ms) is not None:
            counts, limits = self.admission.of(listener), self.admission.limits
            logger.warning(
                "connections wait until others close",
                listener=listener,
                connections=counts.connections,
                max_connections=limits.listeners.get(listener, UNLIMITED).connections_max,
                of_all_listeners=limits.connections_max,
            )

    def _close_more(self) -> None:
        self._closing_excess = False
        self.close_excess()

    def _make_room(self, listener: str) -> bool:
        """Closes a client's connection for one of a listener at which nobody waits for that; False if there is none."""
        return not self.admission.gives_way(listener) and self._close_idlest(1) > 0

    def _close_idlest(self, count: int) -> int:
        """Closes so many connections, of listeners that give way; returns how many. As in Kafka, those that are being
        closed go first, and then those that have been idle longest.
        """
        if not count:
            return 0
        found = [each for each in self._host.connections.values() if self.admission.gives_way(each.listener)]
        idlest = nsmallest(count, found, key=lambda each: (each.close_reason is None, each.active_ms))
        for connection in idlest:
            self.made_room += 1
            self._host.lose(connection, "too many connections (max.connections), and it was idle longest")
        return len(idlest)

    def _time_is_over(self, listener: str) -> None:
        del self._timers[listener]
        self.waiting.pop(listener)()

    def _go_on(self) -> None:
        """Has listeners look again that wait for a connection to close."""
        for listener in [each for each in self.waiting if each not in self._timers]:
            self.waiting.pop(listener)()


def connection_limits(settings: Settings) -> ConnectionLimits:
    """The limits that settings name. What is not set for a listener holds for it as it is set for the broker, as in
    Kafka; not for the controllers' listeners: a limit for clients must not part the quorum.
    """
    names = [each.listener for each in settings.listener_endpoints]
    apart = frozenset(each.listener for each in settings.controller_endpoints)
    inter_broker = settings.inter_broker_listener
    return ConnectionLimits(
        connections_max=settings.max_connections,
        per_second=settings.max_connection_creation_rate,
        listeners={name: listener_limit(settings, name, apart=name in apart) for name in names},
        protected=inter_broker if len(names) - len(apart) > 1 else None,
        apart=apart,
        of_address_max=settings.max_connections_per_ip,
        of_addresses=address_overrides(settings.max_connections_per_ip_overrides),
    )


def listener_limit(settings: Settings, listener: str, *, apart: bool) -> ListenerLimit:
    """The limits of one listener."""
    if not apart:
        own = settings.of_listener(listener)
        return ListenerLimit(own.max_connections, own.max_connection_creation_rate)
    prefixed = settings.prefixed.of(listener)
    names = (type(settings).max_connections.attribute, type(settings).max_connection_creation_rate.attribute)
    return ListenerLimit(
        **{field: prefixed[name] for field, name in zip(ListenerLimit._fields, names, strict=True) if name in prefixed}
    )
