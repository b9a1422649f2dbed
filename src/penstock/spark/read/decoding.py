"""Decodes what was fetched of a range, and says exactly where it is broken if it is.

A broker that validates headers only takes a batch whose records are broken, if its CRC is right; disks add batches
whose CRC is wrong. `to_arrow` refuses the whole run then. Here the run is gone through again batch by batch: the good
ones are given, and the broken one is an error that names its offsets, or, if the reader chose so, a gap with the
reason "corrupt". This costs nothing as long as nothing is broken.

What brokers of before Kafka 0.11 left in a log is made batches first; there a broken message is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from penstock.client.client import READ_COMMITTED
from penstock.errors import CorruptRecordError, ErrorCode, InvalidRecordError, PenstockError
from penstock.records.arrow import to_arrow
from penstock.records.arrow_schema import Decoded
from penstock.records.batch import BatchHeader, headers
from penstock.records.isolation import AbortedTransactions
from penstock.records.legacy.up_conversion import as_batches
from penstock.records.run import Isolation
from penstock.spark.limits import SPARK_RUN_BYTES
from penstock.spark.read.plan import OffsetRange

BROKEN = (CorruptRecordError, InvalidRecordError)
REMEDY = (
    "read around it by offsets, or let `penstock load --skip-corrupt` leave it out and record the gap; "
    "penstock.produce.validation=deep on the brokers refuses such batches from producers"
)


class CorruptBatchError(PenstockError):
    """A batch that cannot be decoded: which topic, partition and offsets, why, and what can be done."""

    code = ErrorCode.CORRUPT_MESSAGE


class Corrupt(NamedTuple):
    """Offsets [start, end) of a broken batch that was left out."""

    start: int
    end: int


def runs(
    wanted: OffsetRange,
    position: int,
    fetched: Any,
    *,
    isolation: int,
    skip_corrupt: bool,
    include_headers: bool = True,
) -> Iterator[Decoded | Corrupt]:
    """The records of one fetch, as Arrow columns, in order.

    Args:
        wanted: the range that is read; offsets beyond its end are left out.
        position: the offset that the fetch asked for; offsets before it are left out.
        fetched: the client's answer.
        isolation: READ_COMMITTED hides the batches that the answer lists as aborted.
        skip_corrupt: whether a broken batch becomes a `Corrupt` instead of an error.
        include_headers: whether to make the headers column.

    Raises CorruptBatchError.
    """
    fetched = in_batches(wanted, position, fetched)
    start, records = position, fetched.records
    aborted = _isolation(fetched, isolation)
    while len(records):
        try:
            got = _decode(records, start, wanted.end, aborted, include_headers)
        except BROKEN:
            yield from _batch_by_batch(
                wanted, start, fetched, isolation=isolation, skip_corrupt=skip_corrupt, include_headers=include_headers
            )
            return
        yield got
        start, records = got.next_offset, records[got.consumed_bytes :]
        if not got.consumed_bytes or start >= wanted.end:
            return


def in_batches(wanted: OffsetRange, position: int, fetched: Any) -> Any:
    """The same answer without messages of the formats 0 and 1. Raises CorruptBatchError for one that is broken."""
    try:
        records = as_batches(fetched.records)
    except BROKEN as error:
        where = f"{wanted.topic}-{wanted.partition}: a message of format 0 or 1 at or after offset {position}"
        raise CorruptBatchError(f"{where} is broken ({error})\n  read around it by offsets") from error
    return fetched if records is fetched.records else replace(fetched, records=records)


def _batch_by_batch(
    wanted: OffsetRange, position: int, fetched: Any, *, isolation: int, skip_corrupt: bool, include_headers: bool
) -> Iterator[Decoded | Corrupt]:
    """As `runs`, a batch at a time from `position` on. Isolation begins anew: it must be told of every batch once."""
    aborted = _isolation(fetched, isolation)
    previous_end = 0
    for at, header in _headers(wanted, position, fetched.records):
        batch = fetched.records[at : at + header.size_bytes]
        if header.last_offset < header.base_offset or header.base_offset < previous_end:
            why = f"a batch claims the offsets {header.base_offset} to {header.last_offset} after {previous_end - 1}"
            raise broken_header(wanted, position, CorruptRecordError(why))
        previous_end = header.next_offset
        if header.next_offset <= position or header.base_offset >= wanted.end:
            if aborted is not None:
                aborted(fetched.records, at, header)
            continue
        try:
            yield (got := _decode(batch, position, wanted.end, aborted, include_headers))
            position = max(position, got.next_offset)
        except BROKEN as error:
            low, high = max(header.base_offset, position), min(header.next_offset, wanted.end)
            if not skip_corrupt:
                raise _error(wanted, low, high - 1, str(error)) from error
            if low > position:  # what compaction or deletion left out before it
                yield _nothing(position, low, include_headers)
            yield Corrupt(low, high)
            position = high


def _headers(wanted: OffsetRange, position: int, records: Any) -> Iterator[tuple[int, BatchHeader]]:
    """The headers of a fetch. Raises CorruptBatchError for bytes that are no batch: what follows cannot be found."""
    walk = headers(records)
    while True:
        try:
            yield next(walk)
        except StopIteration:
            return
        except BROKEN as error:
            raise broken_header(wanted, position, error) from error


def broken_header(wanted: OffsetRange, position: int, error: Exception) -> CorruptBatchError:
    """The error for bytes at or after offset `position` that are no batch: where the next one begins is unknown."""
    where = f"{wanted.topic}-{wanted.partition}: what follows offset {position} cannot be read"
    return CorruptBatchError(
        f"{where} ({error})\n  it cannot be skipped either, for its length is unknown; read this partition from an "
        "offset after it, and have the broker's disk checked: penstock log dump"
    )


def _decode(records: Any, start: int, end: int, isolation: Isolation | None, include_headers: bool) -> Decoded:
    return to_arrow(
        records,
        start_offset=start,
        end_offset=end,
        isolation=isolation,
        include_headers=include_headers,
        limit_bytes=SPARK_RUN_BYTES,
    )


def _nothing(start: int, end: int, include_headers: bool) -> Decoded:
    """No record in [start, end), and not because something is broken."""
    import numpy as np

    return Decoded(
        _decode(b"", start, end, None, include_headers).batch, end, 0, (), np.array([[start, end - 1]], np.int64)
    )


def _isolation(fetched: Any, isolation: int) -> AbortedTransactions | None:
    return AbortedTransactions(fetched.aborted) if isolation == READ_COMMITTED else None


def _error(wanted: OffsetRange, first: int, last: int, why: str) -> CorruptBatchError:
    offsets = f"offset {first}" if first == last else f"offsets {first} to {last}"
    return CorruptBatchError(f"{wanted.topic}-{wanted.partition}: the batch at {offsets} is broken ({why})\n  {REMEDY}")
