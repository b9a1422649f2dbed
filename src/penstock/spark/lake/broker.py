"""Holds a lake table against what the brokers still have: its ends, and a sample of its rows value by value.

Offsets tell nothing of what a row says. So a few ranges of each partition are read from the brokers and compared with
the table's rows: timestamp, key, value and headers. For a table of a decoded format, which has no such value, the
columns that it shares with a record are compared. Where in the table the sampled rows lie is found while its offsets
are read, not by statistics.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, Client
from penstock.config.limits import LAKE_RANGES_SHOWN, LAKE_SAMPLE_RANGES
from penstock.spark.lake.offsets import Watch
from penstock.spark.lake.records import RECORD_SCHEMA, Progress, TopicPartition
from penstock.spark.lake.table import LakeTable

Row = tuple[Any, ...]
COMPARED = ("timestamp", "timestampType", "key", "value", "headers")
CLIENT_ID = "penstock-verify"
TIMEOUT_MS = 30_000


@dataclass(slots=True)
class BrokerVerdict:
    """One partition of a table beside what the brokers have of it. Offsets."""

    log_start: int
    log_end: int
    """The last stable offset: what a load could have by now."""
    behind: int
    """How many the brokers have beyond the table's end."""
    before: int
    """How many the brokers have before the table's start: they were never loaded."""
    lost: int
    """How many the table has beyond the brokers' end: the brokers lost them."""
    sampled: int = 0
    """Rows of the sample that both have."""
    gone: int = 0
    """Rows of the sample that the brokers have no more (compaction)."""
    absent: list[int] = field(default_factory=list)
    """Records of the sample that the table has not."""
    changed: list[tuple[int, str]] = field(default_factory=list)
    """Records of the sample that the table has otherwise: offset, column."""

    @property
    def clean(self) -> bool:
        return not (self.lost or self.absent or self.changed)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"clean": self.clean}


async def against_broker(
    address: str, progress: Mapping[TopicPartition, Progress]
) -> dict[TopicPartition, BrokerVerdict]:
    """What the brokers have of a table's partitions; those of topics that are gone or were made anew are left out."""
    found: dict[TopicPartition, BrokerVerdict] = {}
    async with Client(address, client_id=CLIENT_ID, timeout_ms=TIMEOUT_MS) as client:
        topics = {topic.name: topic for topic in (await client.refresh(None)).topics}
        there = {}
        for partition in progress:
            topic = topics.get(partition.topic)
            if topic is not None and topic.topic_id == partition.topic_id:
                there[partition.topic, partition.partition] = partition
        if not there:
            return {}
        starts = await client.offsets(list(there), EARLIEST)
        ends = await client.offsets(list(there), LATEST, isolation=READ_COMMITTED)
        ends_written = await client.offsets(list(there), LATEST)
    for key, partition in there.items():
        start, end, known = starts[key].offset, ends[key].offset, progress[partition]
        found[partition] = BrokerVerdict(
            start,
            end,
            behind=max(0, end - max(known.end, start)),
            before=max(0, min(known.start, end) - start),
            lost=max(0, known.end - ends_written[key].offset),
        )
    return found


def choose(
    progress: Mapping[TopicPartition, Progress],
    brokers: Mapping[TopicPartition, BrokerVerdict],
    rows: int,
    seed: int | None = None,
) -> dict[TopicPartition, list[tuple[int, int]]]:
    """Ranges of about `rows` offsets in all of each partition, spread over what both sides have, at random places."""
    chance = random.Random(seed)
    chosen: dict[TopicPartition, list[tuple[int, int]]] = {}
    for partition, broker in brokers.items():
        known = progress[partition]
        low, high = max(known.start, broker.log_start), min(known.end, broker.log_end)
        if low >= high or rows <= 0:
            continue
        if high - low <= rows:
            chosen[partition] = [(low, high)]
            continue
        parts = min(LAKE_SAMPLE_RANGES, rows)
        size, part = rows // parts, (high - low) // parts
        starts = [low + part * at + chance.randrange(max(1, part - size)) for at in range(parts)]
        starts[-1] = high - size  # the newest are always among them
        chosen[partition] = [(start, start + size) for start in starts]
    return chosen


