"""What consumers say in JoinGroup and hear from SyncGroup, inside the bytes of the classic protocol.

Subscription and assignment begin with two bytes for their version. As in Kafka's ConsumerProtocol a version that is too
new is read as the newest one we know: later ones only add fields at the end.
"""

from __future__ import annotations

from struct import Struct
from typing import TypeVar

from penstock.errors import ProtocolError
from penstock.protocol import codec
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription

VERSION = Struct(">h")

M = TypeVar("M", bound=Message)


def version_of(data: bytes, cls: type[Message]) -> int:
    """The version of a message. Raises ProtocolError."""
    if len(data) < VERSION.size:
        raise ProtocolError(f"{len(data)} bytes are too short for a {cls.NAME}")
    version = int(VERSION.unpack_from(data)[0])
    if version < cls.MIN_VERSION:
        raise ProtocolError(f"a {cls.NAME} has no version {version}")
    return min(version, cls.MAX_VERSION)


def decode(cls: type[M], data: bytes) -> M:
    """Reads a message; what follows is of a later version. Raises ProtocolError."""
    message, _ = codec.decode(cls, version_of(data, cls), data, VERSION.size)
    return message


def decode_subscription(data: bytes) -> ConsumerProtocolSubscription:
    """What a member wants. Raises ProtocolError."""
    return decode(ConsumerProtocolSubscription, data)


def decode_assignment(data: bytes) -> ConsumerProtocolAssignment:
    """What a member has. Raises ProtocolError."""
    return decode(ConsumerProtocolAssignment, data)


def encode(message: Message, version: int) -> bytes:
    """A message with its version before it."""
    return VERSION.pack(version) + codec.encode_bytes(message, version)
