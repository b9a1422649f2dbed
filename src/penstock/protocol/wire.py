"""What the generated codecs call at run time: the rare and the slow cases, and the errors.

The common cases (a length below 127, a short array of integers) are inline in the generated code.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any
from uuid import UUID, SafeUUID

from penstock.errors import ProtocolError, UnsupportedVersionError
from penstock.protocol.limits import ARRAY_ELEMENTS_MAX, STRING_MAX_BYTES, TAGGED_FIELDS_MAX, UUID_CACHE_MAX
from penstock.protocol.message import ZERO_UUID, Buffer, Chunk, Records

VARINT_MAX = 0x7FFFFFFF
JOINED_RECORDS_MAX_BYTES = 512
"""Record bytes up to this many are copied into the chunk before them: cheaper than one more chunk to send."""

ONE_BYTE = tuple(bytes((value,)) for value in range(128))
"""Unsigned varints of one byte."""

ELLIPSIS = "…".encode()

SMALL = 16
"""Integer arrays shorter than this have a ready packer."""


def ready(code: str) -> tuple[struct.Struct, ...]:
    """Packers for 0 to SMALL - 1 integers of one format character."""
    return tuple(struct.Struct(f">{count}{code}") for count in range(SMALL))


READY = {code: ready(code) for code in "bhiq"}
UNPACK_INTEGERS = {code: tuple(packer.unpack_from for packer in packers) for code, packers in READY.items()}
PACK_INTEGERS = {code: tuple(packer.pack for packer in packers) for code, packers in READY.items()}


def read_varint(data: Any, position: int) -> tuple[int, int]:
    """Reads an unsigned varint of at most 31 bits. Returns it and the position after it."""
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = data[position]
        if byte < 0x80:
            value |= byte << shift
            if value > VARINT_MAX:
                break
            return value, position + 1
        value |= (byte & 0x7F) << shift
    raise ProtocolError(f"the unsigned varint that ends at byte {position} is longer than 31 bits")


def varint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return ONE_BYTE[value]
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 0x20_0000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80)) + varint(value >> 21)


def read_string_length(data: Any, position: int, name: str) -> tuple[int, int]:
    """Reads the length, plus one, of a compact string."""
    value, position = read_varint(data, position)
    if value > STRING_MAX_BYTES + 1:
        raise ProtocolError(f"{name} is a string of {value - 1} bytes, more than {STRING_MAX_BYTES}")
    return value, position


def check_string_length(length: int, name: str) -> None:
    """Refuses to write a string that no peer would read."""
    if length > STRING_MAX_BYTES:
        raise ProtocolError(f"{name} is a string of {length} bytes, more than {STRING_MAX_BYTES}")


def shortened(text: bytes) -> bytes:
    """A sentence for people, cut to what a string holds. It may quote a name that is as long as a string may be."""
    return text[: STRING_MAX_BYTES - len(ELLIPSIS)].decode(errors="ignore").encode() + ELLIPSIS


def skip_tags(data: Any, position: int, end: int, count: int) -> int:
    """Skips tagged fields in a version that knows none. `count` is the first byte, just before `position`."""
    count, position = tag_count(data, position, end, count)
    for _ in range(count):
        _, position = read_varint(data, position)
        size_bytes, position = read_varint(data, position)
        position += size_bytes
    return position


def tag_count(data: Any, position: int, end: int, count: int) -> tuple[int, int]:
    """The number of tagged fields, whose first byte is already read, and the position of the first field."""
    if count > 0x7F:
        count, position = read_varint(data, position - 1)
    if count > TAGGED_FIELDS_MAX or count * 2 > end - position:
        raise ProtocolError(f"{count} tagged fields announced, {end - position} bytes left, limit {TAGGED_FIELDS_MAX}")
    return count, position


UUIDS: dict[bytes, UUID] = {ZERO_UUID.bytes: ZERO_UUID}
"""Ids seen lately, so that equal ids are mostly one object (`UUID.__eq__` and its constructor are slow)."""


def new_uuid(data: bytes) -> UUID:
    """Creates an id and adds it to the cache. A full cache is emptied first."""
    value = UUID.__new__(UUID)
    object.__setattr__(value, "int", int.from_bytes(data, "big"))
    object.__setattr__(value, "is_safe", SafeUUID.unknown)
    if len(UUIDS) >= UUID_CACHE_MAX:
        UUIDS.clear()
        UUIDS[ZERO_UUID.bytes] = ZERO_UUID
    UUIDS[data] = value
    return value


def chunk_length(chunk: Chunk) -> int:
    """Bytes of one chunk, which is a buffer or says its length."""
    length = getattr(chunk, "length", None)
    if length is None:
        return chunk.nbytes if isinstance(chunk, memoryview) else len(chunk)  # type: ignore[arg-type]
    assert isinstance(length, int)
    return length


def joined(chunks: Iterable[Chunk]) -> bytes:
    """The bytes of chunks. Raises TypeError if one is a range of a file."""
    return b"".join(chunks)  # type: ignore[arg-type]  # the TypeError is join's own


def records_length(records: Records) -> int:
    """Bytes of a records field."""
    if isinstance(records, bytes | bytearray | memoryview):
        return chunk_length(records)
    return sum(map(chunk_length, records))


def put_records(chunks: list[Chunk], out: list[Buffer], records: Records, length: int) -> None:
    """Adds record bytes, uncopied unless they are few, after what is in `out`."""
    is_buffer = isinstance(records, bytes | bytearray | memoryview)
    if is_buffer and length <= JOINED_RECORDS_MAX_BYTES:
        out.append(records)  # type: ignore[arg-type]
        return
    chunks.append(b"".join(out))
    out.clear()
    if is_buffer:
        chunks.append(records)  # type: ignore[arg-type]
    else:
        chunks.extend(records)  # type: ignore[arg-type]


def null_field(name: str) -> ProtocolError:
    return ProtocolError(f"{name} is null, which it may not be in this version")


def negative_length(name: str, length: int) -> ProtocolError:
    return null_field(name) if length == -1 else ProtocolError(f"{name} has length {length}")


def too_many(name: str, count: int, left_bytes: int) -> ProtocolError:
    return ProtocolError(
        f"{name} announces {count} elements with {left_bytes} bytes left (limit {ARRAY_ELEMENTS_MAX} a message)"
    )


def wrong_tag_size(name: str, announced_bytes: int, read_bytes: int) -> ProtocolError:
    return ProtocolError(f"tagged field {name} announces {announced_bytes} bytes and has {read_bytes}")


def not_in_version(name: str, version: int) -> UnsupportedVersionError:
    return UnsupportedVersionError(f"{name} has a value that version {version} cannot carry")


COMMON: dict[str, Any] = {
    "ZERO_UUID": ZERO_UUID,
    "check_string_length": check_string_length,
    "negative_length": negative_length,
    "new": object.__new__,
    "new_uuid": new_uuid,
    "not_in_version": not_in_version,
    "null_field": null_field,
    "one": ONE_BYTE,
    "put_records": put_records,
    "read_string_length": read_string_length,
    "read_varint": read_varint,
    "records_length": records_length,
    "shortened": shortened,
    "skip_tags": skip_tags,
    "struct_pack": struct.pack,
    "struct_unpack_from": struct.unpack_from,
    "tag_count": tag_count,
    "too_many": too_many,
    "uuids": UUIDS,
    "varint": varint,
    "wrong_tag_size": wrong_tag_size,
    **{f"unpack_many_{code}": unpackers for code, unpackers in UNPACK_INTEGERS.items()},
    **{f"pack_many_{code}": packers for code, packers in PACK_INTEGERS.items()},
}
"""The globals of generated code, besides the classes and struct formats of the message."""
