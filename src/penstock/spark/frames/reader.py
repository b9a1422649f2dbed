"""`spark.read` of a lake table: planned on the driver from the table's own metadata, read by the tasks.

Spark 4.3 tells a Python source nothing of the columns that a query uses: the option `columns`, or a schema, names those
that are read. It would tell the filters (`pushFilters`), but keeps the plan that came of one query's filters for all
queries on the DataFrame: files left out for the one would be missing in the next. So no reader here takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os import cpu_count

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.frames.columns import UnfitError, nullable, takes
from penstock.spark.frames.read_options import ReadOptions
from penstock.spark.lake.open import open_history
from penstock.spark.lake.pieces import Piece, Reading, shared_out
from penstock.spark.lake.scan import Column, History, ScanFile


@dataclass(frozen=True, slots=True)
class Task(InputPartition):
    """The parts of files that one Spark task reads."""

    pieces: Sequence[Piece]


def history_of(options: ReadOptions) -> History:
    """The table that the options name. Raises ConfigError, PenstockError."""
    return open_history(options.path, options.table_format, options.storage_options)


def version_of(options: ReadOptions, history: History) -> int | None:
    """The version that the options name, None for the newest. Raises UnreadableError."""
    return options.version if options.time_ms is None else history.version_at(options.time_ms)


def schema_of(options: ReadOptions, history: History) -> StructType:
    """The table's columns as Spark has them, or those that the options choose.

    Raises ConfigError for a column that there is not, UnfitError for one whose type Spark has not.
    """
    columns = history.columns_at(version_of(options, history))
    chosen = [_named(columns, name) for name in options.columns] if options.columns else columns
    return StructType([_field(each) for each in chosen])


def _named(columns: Sequence[Column], name: str) -> Column:
    found = next((each for each in columns if each.name == name), None)
    if found is None:
        names = [each.name for each in columns]
        raise ConfigError(f"the table has no column {name}{did_you_mean(name, names)} (columns are {', '.join(names)})")
    return found


def _field(column: Column) -> StructField:
    try:
        schema: StructType = from_arrow_schema(
            pa.schema([pa.field(column.name, nullable(column.type))]), prefer_timestamp_ntz=True
        )
        to_arrow_schema(schema, timezone="UTC")
    except PySparkTypeError as error:
        raise UnfitError(f"column {column.name} is {column.type}, which Spark cannot have from Python") from error
    return schema.fields[0]


def reading_of(history: History, columns: Sequence[Column], schema: StructType) -> Reading:
    """How tasks read the columns of a schema.

    Raises ConfigError for a column that the table does not have, UnfitError for one that has another type there.
    """
    wanted = to_arrow_schema(schema, timezone="UTC")
    chosen = []
    for field, told in zip(wanted, schema.fields, strict=True):
        column = _named(columns, field.name)
        if not told.nullable:
            raise UnfitError(f"column {field.name} may be null in the table: leave NOT NULL out of the schema")
        there = nullable(column.type)
        if not takes(nullable(field.type), there):
            raise UnfitError(f"column {field.name} is {there} in the table, not {field.type}: cast it in the query")
        chosen.append(column)
    return Reading(history.destination(), tuple(chosen), wanted)


def tasks(options: ReadOptions, files: Iterable[ScanFile]) -> list[Task]:
    """The tasks that read some files."""
    return [Task(tuple(each)) for each in shared_out(files, options.parallelism or cpu_count() or 1)]


class BatchReader(DataSourceReader):
    """A batch read. Pickled into tasks, where only `read` is called."""

    def __init__(self, options: ReadOptions, schema: StructType) -> None:
        self.options = options
        history = history_of(options)
        snapshot = history.at(version_of(options, history))
        self.reading = reading_of(history, snapshot.columns, schema)
        self._snapshot = snapshot

    def __getstate__(self) -> Reading:
        return self.reading

    def __setstate__(self, reading: Reading) -> None:
        self.reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        return tasks(self.options, self._snapshot.files) or [Task(())]  # Spark reads no plan as one of None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Task)
        return self.reading.rows(partition.pieces)
