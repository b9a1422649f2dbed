"""`spark.read.format("penstock")`: topics as Spark rows, with the official Kafka connector's options and columns.

The driver asks the brokers once and packs the offsets into tasks (`plan`); each task fetches, decodes with the kernels
and hands Spark Arrow batches, no Python object a record. Spark finds the format by itself through the package
`pyspark_penstock`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.client.client import Client
from penstock.config.limits import SPARK_ARROW_BATCH_ROWS
from penstock.spark.read.options import ReadOptions, parse
from penstock.spark.read.plan import OffsetRange, ranges_of, tasks_of

COLUMNS = "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
HEADERS_COLUMN = "headers array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True)
class _Task(InputPartition):
    """What one Spark task reads."""

    ranges: Sequence[OffsetRange]


class PenstockSource(DataSource):
    """The data source that Spark sees."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        return f"{COLUMNS}, {HEADERS_COLUMN}" if parse(self.options).include_headers else COLUMNS

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(parse(self.options), schema.names)


class BatchReader(DataSourceReader):
    """A batch read: planned once, on the driver."""

    def __init__(self, options: ReadOptions, names: Sequence[str]) -> None:
        self.options = options
        self.names = list(names)

    def partitions(self) -> Sequence[InputPartition]:
        ranges = asyncio.run(self._plan())
        tasks = max(self.options.min_partitions or 0, os.cpu_count() or 1)
        return [_Task(packed) for packed in tasks_of(ranges, tasks)] or [
            _Task(())
        ]  # Spark reads no plan as one of None

    async def _plan(self) -> list[OffsetRange]:
        options = self.options
        async with Client(options.bootstrap, client_id=options.client_id, timeout_ms=options.timeout_ms) as client:
            return await ranges_of(client, options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        from penstock.records.arrow_schema import Decoded
        from penstock.spark.read.fetching import Connect, decoded, record_batch  # imports numba: in workers only

        assert isinstance(partition, _Task)
        options = self.options
        connect = Connect(options.bootstrap, options.client_id, options.timeout_ms, options.isolation)
        for wanted, got in decoded(connect, partition.ranges):
            assert isinstance(got, Decoded)  # a broken batch is an error here
            rows = pa.Table.from_batches([record_batch(wanted, got)]).select(self.names)
            yield from rows.to_batches(max_chunksize=SPARK_ARROW_BATCH_ROWS)
