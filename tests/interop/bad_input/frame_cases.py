"""Frames that are no messages: unknown APIs and versions, cut and overwritten requests, other protocols."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from interop.bad_input.case import Case, Make, of
from interop.clients.valid_requests import (
    VALID,
)
from interop.clients.wire import framed, request_frame

from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.message import Message


def broken_frames() -> Iterator[Case]:
    for key, valid in VALID.items():
        api, last = APIS[key], APIS[key].stable_max_version
        whole = of(key)
        yield of(key, (last + 1, 99, -1))("a version that does not exist", version_of(key))
        if key not in (ApiKey.CREATE_TOPICS, ApiKey.DELETE_TOPICS):  # what is cut may be whole to them
            yield whole("cut by one byte", lambda world, version, v=valid: cut(v(world, version), version))  # type: ignore[misc]
        yield of(key, (api.min_version, last))(
            "huge counts",
            lambda world, version, v=valid: filled(v(world, version), version, b"\x7f\xff\xff\xff"),  # type: ignore[misc]
        )
        yield of(key, (api.min_version, last))(
            "bytes of ones",
            lambda world, version, v=valid: filled(v(world, version), version, b"\xff"),  # type: ignore[misc]
        )
    other = of(ApiKey.METADATA, (0,))
    for number in (4, 5, 6, 7, 93, 999, -1, 32767):
        yield other(
            f"unknown API {number}",
            lambda world, version, n=number: framed(struct.pack(">hhih", n, 0, 1, -1)),  # type: ignore[misc]
        )
    for number in (52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82):
        yield other(
            f"{APIS[ApiKey(number)].name}, of controllers",
            lambda world, version, n=number: framed(struct.pack(">hhih", n, 0, 1, -1)),  # type: ignore[misc]
        )
    for name, data in {
        "an empty frame": framed(b""),
        "a frame of one byte": framed(b"\0"),
        "a frame that ends in its header": framed(struct.pack(">hhi", ApiKey.METADATA, 0, 1)),
        "a client id longer than the frame": framed(struct.pack(">hhih", ApiKey.METADATA, 0, 1, 500)),
        "a client id of length -2": framed(struct.pack(">hhih", ApiKey.METADATA, 0, 1, -2)),
        "a client id that is not UTF-8": framed(struct.pack(">hhih", ApiKey.METADATA, 0, 1, 1) + b"\xff" + bytes(4)),
        "a negative length": struct.pack(">i", -1),
        "a length beyond the limit": struct.pack(">i", 0x7FFFFFFF),
        "an HTTP request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "a TLS hello": bytes.fromhex("160301020001000001fc0303") + bytes(600),
    }.items():
        yield other(name, lambda world, version, d=data: d)  # type: ignore[misc]


def version_of(key: ApiKey) -> Make:
    """A request with a version that does not exist, and nothing more."""
    return lambda world, version: framed(struct.pack(">hhih", key, version, 1, -1) + bytes(8))


def cut(message: Message, version: int) -> bytes:
    """The request without its last byte, in a frame of the right length."""
    return framed(request_frame(message, version)[4:-1])


HEADER_END = 4 + 8 + 2 + len("wire")


def filled(message: Message, version: int, filler: bytes) -> bytes:
    """The request with its whole body overwritten."""
    frame = request_frame(message, version)
    start = HEADER_END + APIS[message_key(message)].is_flexible(version)
    size = len(frame) - start
    return frame[:start] + (filler * (size // len(filler) + 1))[:size]


def message_key(message: Message) -> ApiKey:
    return ApiKey(message.KEY)
