"""A connection on which a test says exactly what it wants: requests of any version, or any bytes at all.

with Wire("127.0.0.1:9092") as wire:
    answer = wire.ask(MetadataRequest(topics=None), 4)
    wire.send(b"garbage")
    assert wire.closed()
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

from penstock.errors import ErrorCode
from penstock.protocol import codec, frames
from penstock.protocol.api import API_BY_NUMBER, Api
from penstock.protocol.message import Message, Struct

TIMEOUT_S = 20.0
CLIENT_ID = "wire"


class Wire:
    """One TCP connection to a broker, blocking. A wait of more than `timeout_s` raises TimeoutError."""

    def __init__(self, bootstrap: str, timeout_s: float = TIMEOUT_S) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_s)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Sends bytes as they are. A connection that the broker has closed already takes them silently."""
        with suppress(BrokenPipeError, ConnectionResetError):
            self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """One frame without its length, or None when the broker has closed the connection."""
        head = self._exactly(4)
        return None if head is None else self._exactly(struct.unpack(">i", head)[0])

    def _exactly(self, size: int) -> bytes | None:
        data = bytearray()
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except (ConnectionResetError, BrokenPipeError):
                more = b""
            if not more:
                return None
            data += more
        return bytes(data)

    def closed(self) -> bool:
        """Waits for the broker to close the connection or to answer; True when it closed."""
        return self.receive() is None

    def ask(self, message: Message, version: int) -> Any:
        """Sends a request and returns its answer, which must be whole and nothing more."""
        self._correlation_id += 1
        frame = request_frame(message, version, self._correlation_id)
        self.send(frame)
        answer = self.receive()
        assert answer is not None, f"the broker closed the connection on {type(message).__name__} version {version}"
        return decode_answer(API_BY_NUMBER[message.KEY], version, self._correlation_id, answer)


def request_frame(message: Message, version: int, correlation_id: int = 1) -> bytes:
    """A request with its length and header."""
    chunks = frames.encode_request(API_BY_NUMBER[message.KEY], version, correlation_id, CLIENT_ID, message)
    return b"".join(chunks)  # type: ignore[arg-type]


def framed(body: bytes) -> bytes:
    """Any bytes as a frame: their length, then they."""
    return struct.pack(">i", len(body)) + body


def decode_answer(api: Api, version: int, correlation_id: int, frame: bytes) -> Any:
    """The message in a response frame. Asserts that it is to this request and that no byte is left over."""
    answered, position = frames.decode_response_header(api, version, frame)
    assert answered == correlation_id
    message, end = codec.decode(api.response_class, version, frame, position)
    assert end == len(frame), f"{len(frame) - end} bytes after the {api.name} response of version {version}"
    return message


def errors_in(value: Any, path: str = "") -> Iterator[tuple[str, ErrorCode]]:
    """Every error code in a response with the path of its field, in order; entries of lists by their position."""
    if isinstance(value, list):
        for index, each in enumerate(value):
            yield from errors_in(each, f"{path}[{index}]")
    elif isinstance(value, Struct):
        for name in value.__slots__:
            field = f"{path}.{name}" if path else name
            if name in {"error_code", "partition_error_code"}:
                yield field, ErrorCode(getattr(value, name))
            else:
                yield from errors_in(getattr(value, name), field)
