"""Bytes both ways over one socket: the only way in which a connection and its writer reach the other side.

A transport may have a handshake, before which nothing is read or written by others. What encrypts holds bytes back in
both directions: `waiting` ones, decrypted and not read yet, for which the socket will not become readable again, and
`unsent` ones, taken from the writer while the socket took no more. A plain one has none of that, and its methods are
the socket's own.

A connection that is paused reads nothing, what is waiting included. That is not what Kafka calls muted: requests that
were received before are held back by the node (`node.connection`), which a transport knows nothing of.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from penstock.log.disk import Buffer


class Transport(Protocol):
    """The bytes of a connection, both ways. All methods but `close` raise OSError; BlockingIOError: not now."""

    @property
    def ready(self) -> bool:
        """Whether the handshake is over."""
        ...

    @property
    def waiting(self) -> bool:
        """Whether there are bytes to be read without the socket being readable."""
        ...

    @property
    def unsent(self) -> bool:
        """Whether bytes that were taken from the writer have not left."""
        ...

    def fileno(self) -> int: ...

    def shake_hands(self) -> None:
        """Goes on with the handshake as far as it goes now. Raises OSError when the other side breaks it off."""
        ...

    def receive_into(self, buffer: Any) -> int:
        """Fills a buffer from its beginning: how many bytes; 0 when the other side has closed."""
        ...

    def receive_into_two(self, first: Any, second: Any) -> int:
        """Fills a buffer, and with the same call a second one with what follows: how many bytes in both."""
        ...

    def send(self, data: Buffer) -> int:
        """Takes bytes to be sent: how many of them."""
        ...

    def send_many(self, buffers: Iterable[Buffer]) -> int:
        """Takes the bytes of several buffers in order: how many of all."""
        ...

    def push(self) -> bool:
        """Sends unsent bytes; returns whether all of them have left."""
        ...

    def close(self) -> None: ...


Transports = Callable[[str, socket.socket], Transport]
"""Makes the transport of a new socket, by the name of the listener."""


class PlainTransport:
    """A socket without encryption."""

    __slots__ = ("_socket", "close", "fileno", "receive_into", "send", "send_many")

    ready = True
    waiting = False
    unsent = False

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self.fileno = sock.fileno
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


def plain(_listener: str, sock: socket.socket) -> PlainTransport:
    """A plain transport for each listener, since all of them are PLAINTEXT."""
    return PlainTransport(sock)
