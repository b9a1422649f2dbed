"""What a mirror takes of a fetch: record batches, fit to be sent as those of another producer.

A batch that can be taken as it is, compressed as it is, gets another header and no more, which costs no decoding. Three
kinds are written anew, record by record:

- where compaction left gaps (a producer's batch may have none), or the cleaner noted a delete horizon;
- where the time is the append time: the records get it as their own, so that it stays;
- where only a part of the batch is wanted.

Tombstones and empty keys are records like others. Transaction markers and what was aborted are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.records.batch import (
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    TimestampType,
    check_crc,
    entries,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Contexts
from penstock.records.isolation import AbortedTransactions
from penstock.records.reader import bounded, records


class Taken(NamedTuple):
    """A batch for the other cluster, and how many records it has."""

    batch: bytearray
    records: int


def as_produced(view: memoryview, header: BatchHeader, position: int) -> bytearray:
    """A whole batch as its producer would have sent it: no offset, no epochs, no transaction.

    Its CRC is written when it is stamped as that of a producer, so it must have been checked before.
    """
    batch = bytearray(view[position : position + header.size_bytes])
    HEADER.pack_into(
        batch, 0, 0, header.size_bytes - LOG_OVERHEAD_BYTES, NO_LEADER_EPOCH, header.magic, 0,
        header.attributes & ~TRANSACTIONAL_FLAG, header.last_offset_delta,
        header.base_timestamp_ms, header.max_timestamp_ms,
        NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE, header.record_count,
    )  # fmt: skip
    assert len(batch) > HEADER_BYTES
    return batch


def taken(view: memoryview, start: int, aborted: AbortedTransactions) -> Iterator[Taken]:
    """The batches of a fetch that hold records from offset `start` on, fit to be produced.

    Raises CorruptRecordError, InvalidRecordError for a batch that is broken: it is not passed on.
    """
    decompress = bounded(Contexts())
    for position, header in entries(view):
        check_crc(view, position, header)  # first, for each of these questions is about the header
        if aborted(view, position, header) or header.is_control or header.next_offset <= start:
            continue
        if not header.record_count:  # emptied by the cleaner, kept for its producer's state
            continue
        dense = header.record_count == header.last_offset_delta + 1
        own_time = header.timestamp_type is TimestampType.CREATE_TIME
        if dense and own_time and header.base_offset >= start and not header.attributes & DELETE_HORIZON_FLAG:
            yield Taken(as_produced(view, header, position), header.record_count)
            continue
        builder = BatchBuilder(codec=header.compression)
        for record in records(view, header, position, decompress):
            if record.offset >= start:
                builder.append(record.timestamp_ms, record.key, record.value, record.headers)
        if builder.record_count:
            yield Taken(builder.build(), builder.record_count)
