"""The data files that one task writes: one a table, and one for each value of the table's partition columns."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.lake.destination import Destination, partition_directory
from penstock.spark.lake.records import DATE, DataFile, Statistics, date_of
from penstock.spark.limits import LOAD_OPEN_FILES

PARQUET_COMPRESSION = "zstd"
Values = tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class _Open:
    path: str
    sink: Any
    writer: pq.ParquetWriter
    values: Values
    statistics: Statistics = field(default_factory=Statistics)
    rows: int = 0


class Files:
    """Writes rows of one table into new files below its destination.

    A task that Spark runs twice leaves files that no commit names; vacuum removes them. One that fails removes its own.
    """

    def __init__(self, destination: Destination, columns: pa.Schema) -> None:
        self._destination = destination
        by = destination.partition_by
        self._columns = columns
        kept = [each for each in columns if destination.keeps_partition_columns or each.name not in by]
        self._file_columns = pa.schema(kept)
        self._open: dict[Values, _Open] = {}
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Takes rows that have the table's columns but perhaps DATE, which is made, and others, which are null."""
        for values, some in self._apart(self._complete(rows)):
            file = self._file(values)
            part = some.select(self._file_columns.names)
            file.writer.write_batch(part)
            file.statistics.add(part)
            file.rows += part.num_rows

    def close(self) -> list[DataFile]:
        """Ends all files; returns them."""
        while self._open:
            self._end(next(iter(self._open)))
        return self._done

    def abort(self) -> None:
        """Removes all that was written, as far as the store lets us: why the task failed is what counts."""
        for file in self._open.values():
            for each in (file.writer, file.sink):
                try:
                    each.close()
                except (OSError, pa.ArrowException):
                    continue  # a full disk: there is no footer to save
        for path in self._paths:
            self._destination.discard(path)

    def _complete(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        arrays = []
        for each in self._columns:
            if each.name in rows.schema.names:
                arrays.append(rows.column(each.name))
            elif each.name == DATE and DATE in self._destination.partition_by:
                arrays.append(date_of(rows))
            else:
                arrays.append(pa.nulls(rows.num_rows, each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _apart(self, rows: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """The rows apart by the partition columns' values."""
        names = list(self._destination.partition_by)
        if not names:
            yield (), rows
            return
        combinations = pa.table({name: rows.column(name) for name in names}).group_by(names).aggregate([])
        for combination in combinations.to_pylist():
            mask = None
            for name, value in combination.items():
                column = rows.column(name)
                same = pc.is_null(column) if value is None else pc.equal(column, pa.scalar(value, column.type))
                mask = same if mask is None else pc.and_kleene(mask, same)
            some = rows if combinations.num_rows == 1 else rows.filter(pc.fill_null(mask, fill_value=False))
            yield tuple((name, _text(value)) for name, value in combination.items()), some

    def _file(self, values: Values) -> _Open:
        if values not in self._open:
            if len(self._open) >= LOAD_OPEN_FILES:
                self._end(next(iter(self._open)))
            path = f"{partition_directory(dict(values))}part-{uuid.uuid4()}.parquet"
            self._paths.append(path)
            sink = self._destination.open(path)
            writer = pq.ParquetWriter(sink, self._file_columns, compression=PARQUET_COMPRESSION)
            self._open[values] = _Open(path, sink, writer, values)
        return self._open[values]

    def _end(self, values: Values) -> None:
        file = self._open[values]
        file.writer.close()
        file.sink.close()
        del self._open[values]
        size_bytes = self._destination.size_bytes(file.path)
        told = file.statistics
        self._done.append(
            DataFile(file.path, size_bytes, file.rows, told.low, told.high, told.nulls, dict(file.values))
        )


def _text(value: Any) -> str | None:
    return None if value is None else value.isoformat() if hasattr(value, "isoformat") else str(value)
