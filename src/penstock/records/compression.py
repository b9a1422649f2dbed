"""How record batches are compressed: none, gzip, snappy, lz4 and zstd, both ways, with the output bounded.

Compressed bytes are hostile: a few of them may claim or become gigabytes. So every decompression streams up to
`limit_bytes` and stops there; nothing is allocated by a size that the bytes claim beyond that limit. Broken input
raises CorruptRecordError, too much output RecordsTooLargeError, and nothing else comes out.

zstd and lz4 keep state between calls in a `Contexts`, which the caller makes once a thread and passes in: these
contexts must never be used by two threads at a time. The libraries are imported at first use.

Source: `org.apache.kafka.common.compress` of Apache Kafka 4.3 for the framings.
"""

from __future__ import annotations

from enum import IntEnum


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
