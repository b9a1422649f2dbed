"""Writes the data files of one task: Parquet, one file for each value of the partition columns, with statistics.

A writer's files are nobody's until a commit names them. A task that fails aborts its writer, which removes them; one
that is killed leaves orphans, which `penstock lake maintain` removes when they are old.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.lake.derived import Derived
from penstock.spark.lake.destination import Destination, partition_directory
from penstock.spark.lake.records import DATE, TIMESTAMP, DataFile, Statistics
from penstock.spark.limits import LAKE_ROW_GROUP_BYTES, LAKE_ROW_GROUP_ROWS

COMPRESSION = "zstd"
PLAIN_COLUMNS = ("offset", "timestamp", "key", "value")
"""Columns of many different values: a dictionary of them would only be made to be thrown away."""
DATE_OF = Derived("day", TIMESTAMP)
PACKED_COLUMNS = ("offset", "timestamp")
"""Integers near to their neighbours, kept as differences: less to write, and to read for `penstock verify`."""


class _Open:
    """One file that is being written."""

    def __init__(self, destination: Destination, schema: pa.Schema, values: dict[str, str | None]) -> None:
        self.values = values
        self.path = f"{partition_directory(values)}part-{uuid.uuid4()}.parquet"
        self.statistics = Statistics()
        self.rows = 0
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._sink = destination.open(self.path)
        self._writer = pq.ParquetWriter(self._sink, schema, compression=COMPRESSION, **encodings(schema))

    def write(self, rows: pa.RecordBatch) -> None:
        self.statistics.add(rows)
        self.rows += rows.num_rows
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        if self._waiting_rows >= LAKE_ROW_GROUP_ROWS or self._waiting_bytes >= LAKE_ROW_GROUP_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Ends a row group; Arrow's writer would make one of every batch, however small."""
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0

    def close(self) -> None:
        try:
            self._flush()
            self._writer.close()
        finally:
            self._sink.close()


class DataFileWriter:
    """Writes rows to a destination; a context manager that aborts when it is left by an exception.

    Args:
        destination: where the table is; its partition columns set the files apart.
        schema: columns of the rows that `write` is given, without derived partition columns.
        within: partition values that all the rows have, if the destination does not set them apart.
    """

    def __init__(
        self, destination: Destination, schema: pa.Schema, within: Mapping[str, str | None] | None = None
    ) -> None:
        self._destination = destination
        self._within = dict(within or {})
        self._by = tuple(destination.partition_by)
        kept = [f for f in schema if f.name not in self._by or destination.keeps_partition_columns]
        if destination.keeps_partition_columns and DATE in self._by and DATE not in schema.names:
            kept.append(pa.field(DATE, pa.date32()))
        self._schema = pa.schema(kept)
        self._open: dict[tuple[str | None, ...], _Open] = {}

    def write(self, rows: pa.RecordBatch) -> None:
        """Takes in a batch of rows; an empty one is fine."""
        if not rows.num_rows:
            return
        if DATE in self._by and DATE not in rows.schema.names:
            rows = pa.RecordBatch.from_arrays(
                [*rows.columns, DATE_OF.of(rows)], schema=rows.schema.append(pa.field(DATE, pa.date32()))
            )
        for values, part in _apart(rows, self._by):
            file = self._open.get(values)
            if file is None:
                named = {**self._within, **dict(zip(self._by, values, strict=True))}
                file = self._open[values] = _Open(self._destination, self._schema, named)
            file.write(part.select(self._schema.names))

    def close(self) -> list[DataFile]:
        """Finishes the files and returns their descriptions; none if there were no rows."""
        written = []
        for file in self._open.values():
            file.close()
            size = self._destination.size_bytes(file.path)
            figures = file.statistics
            written.append(DataFile(file.path, size, file.rows, figures.low, figures.high, figures.nulls, file.values))
        self._open.clear()
        return written

    def abort(self) -> None:
        """Removes what was written."""
        for file in self._open.values():
            with suppress(OSError, pa.ArrowException):  # a full disk: there is no footer to save
                file.close()
            self._destination.discard(file.path)
        self._open.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if error is not None:
            self.abort()


def encodings(schema: pa.Schema) -> dict[str, Any]:
    """How a table's columns are encoded, as arguments of `pq.ParquetWriter`."""
    packed = [field.name for field in schema if field.name in PACKED_COLUMNS and _is_integer(field.type)]
    others = [field.name for field in schema if field.name not in PLAIN_COLUMNS and not pa.types.is_nested(field.type)]
    return {"use_dictionary": others, "column_encoding": dict.fromkeys(packed, "DELTA_BINARY_PACKED")}


def _is_integer(kind: pa.DataType) -> bool:
    """Whether Parquet keeps a type as 32 or 64 bits that can be subtracted."""
    return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))


def _apart(rows: pa.RecordBatch, by: tuple[str, ...]) -> Iterator[tuple[tuple[str | None, ...], pa.RecordBatch]]:
    """The rows by the values of the partition columns, as text; most batches are all of one."""
    if not by:
        yield (), rows
        return
    name, rest = by[0], by[1:]
    column = rows.column(name)
    for value in pc.unique(column):
        same = pc.is_null(column) if not value.is_valid else pc.fill_null(pc.equal(column, value), False)
        part = rows if pc.all(same).as_py() else rows.filter(same)
        text = None if not value.is_valid else str(value.as_py())
        for values, piece in _apart(part, rest):
            yield (text, *values), piece
