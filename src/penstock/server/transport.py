"""The bytes of one socket, in both directions. TLS goes here: a second `Transport` beside `PlainTransport`.

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
    """The bytes of a connection. All methods but `close` may raise OSError; BlockingIOError means "not now"."""

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
    """A plain transport for any listener, since all of them are PLAINTEXT."""
    return PlainTransport(sock)
