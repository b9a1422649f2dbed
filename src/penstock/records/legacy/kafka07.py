"""The format of Kafka 0.7: length 4 | magic 1 | [attributes 1, magic 1 only] | CRC-32 4 | payload.

`length` counts what follows it, the CRC covers the payload. There are no keys, no timestamps and no offsets: a message
is known by its position in the log, the files of which are named by theirs. The attributes of magic 1, which no
checksum covers, say in two bits with which codec the payload, a sequence of messages itself, is compressed. Source: the
documentation of Kafka 0.7 and 0.8, "Message format" and "Log".
"""

from __future__ import annotations

import re
from struct import Struct
from zlib import crc32

from penstock.records.legacy.formats import NO_OFFSET, Buffer, Entry
from penstock.records.limits import LEGACY_MESSAGE_MAX_BYTES

LENGTH_AND_MAGIC = Struct(">ib")
CRC = Struct(">I")
LENGTH_BYTES = 4
CODEC_MASK = 0x03
OVERHEADS = (5, 6)
"""Of what `length` counts, by magic."""


class Kafka07:
    """See the module's head."""

    HEADER_BYTES = LENGTH_AND_MAGIC.size
    CANDIDATE = re.compile(rb"(?=(?!\x00\x00\x00[\x00-\x04])[\x00-\x07]...[\x00\x01])", re.DOTALL)

    def size_at(self, view: Buffer, position: int) -> int:
        length, magic = LENGTH_AND_MAGIC.unpack_from(view, position)
        if magic not in (0, 1) or not OVERHEADS[magic] <= length <= LEGACY_MESSAGE_MAX_BYTES - LENGTH_BYTES:
            return 0
        return LENGTH_BYTES + int(length)

    def is_intact(self, view: Buffer, position: int, size_bytes: int) -> bool:
        start = self._payload(view, position)
        (crc,) = CRC.unpack_from(view, start - CRC.size)
        return bool(crc32(view[start : position + size_bytes]) == crc)

    def entry(self, view: Buffer, position: int, size_bytes: int) -> Entry:
        magic = view[position + LENGTH_BYTES]
        codec = view[position + LENGTH_BYTES + 1] & CODEC_MASK if magic else 0
        return Entry(NO_OFFSET, magic, codec, value=bytes(view[self._payload(view, position) : position + size_bytes]))

    @staticmethod
    def _payload(view: Buffer, position: int) -> int:
        return position + LENGTH_BYTES + OVERHEADS[view[position + LENGTH_BYTES]]


KAFKA_07 = Kafka07()
