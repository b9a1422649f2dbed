"""The data files that one task writes: one a table, and one for each value of the table's partition columns.

Rows that are set apart or sorted wait until there are enough for a row group; the others are written as they come.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.spark.lake.clustering import Cluster
from penstock.spark.lake.derived import Derived
from penstock.spark.lake.destination import Destination, partition_directory, text_of
from penstock.spark.lake.records import DataFile, Statistics
from penstock.spark.limits import (
    LAKE_ROW_GROUP_BYTES,
    LAKE_ROW_GROUP_ROWS,
    LOAD_FILES_PER_TASK,
    LOAD_OPEN_FILES,
    LOAD_WAITING_BYTES,
)

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
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0

    def flush(self, cluster: Cluster | None) -> None:
        """Writes the rows that wait, as a row group."""
        if self.waiting:
            rows = pa.Table.from_batches(self.waiting)
            self.writer.write_table(rows if cluster is None else cluster.sorted(rows))
        self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0


class Files:
    """Writes rows of one table into new files below its destination.

    A task that Spark runs twice leaves files that no commit names; vacuum removes them. One that fails removes its own.
    """

    def __init__(self, destination: Destination, columns: pa.Schema) -> None:
        self._destination = destination
        by = destination.partition_by
        self._columns = columns
        self._derived = {name: Derived.parse(text) for name, text in destination.derived.items()}
        self._cluster = Cluster.parse(destination.cluster_by)
        if self._cluster is not None and not set(self._cluster.columns) <= set(columns.names):
            self._cluster = None
        self._gathers = bool(by) or self._cluster is not None
        self._waiting_bytes = 0
        kept = [each for each in columns if destination.keeps_partition_columns or each.name not in by]
        self._file_columns = pa.schema(kept)
        self._open: dict[Values, _Open] = {}
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Takes rows that have the table's columns but those that are made, and others, which are null.

        Raises PenstockError when they are of too many partition values.
        """
        for values, some in self._apart(self._complete(rows)):
            file = self._file(values)
            part = some.select(self._file_columns.names)
            file.statistics.add(part)
            file.rows += part.num_rows
            if not self._gathers:
                file.writer.write_batch(part)
                continue
            file.waiting.append(part)
            file.waiting_rows += part.num_rows
            file.waiting_bytes += part.nbytes
            self._waiting_bytes += part.nbytes
            if file.waiting_rows >= LAKE_ROW_GROUP_ROWS or file.waiting_bytes >= LAKE_ROW_GROUP_BYTES:
                self._flush(file)
            while self._waiting_bytes > LOAD_WAITING_BYTES:
                self._flush(max(self._open.values(), key=lambda each: each.waiting_bytes))

    def _flush(self, file: _Open) -> None:
        self._waiting_bytes -= file.waiting_bytes
        file.flush(self._cluster)

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
            elif each.name in self._derived:
                arrays.append(self._derived[each.name].of(rows))
            else:
                arrays.append(pa.nulls(rows.num_rows, each.type))
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _apart(self, rows: pa.RecordBatch) -> Iterator[tuple[Values, pa.RecordBatch]]:
        """The rows apart by the partition columns' values."""
        names = list(self._destination.partition_by)
        if not names:
            yield (), rows
            return
        columns = [rows.column(name).dictionary_encode(null_encoding="encode") for name in names]
        codes = np.zeros(rows.num_rows, np.int64)
        for column in columns:
            codes = codes * len(column.dictionary) + column.indices.to_numpy(zero_copy_only=False)
        _, firsts, codes = np.unique(codes, return_index=True, return_inverse=True)
        order = None if len(firsts) == 1 else np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes)).tolist()
        for first, start, end in zip(firsts.tolist(), [0, *ends], ends, strict=False):
            values = (self._value(column.dictionary[column.indices[first].as_py()].as_py()) for column in columns)
            some = rows if order is None else rows.take(pa.array(order[start:end]))
            yield tuple(zip(names, values, strict=True)), some

    def _value(self, value: Any) -> str | None:
        """A partition value as the table names it. Delta has no empty text there: it is null."""
        return None if value == "" and not self._destination.keeps_partition_columns else text_of(value)

    def _file(self, values: Values) -> _Open:
        if values not in self._open:
            if len(self._open) >= LOAD_OPEN_FILES:
                self._end(next(iter(self._open)))
            if len(self._paths) >= LOAD_FILES_PER_TASK:
                by = ", ".join(self._destination.partition_by)
                raise PenstockError(
                    f"{by}: rows of one job have so many values that a task would write more than "
                    f"{LOAD_FILES_PER_TASK:,} files: partition by fewer, or cluster by the column instead"
                )
            path = f"{partition_directory(dict(values))}part-{uuid.uuid4()}.parquet"
            self._paths.append(path)
            sink = self._destination.open(path)
            writer = pq.ParquetWriter(sink, self._file_columns, compression=PARQUET_COMPRESSION)
            self._open[values] = _Open(path, sink, writer, values)
        return self._open[values]

    def _end(self, values: Values) -> None:
        file = self._open[values]
        self._flush(file)
        file.writer.close()
        file.sink.close()
        del self._open[values]
        size_bytes = self._destination.size_bytes(file.path)
        told = file.statistics
        self._done.append(
            DataFile(file.path, size_bytes, file.rows, told.low, told.high, told.nulls, dict(file.values))
        )
