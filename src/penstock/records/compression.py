"""How record batches are compressed: none, gzip, snappy, lz4 and zstd, both ways, with the output bounded.

Compressed bytes are hostile: a few of them may claim or become gigabytes. So every decompression stops at
`limit_bytes`, and what is allocated is bounded by the input's size and by what really came out, never by a size that
the bytes claim. Broken input raises CorruptRecordError, too much output DecompressionLimitError, and nothing else
comes out.

zstd and lz4 keep state between calls in a `Contexts`, which the caller makes once a thread and passes in: two threads
must never use one at a time. The libraries are imported at first use.

Framings, as Apache Kafka 4.3 writes and reads them (`org.apache.kafka.common.compress`):

- gzip: one member is written; further members are read, other bytes after the last are ignored.
- snappy: xerial's framing (a header of 16 bytes, then blocks of 32 KiB, each after its length) is written; one raw
  block, as librdkafka sends it, is read as well.
- lz4: a frame of independent 64 KiB blocks without content size. Linked blocks are refused, as Kafka refuses them.
- zstd: frames with or without content size.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from enum import IntEnum
from importlib import import_module
from struct import Struct
from struct import error as struct_error
from typing import Any

from penstock.errors import CorruptRecordError, InvalidRecordError

Buffer = bytes | bytearray | memoryview


class Codec(IntEnum):
    """The compression type in a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def kafka_name(self) -> str:
        """The value of `compression.type` that asks for it."""
        return self.name.lower()


CODECS = tuple(Codec)

FIRST_CHUNK_BYTES = 64 * 1024
MAX_CHUNK_BYTES = 4 * 1024 * 1024

GZIP_START = b"\x1f\x8b\x08"
GZIP_WINDOW_BYTES = 256
"""What a member after the first is given at first, and twice as much each time that it needs more."""

XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_BYTES = 32 * 1024
SNAPPY_MAX_RATIO = 22
"""A snappy copy element makes at most 64 bytes of 3."""

LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_FLAGS = Struct("<IBB")
LZ4_VERSION_MASK, LZ4_VERSION, LZ4_INDEPENDENT_BLOCKS, LZ4_RESERVED_MASK = 0xC0, 0x40, 0x20, 0x03

ZSTD_MAGIC = 0xFD2FB528
ZSTD_SKIPPABLE_MASK, ZSTD_SKIPPABLE = 0xFFFFFFF0, 0x184D2A50
ZSTD_ONE_SHOT_RATIO = 64
"""A frame that claims no more than this many times its own size is decompressed into one allocation."""

INT = Struct(">i")
UNSIGNED_INT_LE = Struct("<I")


class DecompressionLimitError(InvalidRecordError):
    """A batch that decompresses to more bytes than the reader accepts."""


class Contexts:
    """The state that the codecs keep between calls. One a thread, never shared by two at a time."""

    __slots__ = ("_lz4", "_zstd", "_zstd_compressors")

    def __init__(self) -> None:
        self._lz4: Any = None
        self._zstd: Any = None
        self._zstd_compressors: dict[int, Any] = {}

    def zstd_decompressor(self) -> Any:
        if self._zstd is None:
            self._zstd = import_module("zstandard").ZstdDecompressor()
        return self._zstd

    def zstd_compressor(self, level: int) -> Any:
        if level not in self._zstd_compressors:
            self._zstd_compressors[level] = import_module("zstandard").ZstdCompressor(level=level)
        return self._zstd_compressors[level]

    def lz4_context(self) -> Any:
        """A decompression context at the start of a frame."""
        frame = import_module("lz4.frame")
        if self._lz4 is None:
            self._lz4 = frame.create_decompression_context()
        else:
            frame.reset_decompression_context(self._lz4)
        return self._lz4


def compress(codec: Codec, data: Buffer, contexts: Contexts, level: int | None = None) -> bytes:
    """`data` as the payload of a batch with that compression type.

    `level` is the topic's `compression.gzip.level`, `.lz4.level` or `.zstd.level`; None is the codec's default.
    """
    if codec is Codec.NONE:
        return bytes(data)
    if codec is Codec.GZIP:
        compressor = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec is Codec.SNAPPY:
        return compress_snappy(data)
    if codec is Codec.LZ4:
        return compress_lz4(data, level)
    compressed: bytes = contexts.zstd_compressor(3 if level is None else level).compress(data)
    return compressed


def compress_snappy(data: Buffer) -> bytes:
    snappy = import_module("cramjam").snappy
    parts = [XERIAL_HEADER]
    view = memoryview(data)
    for start in range(0, len(view), XERIAL_BLOCK_BYTES):
        block = bytes(snappy.compress_raw(view[start : start + XERIAL_BLOCK_BYTES]))
        parts += (INT.pack(len(block)), block)
    return b"".join(parts)


