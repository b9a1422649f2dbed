"""`format("penstock")`: topics as Spark rows, with the official Kafka connector's options and columns.

The driver asks the brokers (`brokers`), finds the offsets to read and cuts them into tasks (`plan`); each task fetches,
decodes with the kernels and hands Spark Arrow batches, no Python object a record (`rows`). Spark finds the format by
itself through the package `pyspark_penstock`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.read.brokers import Brokers
from penstock.spark.read.options import ReadOptions, includes_headers, parse
from penstock.spark.read.plan import Losses, OffsetRange, check_order, ranges_between
from penstock.spark.read.rows import Task, rows, tasks
from penstock.spark.read.streaming import StreamReader

if TYPE_CHECKING:
    from penstock.spark.write.sink import BatchWriter, StreamWriter

COLUMNS: Mapping[str, str] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}
HEADERS: Mapping[str, str] = {"headers": "array<struct<key:string,value:binary>>"}


class PenstockSource(DataSource):
    """The data source that Spark sees."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> str:
        columns = {**COLUMNS, **HEADERS} if includes_headers(self.options) else COLUMNS
        return ", ".join(f"{name} {kind}" for name, kind in columns.items())

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(parse(self.options), columns_of(schema))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return StreamReader(parse(self.options, stream=True), columns_of(schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from penstock.spark.write.sink import BatchWriter  # who only reads needs no confluent-kafka

        return BatchWriter(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        from penstock.spark.write.sink import StreamWriter

        return StreamWriter(schema, self.options)


def columns_of(schema: StructType) -> list[str]:
    """The columns that are read: all, or those of `.schema("value binary, offset bigint")`; only they are made.

    Raises ConfigError for a column that does not exist or has another type.
    """
    there = {**COLUMNS, **HEADERS}
    for field in schema.fields:
        kind, given = there.get(field.name), field.dataType.simpleString()
        if kind is None:
            nearest = did_you_mean(field.name, there)
            raise ConfigError(f"there is no column {field.name}{nearest} (columns are {', '.join(there)})")
        if given != kind:
            raise ConfigError(f"column {field.name} is {kind}, not {given}; cast it in the query")
    return list(schema.names)


class BatchReader(DataSourceReader):
    """A batch read: planned once, on the driver."""

    def __init__(self, options: ReadOptions, names: Sequence[str]) -> None:
        self.options = options
        self.names = tuple(names)

    def partitions(self) -> Sequence[InputPartition]:
        return tasks(self.options, self._ranges()) or [Task(())]  # Spark reads no plan as one of None

    def _ranges(self) -> list[OffsetRange]:
        brokers = Brokers(self.options)
        try:
            snapshot = brokers.existing()
            start, end = brokers.starting(snapshot), brokers.ending(snapshot)
        finally:
            brokers.close()
        losses = Losses(self.options.fail_on_data_loss)
        check_order(start, end, snapshot, losses)
        return ranges_between(start, end, snapshot, losses)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Task)
        return rows(self.options, self.names, partition.ranges)
