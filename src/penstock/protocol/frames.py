"""Frames: a 4-byte length, a header, a message.

A request's header says API, version, correlation id and client id; its own version follows from those. The client id
keeps its 16-bit length in the flexible header too, so that a broker can read the header of any version. A response's
header is the correlation id, with tagged fields when flexible.

Frames come here without their length prefix (the socket's reader needed it to cut them) and leave with it.
"""

from __future__ import annotations

from collections.abc import Generator
from struct import Struct, error
from typing import NamedTuple

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol import codec
from penstock.protocol.api import FLEXIBLE_FROM, Api, api_of
from penstock.protocol.message import Buffer, Chunk, Message
from penstock.protocol.wire import chunk_length, skip_tags

REQUEST_HEADER = Struct(">hhih")
RESPONSE_HEADER = Struct(">i")
RESPONSE_START = Struct(">ii")
RESPONSE_START_FLEXIBLE = Struct(">iib")
HTTP_STARTS = frozenset({b"GET ", b"POST", b"HEAD", b"PUT ", b"OPTI", b"HTTP", b"PRI "})
"""How requests and answers begin; PRI is HTTP/2."""
TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
"""How an alert and a handshake begin, in any version of TLS."""


def foreign_protocol(length: int) -> str | None:
    """The protocol of the other side, if the four bytes of a frame's length are the start of another protocol."""
    start = (length & 0xFFFFFFFF).to_bytes(4, "big")
    if start in HTTP_STARTS:
        return "HTTP"
    return "TLS" if start.startswith(TLS_RECORDS) else None


class RequestHeader(NamedTuple):
    """The header of a request. `client_id` is None when the client gives none."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


new_tuple = tuple.__new__
"""Makes a header at a third of the cost of its own constructor, which is written in Python."""


def decode_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """Reads the header of a request; returns it and the position of the message in the frame.

    The API is one of Kafka's; its version may be one that does not exist, so that ApiVersions can be answered in any.

    Raises:
        ProtocolError: the bytes are no header, or there is no such API.
    """
    try:
        key, version, correlation_id, length = REQUEST_HEADER.unpack_from(frame)
        position = REQUEST_HEADER.size
        client_id = None
        if length >= 0:
            client_id = str(frame[position : position + length], "utf-8")
            position += length
        elif length != -1:
            raise ProtocolError(f"client_id has length {length}")
        flexible_from = FLEXIBLE_FROM.get(key)
        if flexible_from is None:
            raise ProtocolError(f"there is no API with key {key}")
        if version >= flexible_from:
            tags = frame[position]
            position += 1
            if tags:
                position = skip_tags(frame, position, len(frame), tags)
    except (error, IndexError, UnicodeDecodeError) as cause:
        raise ProtocolError(f"broken request header: {cause}") from None
    if position > len(frame):
        raise ProtocolError("broken request header: the frame ends inside it")
    return new_tuple(RequestHeader, (key, version, correlation_id, client_id)), position


def decode_request(frame: Buffer) -> tuple[RequestHeader, Message]:
    """Reads a whole request. Bytes after the message are ignored, as Kafka does.

    Raises:
        UnsupportedVersionError: the API has no such version.
        ProtocolError: the frame is broken.
    """
    header, position = decode_request_header(frame)
    message, _ = codec.decode(api_of(header.api_key).request_class, header.api_version, frame, position)
    return header, message


def encode_response(api: Api, version: int, correlation_id: int, message: Message) -> list[Chunk]:
    """Writes a response as a frame: chunks that follow each other, the length first."""
    return response_frame(api, version, correlation_id, codec.encode(message, version))


def encode_response_steps(
    api: Api, version: int, correlation_id: int, message: Message
) -> Generator[None, None, list[Chunk]]:
    """Like `encode_response`, in steps (`codec.encode_steps`)."""
    chunks = yield from codec.encode_steps(message, version)
    return response_frame(api, version, correlation_id, chunks)


def response_frame(api: Api, version: int, correlation_id: int, chunks: list[Chunk]) -> list[Chunk]:
    """A response that is written, with what comes before it."""
    length = sum(map(chunk_length, chunks))
    if version >= api.flexible_response_from:
        head = RESPONSE_START_FLEXIBLE.pack(length + 5, correlation_id, 0)
    else:
        head = RESPONSE_START.pack(length + 4, correlation_id)
    return join_head(head, chunks)


def encode_request(api: Api, version: int, correlation_id: int, client_id: str | None, message: Message) -> list[Chunk]:
    """Writes a request as a frame: chunks that follow each other, the length first."""
    chunks = codec.encode(message, version)
    name = b"" if client_id is None else client_id.encode()
    if len(name) > 0x7FFF:
        raise ProtocolError(f"client_id is a string of {len(name)} bytes, more than {0x7FFF}")
    header = REQUEST_HEADER.pack(api.key, version, correlation_id, -1 if client_id is None else len(name)) + name
    if api.request_header_version(version) == 2:
        header += b"\0"
    length = len(header) + sum(map(chunk_length, chunks))
    return join_head(RESPONSE_HEADER.pack(length) + header, chunks)


def join_head(head: bytes, chunks: list[Chunk]) -> list[Chunk]:
    """Puts the head before the first chunk, in one piece when that one is bytes of our own."""
    if chunks and isinstance(chunks[0], bytes):
        chunks[0] = head + chunks[0]
    else:
        chunks.insert(0, head)
    return chunks


def decode_response_header(api: Api, version: int, frame: Buffer) -> tuple[int, int]:
    """Reads the header of a response; returns the correlation id and the position of the message in the frame."""
    try:
        (correlation_id,) = RESPONSE_HEADER.unpack_from(frame)
        position = RESPONSE_HEADER.size
        if api.response_header_version(version) == 1:
            position = skip_tags(frame, position + 1, len(frame), frame[position])
    except (error, IndexError) as cause:
        raise ProtocolError(f"broken response header: {cause}") from None
    return correlation_id, position


def decode_response(api: Api, version: int, frame: Buffer) -> tuple[int, Message]:
    """Reads a whole response to a request of this API and version: the correlation id and the message."""
    if not api.min_version <= version <= api.max_version:
        raise UnsupportedVersionError(f"{api.name} has no version {version}")
    correlation_id, position = decode_response_header(api, version, frame)
    message, _ = codec.decode(api.response_class, version, frame, position)
    return correlation_id, message
