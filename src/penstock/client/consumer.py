"""Reading records of several partitions of a topic, one by one, from given positions: no group, no committed offsets.

    async for partition, record in read_records(client, "clicks", {0: 0, 1: 0}, ends={0: 10, 1: 7}): ...

With `ends` the reading stops there; without, it waits for more for ever. `read_range` in client.reader is for those
who want whole batches of one partition.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping

from penstock.client.client import READ_COMMITTED, READ_UNCOMMITTED, Client, Fetched
from penstock.client.limits import CLIENT_FETCH_BYTES
from penstock.records.batch import BatchHeader, check_crc, entries
from penstock.records.compression import Contexts
from penstock.records.isolation import AbortedTransactions
from penstock.records.reader import Decompress, Record, bounded, records

WAIT_MS = 500


async def read_records(
    client: Client,
    topic: str,
    positions: Mapping[int, int],
    *,
    ends: Mapping[int, int] | None = None,
    isolation: int = READ_UNCOMMITTED,
    fetch_bytes: int = CLIENT_FETCH_BYTES,
) -> AsyncGenerator[tuple[int, Record], None]:
    """Yields (partition, record), in order within each partition.

    Args:
        positions: the offset to begin at, by partition.
        ends: the offset to stop before, by partition; None to wait for more.
        isolation: READ_COMMITTED passes over what was aborted and stops at open transactions.

    Raises:
        RequestError: OFFSET_OUT_OF_RANGE, when the broker has a position no more.
        CorruptRecordError, InvalidRecordError: bytes that are no records.
    """
    at = dict(positions)
    decompress = bounded(Contexts())
    while True:
        wanted = {(topic, p): offset for p, offset in at.items() if ends is None or offset < ends[p]}
        if not wanted:
            return
        fetched = await client.fetch(wanted, max_wait_ms=WAIT_MS, partition_max_bytes=fetch_bytes, isolation=isolation)
        for (_, partition), answer in sorted(fetched.items()):
            end = None if ends is None else ends[partition]
            for position, header in user_batches(answer, isolation, decompress):
                if at[partition] >= header.next_offset:
                    continue
                if position is not None:
                    for record in records(answer.records, header, position, decompress):
                        if record.offset >= at[partition] and (end is None or record.offset < end):
                            yield partition, record
                at[partition] = header.next_offset


def user_batches(answer: Fetched, isolation: int, decompress: Decompress) -> Iterator[tuple[int | None, BatchHeader]]:
    """Position and header of each whole batch; the position is None where a reader has nothing to see.

    That is so for control batches, and with READ_COMMITTED for those of aborted transactions.
    """
    is_aborted = AbortedTransactions(answer.aborted, decompress)
    for position, header in entries(answer.records):
        check_crc(answer.records, position, header)
        hidden = header.is_control
        if isolation == READ_COMMITTED:
            hidden |= is_aborted(answer.records, position, header)
        yield None if hidden else position, header