def compress_lz4(data: Buffer, level: int | None) -> bytes:
    """Kafka's default level, 9, means the fast compressor; any other level is one of lz4's high compression."""
    frame = import_module("lz4.frame")
    compressed: bytes = frame.compress(
        data,
        compression_level=0 if level in (None, 9) else level,
        block_size=frame.BLOCKSIZE_MAX64KB,
        block_linked=False,
        content_checksum=False,
        store_size=False,
    )
    return compressed


def decompress(codec: Codec, data: Buffer, limit_bytes: int, contexts: Contexts) -> Buffer:
    """Decompresses `data`, the payload of a batch with this compression type.

    Raises CorruptRecordError for bytes that the codec cannot read or that are cut off, DecompressionLimitError when
    more than `limit_bytes` would come out.
    """
    if codec is Codec.NONE:
        return data
    return DECOMPRESSORS[codec](memoryview(data), limit_bytes, contexts)


def decompress_gzip(data: memoryview, limit_bytes: int, _contexts: Contexts) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    position = 0
    window_bytes = len(data)  # nearly always there is one member
    while True:
        stream = zlib.decompressobj(31)
        while not stream.eof:
            window = data[position : position + window_bytes]
            try:
                part = stream.decompress(window, room + 1)  # zlib's own buffer grows with what comes out
            except zlib.error as error:
                raise broken(Codec.GZIP, error) from None
            room -= len(part)
            if room < 0:
                raise too_much(Codec.GZIP, limit_bytes)
            position += len(window) - len(stream.unused_data)
            parts.append(part)
            if not stream.eof and position == len(data):
                raise broken(Codec.GZIP, "cut off")
            window_bytes *= 2
        if data[position : position + 3] != GZIP_START:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        window_bytes = GZIP_WINDOW_BYTES  # each member copies what is left of its window


def decompress_snappy(data: memoryview, limit_bytes: int, _contexts: Contexts) -> bytes:
    cramjam = import_module("cramjam")
    snappy = cramjam.snappy
    parts: list[bytes] = []
    room = limit_bytes
    blocks = xerial_blocks(data) if data[:8] == XERIAL_MAGIC else iter((data,))
    for block in blocks:
        try:
            claimed = snappy.decompress_raw_len(block)
            if claimed > SNAPPY_MAX_RATIO * len(block):
                raise broken(Codec.SNAPPY, f"{len(block)} bytes claim to be {claimed}")
            room -= claimed
            if room < 0:
                raise too_much(Codec.SNAPPY, limit_bytes)
            parts.append(bytes(snappy.decompress_raw(block)))
        except cramjam.DecompressionError as error:
            raise broken(Codec.SNAPPY, error) from None
    return parts[0] if len(parts) == 1 else b"".join(parts)


def xerial_blocks(data: memoryview) -> Iterator[memoryview]:
    """The raw blocks of one or several xerial streams after each other."""
    position, end = 0, len(data)
    while position < end:
        if data[position : position + 8] == XERIAL_MAGIC:
            position += len(XERIAL_HEADER)
            if position > end:
                raise broken(Codec.SNAPPY, "cut off in the header")
            continue
        if end - position < INT.size:
            raise broken(Codec.SNAPPY, "cut off in a block length")
        (length,) = INT.unpack_from(data, position)
        position += INT.size
        if not 0 <= length <= end - position:
            raise broken(Codec.SNAPPY, f"a block of {length} bytes where {end - position} are left")
        yield data[position : position + length]
        position += length


def decompress_lz4(data: memoryview, limit_bytes: int, contexts: Contexts) -> bytes:
    check_lz4_flags(data)
    return decompress_lz4_frame(data, limit_bytes, contexts)


def decompress_lz4_frame(data: memoryview, limit_bytes: int, contexts: Contexts) -> bytes:
    """The content of a frame, its blocks linked or not."""
    frame = import_module("lz4.frame")
    context = contexts.lz4_context()
    parts: list[bytes] = []
    position, room = 0, limit_bytes
    chunk_bytes = max(FIRST_CHUNK_BYTES, min(4 * len(data), MAX_CHUNK_BYTES))
    while True:
        want = min(chunk_bytes, room + 1)
        try:
            part, consumed, ended = frame.decompress_chunk(context, data[position:], max_length=want)
        except RuntimeError as error:
            raise broken(Codec.LZ4, error) from None
        position += consumed
        room -= len(part)
        if room < 0:
            raise too_much(Codec.LZ4, limit_bytes)
        parts.append(part)
        if ended:
            return parts[0] if len(parts) == 1 else b"".join(parts)
        if not part and (not consumed or position >= len(data)):
            raise broken(Codec.LZ4, "cut off")
        chunk_bytes = min(2 * chunk_bytes, MAX_CHUNK_BYTES)