def compare(lake: LakeTable, address: str, watch: Watch, brokers: Mapping[TopicPartition, BrokerVerdict]) -> None:
    """Reads the sample from both sides and notes in `brokers` what differs. `watch` has been through `verify`."""
    names = [name for name in COMPARED if name in lake.columns.names and _alike(lake, name)]
    ours = _table_rows(lake, watch, names)
    theirs = _broker_rows(address, watch.ranges, names)
    for partition, verdict in brokers.items():
        mine, others = ours.get(partition, {}), theirs.get(partition, {})
        claimed = lake_claims(lake.progress()[partition])
        for offset, row in others.items():
            if offset not in mine:
                if any(start <= offset < end for start, end in claimed):
                    _keep(verdict.absent, offset)
                continue
            verdict.sampled += 1
            for name, theirs_value, my_value in zip(names, row, mine[offset], strict=True):
                if theirs_value != my_value:
                    _keep(verdict.changed, (offset, name))
        verdict.gone = len(mine.keys() - others.keys())


def lake_claims(progress: Progress) -> list[tuple[int, int]]:
    """The ranges that pipelines have loaded of a partition."""
    return [(claim.start, claim.end) for claim in progress.claims]


def _alike(lake: LakeTable, name: str) -> bool:
    kind: pa.DataType = lake.columns.field(name).type
    return bool(kind == RECORD_SCHEMA.field(name).type)


def _table_rows(lake: LakeTable, watch: Watch, names: Sequence[str]) -> dict[TopicPartition, dict[int, Row]]:
    rows: dict[TopicPartition, dict[int, Row]] = {}
    by_name = {(p.topic, str(p.topic_id), p.partition): p for p in watch.ranges}
    system = lake.file_systems()
    for (_, group), file in sorted(watch.found.items()):
        with system.open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            there = [name for name in names if name in parquet.schema_arrow.names]
            columns = ["topic", "topicId", "partition", "offset", *there]
            for batch in parquet.iter_batches(1 << 14, row_groups=[group], columns=columns):
                for some in _within(batch, by_name, watch.ranges):
                    _add(rows, by_name, some, names)
    return rows


def _within(
    batch: pa.RecordBatch,
    by_name: Mapping[tuple[str, str, int], TopicPartition],
    ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]],
) -> list[pa.RecordBatch]:
    """The rows of a batch whose offset lies in any range of any partition."""
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    wanted = np.zeros(len(offsets), bool)
    for start, end in {span for partition in by_name.values() for span in ranges[partition]}:
        wanted |= (offsets >= start) & (offsets < end)
    return [_plain(batch).filter(pa.array(wanted))] if wanted.any() else []


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with the types of records: other writers leave Arrow's view types, which cannot be filtered."""
    fields = [RECORD_SCHEMA.field(name) for name in batch.schema.names]
    return pa.RecordBatch.from_arrays(
        [batch.column(field.name).cast(field.type) for field in fields], schema=pa.schema(fields)
    )


def _add(
    rows: dict[TopicPartition, dict[int, Row]],
    by_name: Mapping[tuple[str, str, int], TopicPartition],
    batch: pa.RecordBatch,
    names: Sequence[str],
) -> None:
    there = batch.schema.names
    lists = [_values(batch.column(name)) if name in there else [None] * batch.num_rows for name in names]
    keys = zip(*(batch.column(name).to_pylist() for name in ("topic", "topicId", "partition")), strict=True)
    values = zip(*lists, strict=True) if lists else [()] * batch.num_rows
    for key, offset, row in zip(keys, batch.column("offset").to_pylist(), values, strict=True):
        partition = by_name.get(key)
        if partition is not None:
            rows.setdefault(partition, {})[offset] = row


def _values(column: Any) -> list[Any]:
    """Python values that can be compared; no headers are the same as none, and times are microseconds."""
    if pa.types.is_timestamp(column.type):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_list(column.type):
        return [each or None for each in column.to_pylist()]
    return list(column.to_pylist())


def _broker_rows(
    address: str, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]], names: Sequence[str]
) -> dict[TopicPartition, dict[int, Row]]:
    from penstock.spark.read.decoding import Corrupt
    from penstock.spark.read.fetching import Connect, decoded, record_batch
    from penstock.spark.read.plan import OffsetRange

    connect = Connect(address, CLIENT_ID, TIMEOUT_MS, READ_COMMITTED, read="broker")
    wanted = [OffsetRange(p.topic, p.topic_id, p.partition, *span) for p, spans in ranges.items() for span in spans]
    by_name = {(p.topic, str(p.topic_id), p.partition): p for p in ranges}
    rows: dict[TopicPartition, dict[int, Row]] = {}
    if wanted:
        for span, got in decoded(connect, wanted, skip_corrupt=True):
            if not isinstance(got, Corrupt):
                _add(rows, by_name, record_batch(span, got), names)
    return rows


def _keep(some: list[Any], new: Any) -> None:
    if len(some) < LAKE_RANGES_SHOWN:
        some.append(new)
