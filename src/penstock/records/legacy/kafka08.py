"""The format of Kafka 0.8 to 0.10, as it is on their disks.

    offset 8 | size 4 | CRC-32 4 | magic 1 | attributes 1 | [timestamp 8, magic 1 only] | key length 4 | key
    | value length 4 | value

`size` counts what follows it, the CRC covers what follows the CRC: neither offset nor size. A length of -1 is null. The
lowest three bits of the attributes are the codec that the value, a sequence of messages itself, is compressed with; bit
3 says that the broker set the timestamp. Source: the documentation of Kafka 0.8 and 0.10.2, "Message format"; KIP-32.
"""

from __future__ import annotations

import re
from struct import Struct
from zlib import crc32

from penstock.errors import CorruptRecordError
from penstock.records.batch import LOG_APPEND_TIME_FLAG, LOG_OVERHEAD_BYTES, NO_TIMESTAMP
from penstock.records.legacy.formats import CODEC_MASK, Buffer, Entry
from penstock.records.limits import LEGACY_MESSAGE_MAX_BYTES

HEAD = Struct(">qiIbb")
HEAD_TO_MAGIC = Struct(">qiIb")
TIMESTAMP = Struct(">q")
LENGTH = Struct(">i")
MAGIC_POSITION = 16
LEAST_SIZES = (14, 22)
"""Of what `size` counts, by magic: both lengths are there."""


class Kafka08:
    """See the module's head."""

    HEADER_BYTES = HEAD_TO_MAGIC.size
    CANDIDATE = re.compile(rb"(?=[\x00-\x7f].{7}(?!\x00\x00\x00[\x00-\x0d])[\x00-\x07].{7}[\x00\x01])", re.DOTALL)

    def size_at(self, view: Buffer, position: int) -> int:
        offset, size, _, magic = HEAD_TO_MAGIC.unpack_from(view, position)
        if magic not in (0, 1) or offset < 0:
            return 0
        if not LEAST_SIZES[magic] <= size <= LEGACY_MESSAGE_MAX_BYTES - LOG_OVERHEAD_BYTES:
            return 0
        return LOG_OVERHEAD_BYTES + int(size)

    def is_intact(self, view: Buffer, position: int, size_bytes: int) -> bool:
        _, _, crc, _ = HEAD_TO_MAGIC.unpack_from(view, position)
        return bool(crc32(view[position + MAGIC_POSITION : position + size_bytes]) == crc)

    def entry(self, view: Buffer, position: int, size_bytes: int) -> Entry:
        offset, _, _, magic, attributes = HEAD.unpack_from(view, position)
        at, end = position + HEAD.size, position + size_bytes
        timestamp_ms = NO_TIMESTAMP
        if magic:
            (timestamp_ms,) = TIMESTAMP.unpack_from(view, at)
            at += TIMESTAMP.size
        key, at = field(view, at, end - LENGTH.size)
        value, at = field(view, at, end)
        if at != end:
            raise CorruptRecordError(f"{end - at} bytes follow the value")
        return Entry(
            offset,
            magic,
            attributes & CODEC_MASK,
            timestamp_ms,
            bool(magic and attributes & LOG_APPEND_TIME_FLAG),
            key,
            value,
        )


def field(view: Buffer, position: int, end: int) -> tuple[bytes | None, int]:
    """The bytes after their length, or None for null, and the position after them."""
    (length,) = LENGTH.unpack_from(view, position)
    position += LENGTH.size
    if length < 0:
        return None, position
    if length > end - position:
        raise CorruptRecordError(f"a key or value of {length} bytes where {end - position} are left")
    return bytes(view[position : position + length]), position + int(length)


KAFKA_08 = Kafka08()
