"""Topics as tables that DuckDB scans: as often as it likes, always the same records, no more of them than it needs.

A table is fixed when it is opened: the offsets of each partition from where it begins to the high watermark of that
moment (the last stable offset for committed records only). Each scan reads these ranges anew, so a self-join needs no
copy of the topic; DuckDB says which columns it wants and which filter holds, and what the filter excludes by partition,
offset or time is not fetched. DuckDB takes the table for an Arrow data set: `TopicTable` is one to `isinstance`, as
others do who bring a scanner of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from penstock.client.client import EARLIEST, LATEST, Client, Partition
from penstock.errors import PenstockError
from penstock.records.arrow_schema import Decoded
from penstock.spark.lake.records import RECORD_SCHEMA
from penstock.spark.limits import SPARK_ARROW_BATCH_ROWS
from penstock.spark.read.fetching import Connect, decoded, record_batch
from penstock.spark.read.plan import OffsetRange
from penstock.sql.bounds import TIME_MAX_US, Filter

COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers")
SCHEMA = pa.schema([RECORD_SCHEMA.field(name) for name in COLUMNS])
"""The official connector's columns, with headers."""


@dataclass(slots=True)
class Read:
    """What the scans of a query have read so far, and why the last one failed if it did."""

    records: int = 0
    scans: int = 0
    failure: PenstockError | None = None


@dataclass(frozen=True, slots=True)
class Opened:
    """A topic and the offsets of it that a table covers."""

    name: str
    ranges: tuple[OffsetRange, ...]

    def sample(self, records: int) -> Opened:
        """The first and the last offsets of each partition, about this many in total."""
        each_end = max(records // (2 * max(len(self.ranges), 1)), 1)
        pieces = []
        for whole in self.ranges:
            middle = min(whole.start + each_end, whole.end)
            bounds = ((whole.start, middle), (max(middle, whole.end - each_end), whole.end))
            pieces += [_cut(whole, *bound) for bound in bounds]
        return Opened(self.name, tuple(piece for piece in pieces if piece.size))


@dataclass(slots=True)
class Scan:
    """One scan, in the two attributes of a pyarrow Scanner that DuckDB uses."""

    projected_schema: Any
    batches: Iterator[Any] = field(repr=False)

    def to_reader(self) -> Any:
        """The batches as a RecordBatchReader; nothing is read before the first is asked for."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self.batches)


class TopicTable(ds.Dataset):  # type: ignore[misc]
    """A topic as an Arrow data set; see the module's head.

    Args:
        connect: how the records are reached.
        opened: what of the topic the table covers.
        read: is told what scans read.
        in_order: times never go back within a partition, so a filter's latest time ends the reading too.
    """

    def __init__(self, connect: Connect, opened: Opened, read: Read, *, in_order: bool = False) -> None:
        self._connect = connect
        self._opened = opened
        self._read = read
        self._in_order = in_order

    @property
    def schema(self) -> Any:
        return SCHEMA

    def scanner(self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any) -> Scan:  # noqa: A002
        """A scan of some columns (None: all) of the rows that pass a filter."""
        names = list(COLUMNS if columns is None else columns)
        wanted = pa.schema([SCHEMA.field(name) for name in names])
        return Scan(wanted, self._batches(names, Filter(filter, SCHEMA)))

    def _batches(self, names: Sequence[str], filter: Filter) -> Iterator[Any]:  # noqa: A002
        self._read.scans += 1
        try:
            ranges = self.ranges(filter)
            needed = [name for name in COLUMNS if name in names or filter.mentions(name)]
            headers = "headers" in needed
            for wanted, got in decoded(self._connect, ranges, include_headers=headers) if ranges else ():
                assert isinstance(got, Decoded)  # a broken batch is an error here
                self._read.records += got.batch.num_rows
                rows = pa.Table.from_batches([record_batch(wanted, got, needed)])
                if filter.expression is not None:
                    rows = rows.filter(filter.expression)
                yield from rows.select(names).to_batches(max_chunksize=SPARK_ARROW_BATCH_ROWS)
        except PenstockError as error:
            self._read.failure = error  # DuckDB passes on its text alone
            raise

    def ranges(self, filter: Filter) -> list[OffsetRange]:  # noqa: A002
        """The ranges to read for a filter. Asks the brokers if the filter limits the time."""
        found = []
        if not filter.may_hold(ds.field("topic") == self._opened.name):
            return []
        for whole in self._opened.ranges:
            piece = _cut(whole, *filter.offsets(whole.partition, whole.start, whole.end))
            if piece.size:
                found.append(piece)
        low_us, high_us = filter.times_us()
        if found and low_us > 0:  # negative times mean other things to brokers
            firsts = asyncio.run(first_at(self._connect, found, -(-low_us // 1000)))
            found = [_cut(each, max(each.start, at), each.end) for each, at in zip(found, firsts, strict=True)]
        if found and self._in_order and 0 <= high_us < TIME_MAX_US:
            ends = asyncio.run(first_at(self._connect, found, high_us // 1000 + 1))
            found = [_cut(each, each.start, min(each.end, at)) for each, at in zip(found, ends, strict=True)]
        return [each for each in found if each.size]


def _cut(whole: OffsetRange, start: int, end: int) -> OffsetRange:
    return OffsetRange(whole.topic, whole.topic_id, whole.partition, start, max(start, end))


async def open_topics(client: Client, names: Iterable[str], isolation: int) -> list[Opened]:
    """Topics with the offsets that they have now. Raises RequestError."""
    opened = []
    for name in names:
        state = await client.topic(name)
        partitions: list[Partition] = [(name, index) for index in range(len(state.leaders))]
        starts = await client.offsets(partitions, EARLIEST)
        ends = await client.offsets(partitions, LATEST, isolation=isolation)
        ranges = (
            OffsetRange(name, state.topic_id, each[1], starts[each].offset, ends[each].offset) for each in partitions
        )
        opened.append(Opened(name, tuple(each for each in ranges if each.start < each.end)))
    return opened


async def first_at(connect: Connect, ranges: Sequence[OffsetRange], timestamp_ms: int) -> list[int]:
    """For each range the first offset of its partition with a record at that time or later, its end if there is none.

    Every record before it is earlier; records after it may be, too, where producers set the times.
    """
    async with connect.client() as client:
        found = await client.offsets([(each.topic, each.partition) for each in ranges], timestamp_ms)
    offsets = [found[each.topic, each.partition].offset for each in ranges]
    return [each.end if offset < 0 else offset for each, offset in zip(ranges, offsets, strict=True)]
