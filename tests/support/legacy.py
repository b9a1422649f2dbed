"""Files of the formats of before Kafka 0.11, as their brokers left them.

For 0.8 to 0.10 the messages are made by kafka-python's or aiokafka's own encoders; what a broker of that time does to
them, absolute offsets inside wrappers of magic 0 and the offset and time of each wrapper, is done here, and for what
those encoders cannot write there is `message`. For 0.7 there is `message_07`, written from the description of the
format.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from pathlib import Path
from struct import pack, pack_into
from typing import Any, NamedTuple
from zlib import crc32

import aiokafka.record.legacy_records
import kafka.codec
import kafka.record.legacy_records

NONE, GZIP, SNAPPY, LZ4 = 0, 1, 2, 3
BATCH_BYTES = 1 << 30


class Kept(NamedTuple):
    """What is to come out of an old log."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


def message(
    offset: int,
    key: bytes | None,
    value: bytes | None,
    *,
    magic: int = 1,
    timestamp_ms: int = -1,
    attributes: int = 0,
) -> bytes:
    """One message of Kafka 0.8 to 0.10."""
    time = pack(">q", timestamp_ms) if magic else b""
    body = b"".join((pack(">bb", magic, attributes), time, sized(key), sized(value)))
    return pack(">qiI", offset, len(body) + 4, crc32(body)) + body


def sized(data: bytes | None) -> bytes:
    return pack(">i", -1) if data is None else pack(">i", len(data)) + data


def message_set(library: str, magic: int, codec: int, records: Sequence[Kept], *, absolute: bool = False) -> bytes:
    """Messages as a client's library writes them and a broker leaves them; with a codec, in one wrapper.

    `absolute`: as brokers of 0.8 and 0.9 did, the offsets inside are the records' own; else they count from 0.
    """
    builder: Any = {
        "kafka-python": kafka.record.legacy_records.LegacyRecordBatchBuilder,
        "aiokafka": aiokafka.record.legacy_records.LegacyRecordBatchBuilder,
    }[library](magic, codec, BATCH_BYTES)
    for number, record in enumerate(records):
        offset = record.offset if absolute or not codec else number
        assert builder.append(offset, timestamp=record.timestamp_ms, key=record.key, value=record.value, headers=[])
    data = bytearray(builder.build())
    if codec:
        pack_into(">q", data, 0, records[-1].offset)
        if magic:
            pack_into(">q", data, 18, max(record.timestamp_ms for record in records))
            pack_into(">I", data, 12, crc32(data[16:]))
    return bytes(data)


def message_07(payload: bytes, *, magic: int = 1, attributes: int = 0) -> bytes:
    """One message of Kafka 0.7; magic 0 has no attributes."""
    head = pack(">bb", 1, attributes) if magic else pack(">b", 0)
    body = head + pack(">I", crc32(payload)) + payload
    return pack(">i", len(body)) + body


def wrapper_07(payloads: Iterable[bytes], codec: int = GZIP) -> bytes:
    """A compressed message of Kafka 0.7."""
    inside = b"".join(message_07(payload) for payload in payloads)
    return message_07(compressed(codec, inside), attributes=codec)


def compressed(codec: int, data: bytes) -> bytes:
    """As clients did it; lz4 with a right checksum."""
    if codec == GZIP:
        return gzip.compress(data, mtime=0)
    encode: Any = {SNAPPY: kafka.codec.snappy_encode, LZ4: kafka.codec.lz4_encode}[codec]
    return bytes(encode(data))


def write_log(directory: Path, segments: Iterable[tuple[int, bytes]], suffix: str = ".log") -> Path:
    """A partition's directory with these files, by their base offsets."""
    directory.mkdir(parents=True)
    for base, data in segments:
        (directory / f"{base:020d}{suffix}").write_bytes(data)
    return directory