def check_lz4_flags(data: memoryview) -> None:
    """Refuses the frames that Kafka's reader refuses, so that what we accept every consumer can read."""
    if len(data) < 7 or data[:4] != LZ4_MAGIC:
        raise broken(Codec.LZ4, "no frame")
    _, flags, _ = LZ4_FLAGS.unpack_from(data)
    if flags & LZ4_VERSION_MASK != LZ4_VERSION or flags & LZ4_RESERVED_MASK:
        raise broken(Codec.LZ4, f"frame flags {flags:#04x} are not supported")
    if not flags & LZ4_INDEPENDENT_BLOCKS:
        raise broken(Codec.LZ4, "linked blocks are not supported")


def decompress_zstd(data: memoryview, limit_bytes: int, contexts: Contexts) -> bytes:
    zstandard = import_module("zstandard")
    try:
        check_zstd_frames(data)
        claimed = zstandard.frame_content_size(data)
        decompressor = contexts.zstd_decompressor()
        if 0 < claimed <= min(limit_bytes, ZSTD_ONE_SHOT_RATIO * len(data)) and one_zstd_frame(data):
            whole: bytes = decompressor.decompress(data, allow_extra_data=False)
            return whole
        reader = decompressor.stream_reader(data, read_across_frames=True)
        return read_zstd(reader, len(data), limit_bytes)
    except zstandard.ZstdError as error:
        raise broken(Codec.ZSTD, error) from None


def read_zstd(reader: Any, input_bytes: int, limit_bytes: int) -> bytes:
    parts: list[bytes] = []
    room = limit_bytes
    chunk_bytes = max(FIRST_CHUNK_BYTES, min(4 * input_bytes, MAX_CHUNK_BYTES))
    while part := reader.read(min(chunk_bytes, room + 1)):
        room -= len(part)
        if room < 0:
            raise too_much(Codec.ZSTD, limit_bytes)
        parts.append(part)
        chunk_bytes = min(2 * chunk_bytes, MAX_CHUNK_BYTES)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def one_zstd_frame(data: memoryview) -> bool:
    (magic,) = UNSIGNED_INT_LE.unpack_from(data)
    return bool(magic == ZSTD_MAGIC and zstd_frame_end(data, 0) == len(data))


def check_zstd_frames(data: memoryview) -> None:
    """Raises unless the bytes are whole frames to their end. The library's reader takes a cut-off frame for an end."""
    try:
        position = 0
        while position < len(data):
            position = zstd_frame_end(data, position)
    except (IndexError, struct_error):
        raise broken(Codec.ZSTD, "cut off") from None
    if position != len(data) or not position:
        raise broken(Codec.ZSTD, "cut off")


def zstd_frame_end(data: memoryview, position: int) -> int:
    """Position after the frame at `position`, from its block headers alone (RFC 8878, section 3.1.1)."""
    (magic,) = UNSIGNED_INT_LE.unpack_from(data, position)
    if magic & ZSTD_SKIPPABLE_MASK == ZSTD_SKIPPABLE:
        return int(position + 8 + UNSIGNED_INT_LE.unpack_from(data, position + 4)[0])
    if magic != ZSTD_MAGIC:
        raise broken(Codec.ZSTD, f"no frame at byte {position}")
    descriptor = data[position + 4]
    single_segment, has_checksum = descriptor >> 5 & 1, descriptor >> 2 & 1
    content_size_bytes = (single_segment, 2, 4, 8)[descriptor >> 6]
    dictionary_id_bytes = (0, 1, 2, 4)[descriptor & 3]
    position += 5 + (1 - single_segment) + dictionary_id_bytes + content_size_bytes
    while True:
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        is_last, kind, size_bytes = header & 1, header >> 1 & 3, header >> 3
        position += 3 + (1 if kind == 1 else size_bytes)  # 1: one byte, repeated size_bytes times
        if is_last:
            return position + 4 * has_checksum


def broken(codec: Codec, why: object) -> CorruptRecordError:
    return CorruptRecordError(f"broken {codec.kafka_name} data: {why}")


def too_much(codec: Codec, limit_bytes: int) -> DecompressionLimitError:
    return DecompressionLimitError(f"{codec.kafka_name} data decompresses to more than {limit_bytes} bytes")


DECOMPRESSORS = {
    Codec.GZIP: decompress_gzip,
    Codec.SNAPPY: decompress_snappy,
    Codec.LZ4: decompress_lz4,
    Codec.ZSTD: decompress_zstd,
}
