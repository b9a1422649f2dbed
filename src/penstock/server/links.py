"""Connections to other nodes: dialled when the node asks for it, then read and written like a client's.

Nothing blocks: a name is looked up in the loop's executor (a numeric address needs none), the connect is non-blocking,
and the node is told `link_up` or `link_lost`. A name with several addresses is tried address by address. The node
decides how long any of this may take, and when it is tried again.

A link has other bounds than a client's connection: answers may have up to PEER_ANSWER_MAX_BYTES, and reading never
stops because requests are unsent, since the other side may be waiting for us to read. The transport is that of
`Dial.listener`; the node is told that a link is up when its handshake is over.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from penstock.config.listeners import bracketed
from penstock.events import events
from penstock.node.effects import REFUSED, Dial, HangUp, SendTo
from penstock.protocol.frames import foreign_protocol
from penstock.server import connection
from penstock.server.connection import Receiver, SocketConnection
from penstock.server.limits import PEER_ANSWER_MAX_BYTES
from penstock.server.node import Node
from penstock.server.transport import Transport

if TYPE_CHECKING:
    import asyncio

logger = events("server.links")

LinkEffect = SendTo | Dial | HangUp
LINK_EFFECTS = (SendTo, Dial, HangUp)
FoundAddress = tuple[socket.AddressFamily, tuple[Any, ...]]


class LinksHost(connection.ConnectionHost, Protocol):
    """The surroundings of links."""

    @property
    def node(self) -> Node: ...

    def prepare(self, sock: socket.socket) -> None:
        """Sets the options of a new socket."""
        ...

    def transport_of(self, listener: str, sock: socket.socket, host: str | None) -> Transport: ...

    def guarded(self, work: Callable[[], None]) -> None:
        """Runs a callback of the loop."""
        ...

    def kick(self) -> None:
        """Carries out the node's effects soon."""
        ...


class Dialling:
    """A link that is being made: the address that is tried, and those left to try."""

    __slots__ = ("addresses", "dial", "reason", "socket")

    def __init__(self, dial: Dial) -> None:
        self.dial = dial
        self.addresses: list[FoundAddress] = []
        self.socket: socket.socket | None = None
        self.reason = "the name has no address"


