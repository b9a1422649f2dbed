"""How messages are stored as records: the framing that Kafka puts around them.

- *Metadata records* (`__cluster_metadata`, `__remote_log_metadata`): the value is three unsigned varints (frame version
  1, type, message version), then the message. KIP-631.
- *Coordinator records* (`__consumer_offsets`, `__transaction_state`, `__share_group_state`): the key is two bytes for
  its type, then the key message in version 0; the value is two bytes for its version, then the value message. No value
  is a tombstone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from struct import Struct

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol import codec, schema
from penstock.protocol.api import message_class
from penstock.protocol.message import Buffer, Message
from penstock.protocol.wire import read_varint, varint

FRAME_VERSION = 1
TWO_BYTES = Struct(">h")


@cache
def classes(package: str, kind: str) -> Mapping[int, type[Message]]:
    """The record classes of a package (`metadata`, `group`, ...) and kind (`metadata`, `coordinator-key`), by type."""
    return {
        heading.api_key: message_class(name)
        for name, heading in schema.headings().items()
        if (heading.package, heading.kind) == (package, kind)
    }


def encode_metadata_record(message: Message, version: int) -> bytes:
    return record_head(message.KEY, version) + codec.encode_bytes(message, version)


@cache
def record_head(key: int, version: int) -> bytes:
    """The bytes before the message itself."""
    return varint(FRAME_VERSION) + varint(key) + varint(version)


def decode_metadata_record(value: Buffer, package: str = "metadata") -> tuple[Message, int]:
    """Reads the value of a metadata record. Returns the message and its version.

    Parameters:
        package: "metadata" for the metadata log, "remote_log" for the metadata of tiered storage.

    Raises:
        UnsupportedVersionError: another frame version, an unknown type, or an unknown version of it.
        ProtocolError: the bytes are broken, or there are bytes after the message.
    """
    try:
        frame_version, position = read_varint(value, 0)
        number, position = read_varint(value, position)
        version, position = read_varint(value, position)
    except IndexError:
        raise ProtocolError("broken metadata record: it ends inside its frame") from None
    if frame_version != FRAME_VERSION:
        raise UnsupportedVersionError(f"metadata record with frame version {frame_version}, not {FRAME_VERSION}")
    cls = classes(package, "metadata").get(number)
    if cls is None:
        raise UnsupportedVersionError(f"there is no {package} record of type {number}")
    message, end = codec.decode(cls, version, value, position)
    if end != len(value):
        raise ProtocolError(f"{len(value) - end} bytes after a {cls.NAME}")
    return message, version


def encode_coordinator_key(message: Message) -> bytes:
    return TWO_BYTES.pack(message.KEY) + codec.encode_bytes(message, 0)


def encode_coordinator_value(message: Message, version: int) -> bytes:
    return TWO_BYTES.pack(version) + codec.encode_bytes(message, version)


def decode_coordinator_key(package: str, key: Buffer) -> Message:
    """Reads the key of a coordinator record of a package (`group`, `transaction`, `share`).

    In `group`, type 0 is the legacy form of an offset commit's key, type 1 the one in use; both are read.

    Raises:
        UnsupportedVersionError: an unknown type.
        ProtocolError: the bytes are broken.
    """
    number = two_bytes(key)
    cls = classes(package, "coordinator-key").get(number)
    if cls is None:
        raise UnsupportedVersionError(f"there is no {package} record with a key of type {number}")
    return whole(cls, 0, key)


def decode_coordinator_value(package: str, number: int, value: Buffer) -> tuple[Message, int]:
    """Reads the value that belongs to a key of type `number`. Returns the message and its version."""
    cls = classes(package, "coordinator-value").get(number)
    if cls is None:
        raise UnsupportedVersionError(f"there is no {package} record with a value of type {number}")
    version = two_bytes(value)
    return whole(cls, version, value), version


def two_bytes(data: Buffer) -> int:
    """The number at the beginning of a coordinator key or value."""
    if len(data) < TWO_BYTES.size:
        raise ProtocolError(f"a coordinator record's key or value of {len(data)} bytes is too short")
    return int(TWO_BYTES.unpack_from(data)[0])


def whole(cls: type[Message], version: int, data: Buffer) -> Message:
    """Reads a message that follows two bytes and goes on to the end."""
    message, end = codec.decode(cls, version, data, TWO_BYTES.size)
    if end != len(data):
        raise ProtocolError(f"{len(data) - end} bytes after a {cls.NAME}")
    return message
