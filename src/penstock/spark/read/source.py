"""`format("penstock")`: topics as Spark rows, with the official Kafka connector's options and columns.

The driver asks the brokers (`brokers`), finds the offsets to read and cuts them into tasks (`plan`); each task fetches,
decodes with the kernels and hands Spark Arrow batches, no Python object a record (`rows`). With
`penstock.value.format` the column `value` is typed (`values`); its type is fixed with the schema of the frame. Spark
finds the format by itself through the package `pyspark_penstock`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.read.brokers import Brokers
from penstock.spark.read.options import ReadOptions, includes_headers, parse, typed_values
from penstock.spark.read.plan import Losses, OffsetRange, check_order, ranges_between
from penstock.spark.read.rows import Task, rows, tasks
from penstock.spark.read.streaming import StreamReader
from penstock.spark.read.value_options import FORMAT, ValueOptions
from penstock.spark.read.values import ERROR, RAW, VALUE, ValuePlan, plan, spark_type

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
ERRORS: Mapping[str, str] = {ERROR: "string", RAW: "binary"}
READ_FROM_VALUES = frozenset((VALUE, *ERRORS))
TYPES: Mapping[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    HEADERS["headers"]: ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
}


class PenstockSource(DataSource):
    """The data source that Spark sees."""

    @classmethod
    def name(cls) -> str:
        return "penstock"

    _values: ValuePlan | None = None
    """The values' type, once Spark has asked for the schema; the frame keeps it, whatever is registered later."""

    def schema(self) -> StructType:
        options = typed_values(self.options)
        columns = {**COLUMNS, **HEADERS} if includes_headers(self.options) else dict(COLUMNS)
        if options is None:
            return fields_of(columns)
        self._values = plan(options)
        return fields_of({**columns, **error_columns(options), VALUE: spark_type(self._values)})

    def reader(self, schema: StructType) -> BatchReader:
        return BatchReader(*self._checked(schema, stream=False))

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        return StreamReader(*self._checked(schema, stream=True))

    def _checked(self, schema: StructType, *, stream: bool) -> tuple[ReadOptions, list[str], ValuePlan | None]:
        """What a reader needs for the columns that are read. Raises ConfigError, RegistryError."""
        options = parse(self.options, stream=stream)
        return options, columns_of(schema, options.value), self._typed(schema, options.value)

    def _typed(self, schema: StructType, options: ValueOptions | None) -> ValuePlan | None:
        if options is None or not READ_FROM_VALUES & set(schema.names):
            return None
        if self._values is not None:
            return self._values
        return plan(options, schema[VALUE].dataType if VALUE in schema.names else None)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        from penstock.spark.write.sink import BatchWriter  # who only reads needs no confluent-kafka

        return BatchWriter(schema, self.options, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        from penstock.spark.write.sink import StreamWriter

        return StreamWriter(schema, self.options)


def fields_of(columns: Mapping[str, str | DataType]) -> StructType:
    """Columns as Spark's schema."""
    fields = StructType()
    for name, kind in columns.items():
        fields = fields.add(name, TYPES[kind] if isinstance(kind, str) else kind)
    return fields


def error_columns(options: ValueOptions) -> Mapping[str, str]:
    """The columns that tell of values that do not fit: none where these are errors."""
    return {} if options.failfast else ERRORS


def columns_of(schema: StructType, values: ValueOptions | None = None) -> list[str]:
    """The columns that are read: all, or those of `.schema("value binary, offset bigint")`; only they are made.

    Raises ConfigError for a column that does not exist or has another type. That of typed values is not looked at.
    """
    there = {**COLUMNS, **HEADERS, **(error_columns(values) if values is not None else {})}
    for field in schema.fields:
        kind, given = there.get(field.name), field.dataType.simpleString()
        if kind is None:
            nearest = did_you_mean(field.name, there)
            raise ConfigError(f"there is no column {field.name}{nearest} (columns are {', '.join(there)})")
        if given != kind and not (field.name == VALUE and values is not None):
            hint = ""
            if field.name == VALUE and given.startswith("struct"):
                hint = f", or name its format with {FORMAT}"
            raise ConfigError(f"column {field.name} is {kind}, not {given}; cast it in the query{hint}")
    return list(schema.names)


class BatchReader(DataSourceReader):
    """A batch read: planned once, on the driver."""

    def __init__(self, options: ReadOptions, names: Sequence[str], values: ValuePlan | None = None) -> None:
        self.options = options
        self.names = tuple(names)
        self.values = values

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
        return rows(self.options, self.names, partition.ranges, self.values)