class Links:
    """All links of a node, and the other nodes as a side of their connections. A connection has the link's number,
    negated; those of clients are above 0.

    Attributes: `connected`, the links whose sockets are connected, by number.
    """

    answers_pause = False
    largest_bytes = PEER_ANSWER_MAX_BYTES

    def __init__(self, host: LinksHost) -> None:
        self._host = host
        self.connected: dict[int, SocketConnection] = {}
        self._dialling: dict[int, Dialling] = {}
        self._lookups: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}

    def carry_out(self, effect: LinkEffect) -> None:
        """Carries out an effect of the node. Effects on a lost link, which the node will hear of, do nothing."""
        if isinstance(effect, SendTo):
            connection = self.connected.get(effect.link)
            if connection is not None:
                connection.writer.queue(effect.chunks)
                self._host.flush_later(connection)
        elif isinstance(effect, Dial):
            self._dial(effect)
        else:
            self._hang_up(effect.link)

    def stop(self) -> None:
        """Closes everything; the node is not told."""
        for link in [*self._dialling, *self.connected]:
            self._hang_up(link)

    def _hang_up(self, link: int) -> None:
        dialling = self._dialling.pop(link, None)
        if dialling is not None:
            self._close(dialling)
        connection = self.connected.get(link)
        if connection is not None:
            connection.close_reason = "not needed any more"
            self._host.lose(connection, connection.close_reason)

    # Names

    def _dial(self, dial: Dial) -> None:
        dialling = self._dialling[dial.link] = Dialling(dial)
        address = numeric(dial.host, dial.port)
        if address is not None:
            dialling.addresses.append(address)
            self._go_on(dialling, partial(self._connect, dialling))
            return
        name = (dial.host, dial.port)
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self._host.loop.run_in_executor(None, addresses_of, *name)
            self._lookups[name] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(name, None))
        lookup.add_done_callback(
            lambda found: self._host.guarded(lambda: self._go_on(dialling, lambda: self._looked_up(dialling, found)))
        )

    def _go_on(self, dialling: Dialling, step: Callable[[], None]) -> None:
        """Runs the next step of a link. A bug in it ends this link."""
        try:
            step()
        except Exception as error:
            dial = dialling.dial
            self._hang_up(dial.link)
            self._host.node.link_lost(dial.link, "a bug while it was made", self._host.now_ms)
            self._host.node.bug("connection", f"the connection to {dial.host}:{dial.port}", error)
            self._host.kick()

    def _looked_up(self, dialling: Dialling, found: asyncio.Future[list[Any]]) -> None:
        if found.cancelled() or dialling.dial.link not in self._dialling:
            return
        error = found.exception()
        if error is None:
            dialling.addresses = list(found.result())
        else:
            dialling.reason = f"cannot look up the name: {getattr(error, 'strerror', None) or error}".lower()
        self._connect(dialling)
        self._host.kick()

    # Connecting

    def _connect(self, dialling: Dialling) -> None:
        """Tries the next address; if none is left, the link is lost for the reason of the last one."""
        while dialling.addresses:
            family, address = dialling.addresses.pop(0)
            try:
                sock = dialling.socket = socket.socket(family, socket.SOCK_STREAM)
                self._host.prepare(sock)
                problem = sock.connect_ex(address)
            except OSError as error:
                problem = error.errno or errno.EIO
            except OverflowError:  # no port has this number
                problem = errno.EINVAL
            if problem in (errno.EINPROGRESS, errno.EWOULDBLOCK):
                connected = partial(self._go_on, dialling, partial(self._connected, dialling))
                self._host.loop.add_writer(sock.fileno(), self._host.guarded, connected)
                return
            if problem == 0:
                self._made(dialling)
                return
            self._failed(dialling, problem)
        dial = dialling.dial
        del self._dialling[dial.link]
        logger.debug("no connection to another node", host=dial.host, port=dial.port, reason=dialling.reason)
        self._host.node.link_lost(dial.link, dialling.reason, self._host.now_ms)

    def _connected(self, dialling: Dialling) -> None:
        """The socket is writable: it is connected, or it failed."""
        sock = dialling.socket
        assert sock is not None
        self._host.loop.remove_writer(sock.fileno())
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem == 0 and connected_to_itself(sock):
            problem = errno.ECONNREFUSED
        if problem == 0:
            self._made(dialling)
        else:
            self._failed(dialling, problem)
            self._connect(dialling)
        self._host.kick()

    def _made(self, dialling: Dialling) -> None:
        dial, sock = dialling.dial, dialling.socket
        assert sock is not None
        transport = self._host.transport_of(dial.listener, sock, dial.host)
        dialling.socket = None
        del self._dialling[dial.link]
        peer = f"{bracketed(dial.host)}:{dial.port}"
        connection = self.connected[dial.link] = SocketConnection(
            self._host, self, transport, -dial.link, listener=dial.listener, address=dial.host, peer=peer
        )
        connection.start()

    # The other nodes, as a side of connections

    @property
    def receiver(self) -> Receiver:
        return self._host.node.link_received

    def established(self, connection: SocketConnection) -> None:
        self._host.node.link_up(-connection.number, self._host.now_ms)

    def frame_too_large(self, size_bytes: int) -> str:
        if (spoken := foreign_protocol(size_bytes)) is not None:
            return f"the other side speaks {spoken}, not Kafka's protocol"
        return f"an answer of {size_bytes} bytes; at most {PEER_ANSWER_MAX_BYTES} are received"

    def left(self, connection: SocketConnection) -> None:
        del self.connected[-connection.number]

    def lost(self, connection: SocketConnection, reason: str) -> None:
        logger.info("connection to another node lost", peer=connection.peer, reason=reason)
        self._host.node.link_lost(-connection.number, reason, self._host.now_ms)
        self._host.kick()

    # Ends

    def _failed(self, dialling: Dialling, problem: int) -> None:
        dialling.reason = REFUSED if problem == errno.ECONNREFUSED else os.strerror(problem).lower()
        self._close(dialling)

    def _close(self, dialling: Dialling) -> None:
        sock, dialling.socket = dialling.socket, None
        if sock is not None:
            self._host.loop.remove_writer(sock.fileno())
            sock.close()


def numeric(host: str, port: int) -> FoundAddress | None:
    """The address that a numeric host stands for; None for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with suppress(OSError, ValueError):
            socket.inet_pton(family, host)
            return family, (host, port)
    return None


def addresses_of(host: str, port: int) -> list[FoundAddress]:
    """All addresses of a name, in the system's order. Blocks. Raises OSError."""
    return [(family, address) for family, _, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]


def connected_to_itself(sock: socket.socket) -> bool:
    """Whether a socket is connected to itself, which may happen when dialling a free ephemeral port of this host."""
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:
        return False
