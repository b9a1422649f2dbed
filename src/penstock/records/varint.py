"""Zig-zag variable-length integers as records use them: small magnitudes take few bytes, seven bits each.

Source: `ByteUtils` of Apache Kafka 4.3. Like there, the bits of a fifth (or tenth) byte that do not fit are
dropped, and a number which goes on after it is an error.
"""

from __future__ import annotations

from functools import lru_cache

from penstock.errors import InvalidRecordError

Buffer = bytes | bytearray | memoryview
REMEMBERED_VARINTS_MAX = 4096
"""Numbers whose bytes are remembered: the lengths and offsets of records are the same ones again and again."""


def size_of_varint(value: int) -> int:
    """Bytes that `write_varint` appends for a number of 32 or 64 bits."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return max(1, (zigzag.bit_length() + 6) // 7)


def write_varint(out: bytearray, value: int) -> None:
    """Appends a signed number of 32 or 64 bits."""
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    while zigzag > 0x7F:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)


@lru_cache(REMEMBERED_VARINTS_MAX)
def varint(value: int) -> bytes:
    """The bytes of a signed number of 32 or 64 bits."""
    out = bytearray()
    write_varint(out, value)
    return bytes(out)


def read_varint(view: Buffer, position: int) -> tuple[int, int]:
    """The 32-bit number at `position`, and the position after it. Raises InvalidRecordError, also beyond the end."""
    return read(view, position, 32)


def read_varlong(view: Buffer, position: int) -> tuple[int, int]:
    """The 64-bit number at `position`, and the position after it. Raises InvalidRecordError, also beyond the end."""
    return read(view, position, 64)


def read(view: Buffer, position: int, bits: int) -> tuple[int, int]:
    try:
        byte = view[position]
        if byte < 0x80:
            return byte >> 1 ^ -(byte & 1), position + 1
        raw = byte & 0x7F
        for shift in range(7, bits, 7):
            position += 1
            byte = view[position]
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                raw &= (1 << bits) - 1
                return raw >> 1 ^ -(raw & 1), position + 1
    except IndexError:
        raise InvalidRecordError("a variable-length integer goes beyond the end of the batch") from None
    raise InvalidRecordError(f"a variable-length integer of {bits} bits does not end")
