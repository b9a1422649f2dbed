"""Connections to other nodes: dialled when the node says so, then read and written like a client's.

Nothing waits: a name is looked up in the loop's executor (a numeric address needs none), the connect is non-blocking,
and the node is told `link_up` or `link_lost`. A name with several addresses is tried address by address. How long any
of this may take, and when it is tried again, the node decides.

A link differs from a client's connection in what bounds it: answers are as large as PEER_ANSWER_MAX_BYTES, and reading
never stops because requests are unsent, since the other side may be waiting for us to read. TLS will be chosen here, by
the security protocol of `Dial.listener`.
"""

from __future__ import annotations

import errno
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from penstock.config.limits import PEER_ANSWER_MAX_BYTES
from penstock.config.listeners import bracketed
from penstock.node.effects import REFUSED, Dial, HangUp, SendTo
from penstock.server.connection import Connection, Pause
from penstock.server.logs import events
from penstock.server.writer import SendError

if TYPE_CHECKING:
    import asyncio

    from penstock.server.shell import Shell

logger = events("server.links")

LinkEffect = Dial | SendTo | HangUp
FoundAddress = tuple[socket.AddressFamily, tuple[Any, ...]]


class PeerConnection(Connection):
    """The socket of a link that is up. The shell calls it by the link's number, negated: clients' are above 0."""

    __slots__ = ("link", "links")

    def __init__(self, links: Links, dial: Dial, sock: socket.socket) -> None:
        shell, peer = links.shell, f"{bracketed(dial.host)}:{dial.port}"
        super().__init__(shell, -dial.link, sock, listener=dial.listener, address=dial.host, peer=peer)
        self.link = dial.link
        self.links = links
        self._key = dial.link
        self._receiver = shell.node.link_received
        self._largest_bytes = PEER_ANSWER_MAX_BYTES

    def flush(self) -> None:
        """Sends what can be sent."""
        if self.closed:
            return
        self.active_ms = self._shell.now_ms
        try:
            self.writer.flush()
        except (OSError, SendError) as error:
            self._shell.lose(self, f"send failed: {error}")

    def refusal(self, size_bytes: int) -> str:
        return f"an answer of {size_bytes} bytes; at most {PEER_ANSWER_MAX_BYTES} are received"

    def forget(self) -> None:
        del self.links.up[self.link]

    def tell_lost(self, reason: str) -> None:
        logger.info("connection to another node lost", peer=self.peer, reason=reason)
        self._shell.node.link_lost(self.link, reason, self._shell.now_ms)


class Dialling:
    """A link that is being made: the address that is tried, and those left to try."""

    __slots__ = ("addresses", "dial", "reason", "socket")

    def __init__(self, dial: Dial) -> None:
        self.dial = dial
        self.addresses: list[FoundAddress] = []
        self.socket: socket.socket | None = None
        self.reason = "the name has no address"


class Links:
    """All links of a shell.

    Attributes: `up`, the links that are up, by number.
    """

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.up: dict[int, PeerConnection] = {}
        self._dialling: dict[int, Dialling] = {}
        self._lookups: dict[tuple[str, int], asyncio.Future[list[Any]]] = {}

    def carry_out(self, effect: LinkEffect) -> None:
        """Does what the node wants. Effects of a link that is lost, of which the node will hear, do nothing."""
        if isinstance(effect, SendTo):
            connection = self.up.get(effect.link)
            if connection is not None:
                connection.writer.queue(effect.chunks)
                self.shell.flush_later(connection)
        elif isinstance(effect, Dial):
            self._dial(effect)
        else:
            self._hang_up(effect.link)

    def stop(self) -> None:
        """Closes everything; the node is not told."""
        for link in [*self._dialling, *self.up]:
            self._hang_up(link)

    def _hang_up(self, link: int) -> None:
        dialling = self._dialling.pop(link, None)
        if dialling is not None:
            self._close(dialling)
        connection = self.up.get(link)
        if connection is not None:
            connection.close_reason = "not needed any more"
            self.shell.lose(connection, connection.close_reason)

    # Names

    def _dial(self, dial: Dial) -> None:
        dialling = self._dialling[dial.link] = Dialling(dial)
        address = numeric(dial.host, dial.port)
        if address is not None:
            dialling.addresses.append(address)
            self._connect(dialling)
            return
        name = (dial.host, dial.port)
        lookup = self._lookups.get(name)
        if lookup is None:
            lookup = self.shell.loop.run_in_executor(None, addresses_of, *name)
            self._lookups[name] = lookup
            lookup.add_done_callback(lambda _: self._lookups.pop(name, None))
        lookup.add_done_callback(lambda found: self.shell.guarded(lambda: self._looked_up(dialling, found)))

    def _looked_up(self, dialling: Dialling, found: asyncio.Future[list[Any]]) -> None:
        if found.cancelled() or dialling.dial.link not in self._dialling:
            return
        error = found.exception()
        if error is None:
            dialling.addresses = list(found.result())
        else:
            dialling.reason = f"cannot look up the name: {getattr(error, 'strerror', None) or error}".lower()
        self._connect(dialling)
        self.shell.kick()

    # Connecting

    def _connect(self, dialling: Dialling) -> None:
        """Tries the next address; when none is left, the link is lost for the reason of the last one."""
        while dialling.addresses:
            family, address = dialling.addresses.pop(0)
            try:
                sock = dialling.socket = socket.socket(family, socket.SOCK_STREAM)
                self.shell.prepare(sock)
                problem = sock.connect_ex(address)
            except OSError as error:
                problem = error.errno or errno.EIO
            except OverflowError:  # no port has this number
                problem = errno.EINVAL
            if problem in (errno.EINPROGRESS, errno.EWOULDBLOCK):
                self.shell.loop.add_writer(sock.fileno(), self.shell.guarded, lambda: self._connected(dialling))
                return
            if problem == 0:
                self._made(dialling)
                return
            self._failed(dialling, problem)
        dial = dialling.dial
        del self._dialling[dial.link]
        logger.debug("no connection to another node", host=dial.host, port=dial.port, reason=dialling.reason)
        self.shell.node.link_lost(dial.link, dialling.reason, self.shell.now_ms)

    def _connected(self, dialling: Dialling) -> None:
        """The socket is writable: it is connected, or it failed."""
        sock = dialling.socket
        assert sock is not None
        self.shell.loop.remove_writer(sock.fileno())
        problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem == 0 and connected_to_itself(sock):
            problem = errno.ECONNREFUSED
        if problem == 0:
            self._made(dialling)
        else:
            self._failed(dialling, problem)
            self._connect(dialling)
        self.shell.kick()

    def _made(self, dialling: Dialling) -> None:
        sock, dialling.socket = dialling.socket, None
        assert sock is not None
        link = dialling.dial.link
        del self._dialling[link]
        connection = self.up[link] = PeerConnection(self, dialling.dial, sock)
        self.shell.node.link_up(link, self.shell.now_ms)
        connection.resume(Pause(0))

    def _failed(self, dialling: Dialling, problem: int) -> None:
        dialling.reason = REFUSED if problem == errno.ECONNREFUSED else os.strerror(problem).lower()
        self._close(dialling)

    def _close(self, dialling: Dialling) -> None:
        sock, dialling.socket = dialling.socket, None
        if sock is not None:
            self.shell.loop.remove_writer(sock.fileno())
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
    """Whether a socket has met itself: on one host, dialling a free port of the ephemeral range may do that."""
    try:
        return bool(sock.getsockname() == sock.getpeername())
    except OSError:
        return False
