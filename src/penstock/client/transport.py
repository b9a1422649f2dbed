"""The bytes of a connection of the client: writes requests, and cuts what arrives into frames.

Small frames are copied out of a scratch buffer; a large one (a fetch) gets a buffer of its own size, which the socket
fills directly and the decoded message views. With TLS `dial` returns when the handshake is over and the broker's
certificate is verified.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from penstock.client.limits import CLIENT_RESPONSE_BYTES, CLIENT_SCRATCH_BYTES

if TYPE_CHECKING:
    from ssl import SSLContext


class Receiver(Protocol):
    """The receiver of what comes from the other side."""

    def frame_received(self, frame: memoryview) -> None: ...

    def lost(self, error: Exception) -> None:
        """The connection is over."""
        ...

    def impossible(self, size_bytes: int) -> Exception:
        """The error of a frame that cannot have this size."""
        ...

    def hung_up(self, error: Exception | None) -> Exception:
        """The error of a connection that the other side has closed, or that ended in `error`."""
        ...


class Frames(asyncio.BufferedProtocol):
    """Cuts the byte stream into frames; hands each, without its length prefix, to who receives."""

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._scratch = bytearray(CLIENT_SCRATCH_BYTES)
        self._filled = 0
        self._frame: bytearray | None = None
        self._frame_filled = 0

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._frame_filled :]
        return memoryview(self._scratch)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is not None:
            self._frame_filled += nbytes
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._receiver.frame_received(memoryview(frame))
            return
        self._filled += nbytes
        position = 0
        while self._filled - position >= 4:
            size = int.from_bytes(self._scratch[position : position + 4], "big", signed=True)
            if not 4 <= size <= CLIENT_RESPONSE_BYTES:
                self._receiver.lost(self._receiver.impossible(size))
                return
            end = position + 4 + size
            if end > self._filled:
                if size + 4 > len(self._scratch):
                    self._frame = bytearray(size)
                    self._frame_filled = self._filled - position - 4
                    self._frame[: self._frame_filled] = self._scratch[position + 4 : self._filled]
                    position = self._filled
                break
            self._receiver.frame_received(memoryview(bytes(self._scratch[position + 4 : end])))
            position = end
        self._scratch[: self._filled - position] = self._scratch[position : self._filled]
        self._filled -= position

    def connection_lost(self, exc: Exception | None) -> None:
        self._receiver.lost(self._receiver.hung_up(exc))


async def dial(host: str, port: int, receiver: Receiver, context: SSLContext | None = None) -> asyncio.Transport:
    """Connects, and with a context shakes hands; a certificate must be for `host` if the context checks names.

    Raises OSError, of which ssl.SSLError is one.
    """
    loop = asyncio.get_running_loop()
    name = None if context is None else host
    transport, _ = await loop.create_connection(lambda: Frames(receiver), host, port, ssl=context, server_hostname=name)
    return transport
