"""How the old formats compress: gzip, snappy and lz4, with what their clients got wrong.

Until Kafka 0.10 the lz4 frames in messages of magic 0 have a wrong header checksum: it was computed from the frame's
magic number on, not after it (KAFKA-3160). Here it is replaced by the right one, whatever it was: the message's own
CRC covers the frame. Linked blocks, which some clients wrote, are read too, for the records are written anew. Output is
bounded as in `records.compression`.
"""

from __future__ import annotations

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.records.compression import LZ4_MAGIC, Codec, Contexts, decompress, decompress_lz4_frame

LEGACY_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)

LZ4_CONTENT_SIZE_FLAG, LZ4_DICTIONARY_FLAG = 0x08, 0x01
LZ4_FLAGS_POSITION = 4
LZ4_SHORT_DESCRIPTOR_BYTES = 2

WORD = 0xFFFFFFFF
PRIME_1, PRIME_2, PRIME_3, PRIME_4, PRIME_5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
XXH32_SHORT_BYTES = 16


def decompress_legacy(codec: int, data: bytes, magic: int, limit_bytes: int, contexts: Contexts) -> bytes | memoryview:
    """What a wrapper's value unpacks to.

    Raises InvalidRecordError for a codec that the old formats do not have, or more than `limit_bytes`,
    CorruptRecordError for bytes that the codec cannot read.
    """
    if not 0 < codec < len(LEGACY_CODECS):
        raise InvalidRecordError(f"unknown compression type {codec}")
    if codec != Codec.LZ4:
        unpacked = decompress(LEGACY_CODECS[codec], data, limit_bytes, contexts)
    else:
        frame = with_right_checksum(data) if magic == 0 else data
        unpacked = decompress_lz4_frame(memoryview(frame), limit_bytes, contexts)
    return bytes(unpacked) if isinstance(unpacked, bytearray) else unpacked


def with_right_checksum(frame: bytes) -> bytes:
    """An lz4 frame whose header checksum is right. Raises CorruptRecordError when no frame begins there."""
    if len(frame) <= LZ4_FLAGS_POSITION or frame[:4] != LZ4_MAGIC:
        raise CorruptRecordError("broken lz4 data: no frame")
    flags = frame[LZ4_FLAGS_POSITION]
    length = LZ4_SHORT_DESCRIPTOR_BYTES + (8 if flags & LZ4_CONTENT_SIZE_FLAG else 0)
    length += 4 if flags & LZ4_DICTIONARY_FLAG else 0
    end = LZ4_FLAGS_POSITION + length
    if len(frame) <= end:
        raise CorruptRecordError("broken lz4 data: cut off in the header")
    checksum = xxh32_short(frame[LZ4_FLAGS_POSITION:end]) >> 8 & 0xFF
    return b"".join((frame[:end], bytes((checksum,)), frame[end + 1 :]))


def xxh32_short(data: bytes) -> int:
    """XXH32 with seed 0 of fewer than 16 bytes: as many as an lz4 frame's descriptor has at most."""
    assert len(data) < XXH32_SHORT_BYTES
    total = PRIME_5 + len(data)
    whole = len(data) // 4 * 4
    for at in range(0, whole, 4):
        total = total + int.from_bytes(data[at : at + 4], "little") * PRIME_3 & WORD
        total = rotated(total, 17) * PRIME_4 & WORD
    for byte in data[whole:]:
        total = total + byte * PRIME_5 & WORD
        total = rotated(total, 11) * PRIME_1 & WORD
    total = (total ^ total >> 15) * PRIME_2 & WORD
    total = (total ^ total >> 13) * PRIME_3 & WORD
    return total ^ total >> 16


def rotated(word: int, bits: int) -> int:
    return (word << bits | word >> 32 - bits) & WORD
