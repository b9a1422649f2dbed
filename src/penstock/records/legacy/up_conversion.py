"""A message of format 0 or 1 as a record batch: what stays of it after compaction, and what readers of batches get.

It keeps its offsets, its times, who set them, and its compression. There is no leader epoch and no producer, and the
time is -1 where the old format had none. Source: KIP-724, and `MemoryRecords.filterTo` of Apache Kafka 4.3.
"""

from __future__ import annotations

from penstock.errors import InvalidRecordError
from penstock.records.batch import (
    HEADER_BYTES,
    OLD_HEADER_BYTES,
    BatchHeader,
    Buffer,
    check_crc,
    entries,
    read_old_header,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Contexts
from penstock.records.limits import DECOMPRESSED_BATCH_MAX_BYTES
from penstock.records.reader import bounded, counted, old_records

GROWTH_BYTES = HEADER_BYTES + 32 - OLD_HEADER_BYTES
"""By so much a message grows at most, unless it is compressed worse than before: the numbers of a record take up to
32."""
TIME_SPAN_MAX_MS = 2**63 - 1


def converted(
    view: Buffer, header: BatchHeader, position: int, contexts: Contexts, unpacked_max_bytes: int
) -> bytearray:
    """The message at `position` as a batch. Its checksum is not looked at.

    Raises CorruptRecordError or InvalidRecordError for a message of which the records cannot be read, or unpack to more
    than `unpacked_max_bytes`.
    """
    decompress = bounded(contexts, unpacked_max_bytes)
    complete = counted(view, header, position, decompress)
    builder = BatchBuilder(
        base_offset=complete.base_offset,
        codec=header.compression,
        timestamp_type=header.timestamp_type,
        log_append_time_ms=header.max_timestamp_ms,
        contexts=contexts,
    )
    first_ms = None
    for record in old_records(view, header, position, decompress):
        first_ms = record.timestamp_ms if first_ms is None else first_ms
        if abs(record.timestamp_ms - first_ms) > TIME_SPAN_MAX_MS:
            raise InvalidRecordError(f"the times {first_ms} and {record.timestamp_ms} are too far apart for one batch")
        builder.append(record.timestamp_ms, record.key, record.value, offset=record.offset)
    return builder.build(last_offset=complete.last_offset)


def as_batches(records: memoryview) -> memoryview:
    """What a fetch has given, each whole message of format 0 or 1 made a batch: the same view if it begins with none.

    Raises CorruptRecordError or InvalidRecordError for a message that is damaged.
    """
    if read_old_header(records) is None:
        return records
    contexts = Contexts()
    made = bytearray()
    for position, header in entries(records):
        if header.is_old:
            check_crc(records, position, header)
            made += converted(records, header, position, contexts, DECOMPRESSED_BATCH_MAX_BYTES)
        else:
            made += records[position : position + header.size_bytes]
    return memoryview(made)
