"""The bytes of one socket, in both directions: what a transport is, and the one without encryption. The one with it is
`server.tls_transport`.

A transport may have a handshake (`shake_hands`), which must be over before anything else is read or written. An
encrypting transport holds bytes back in both directions: decrypted ones that are `waiting` to be read, although the
socket does not become readable again for them, and `unsent` ones that the socket has not taken yet.

A paused connection reads nothing, not even waiting bytes. Kafka's "muted" is something else: requests that have been
received are held back by the node (`node.connection`).
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from penstock.log.disk import Buffer


class Transport(Protocol):
    """The bytes of a connection. All methods but `close` may raise OSError; BlockingIOError means "not now".

    Attributes:
        stepping: a step of the handshake runs elsewhere; nothing else may be asked meanwhile.
        on_step: called on the loop when such a step has ended. certificate: the other side's (DER), if it showed one.
    """

    on_step: Callable[[], None]

    @property
    def stepping(self) -> bool: ...

    @property
    def certificate(self) -> bytes | None: ...

    @property
    def ready(self) -> bool:
        """Whether the handshake is over."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether there are bytes to read although the socket need not be readable."""
        ...

    @property
    def unsent(self) -> bool:
        """Whether bytes taken from the writer have not been sent."""
        ...

    def fileno(self) -> int: ...

    def shake_hands(self) -> None:
        """Continues the handshake as far as possible now. Raises OSError if the other side breaks it off."""
        ...

    def receive_into(self, buffer: Any) -> int:
        """Fills a buffer from its beginning; returns how many bytes, 0 if the other side has closed."""
        ...

    def receive_into_two(self, first: Any, second: Any) -> int:
        """Fills a buffer, and with the same call a second one with what follows; returns how many bytes in both."""
        ...

    def send(self, data: Buffer) -> int:
        """Takes bytes to be sent; returns how many."""
        ...

    def send_many(self, buffers: Iterable[Buffer]) -> int:
        """Takes the bytes of several buffers, in order; returns how many in total."""
        ...

    def push(self) -> bool:
        """Sends unsent bytes; returns whether all of them have left."""
        ...

    def close(self) -> None: ...


Transports = Callable[[str, socket.socket, str | None], Transport]
"""Makes the transport of a new socket, by the name of the listener, and by the host that was dialled, None for a client
that was accepted.
"""


def nothing() -> None:
    """For a transport that nobody waits for."""


class PlainTransport:
    """A socket without encryption."""

    __slots__ = ("_socket", "close", "fileno", "on_step", "receive_into", "send", "send_many")

    ready = True
    stepping = False
    certificate = None
    waiting = False
    unsent = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fileno = sock.fileno
        self.on_step = nothing
        self.receive_into = sock.recv_into
        self.send = sock.send
        self.send_many = sock.sendmsg
        self.close = sock.close

    def shake_hands(self) -> None:
        """Does nothing: a plain connection has no handshake."""

    def receive_into_two(self, first: Any, second: Any) -> int:
        return self._socket.recvmsg_into((first, second))[0]

    def push(self) -> bool:
        return True


def plain(_listener: str, sock: socket.socket, _host: str | None = None) -> PlainTransport:
    """A plain transport for any listener."""
    return PlainTransport(sock)
