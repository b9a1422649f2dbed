"""The data files that one task writes: one a table, and one for each value of the table's partition columns.

Rows that are set apart or sorted wait until there are enough for a row group, or too many rows wait; only then is there
a file. So many values that come by turns do not make a file of each few rows. The others are written as they come.
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
BATCH_BYTES = 4096
"""What a batch of rows that waits costs beside its rows, however few."""
Values = tuple[tuple[str, str | None], ...]


@dataclass(slots=True)
class _Part:
    """The rows of one partition value: those that wait, and the file that has the others, if one is open."""

    values: Values
    path: str = ""
    sink: Any = None
    writer: pq.ParquetWriter | None = None
    statistics: Statistics = field(default_factory=Statistics)
    rows: int = 0
    waiting: list[pa.RecordBatch] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_bytes: int = 0

    def wait(self, rows: pa.RecordBatch) -> int:
        """Takes rows that are written later; returns how many bytes of memory that costs."""
        size_bytes = int(rows.nbytes) + BATCH_BYTES
        self.waiting.append(rows)
        self.waiting_rows += rows.num_rows
        self.waiting_bytes += size_bytes
        return size_bytes

    def waited(self) -> pa.Table:
        """The rows that wait, which do so no longer."""
        rows = pa.Table.from_batches(self.waiting)
        self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0
        return rows


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
        self._parts: dict[Values, _Part] = {}
        self._open: dict[Values, _Part] = {}
        self._done: list[DataFile] = []
        self._paths: list[str] = []

    def write(self, rows: pa.RecordBatch) -> None:
        """Takes rows that have the table's columns but those that are made, and others, which are null.

        Raises PenstockError when they are of too many partition values.
        """
        for values, some in self._apart(self._complete(rows)):
            part = self._parts.get(values)
            if part is None:
                self._check_count(len(self._parts))
                part = self._parts[values] = _Part(values)
            few = some.select(self._file_columns.names)
            if not self._gathers:
                self._write(part, few)
                continue
            self._waiting_bytes += part.wait(few)
            if part.waiting_rows >= LAKE_ROW_GROUP_ROWS or part.waiting_bytes >= LAKE_ROW_GROUP_BYTES:
                self._flush(part)
            if self._waiting_bytes > LOAD_WAITING_BYTES:
                self._flush_largest()

    def close(self) -> list[DataFile]:
        """Ends all files; returns them."""
        for part in list(self._parts.values()):
            self._flush(part)
            if part.writer is not None:
                self._end(part)
        return self._done

    def abort(self) -> None:
        """Removes all that was written, as far as the store lets us: why the task failed is what counts."""
        for part in self._open.values():
            for each in (part.writer, part.sink):
                try:
                    each.close()  # type: ignore[union-attr]  # an open part has both
                except (OSError, pa.ArrowException):
                    continue  # a full disk: there is no footer to save
        for path in self._paths:
            self._destination.discard(path)

    def _flush(self, part: _Part) -> None:
        """Writes the rows that wait, as a row group."""
        if part.waiting:
            self._waiting_bytes -= part.waiting_bytes
            rows = part.waited()
            self._write(part, rows if self._cluster is None else self._cluster.sorted(rows))

    def _flush_largest(self) -> None:
        """Writes what waits of the values that have most of it, until half as many bytes wait as may."""
        for part in sorted(self._parts.values(), key=lambda each: -each.waiting_bytes):
            self._flush(part)
            if self._waiting_bytes <= LOAD_WAITING_BYTES // 2:
                return

    def _write(self, part: _Part, rows: pa.RecordBatch | pa.Table) -> None:
        """Writes rows into the file of their partition value, which is opened for the first of them."""
        if part.writer is None:
            self._begin(part)
        assert part.writer is not None
        part.statistics.add(rows)
        part.rows += rows.num_rows
        part.writer.write(rows)

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

    def _begin(self, part: _Part) -> None:
        """Opens a file; where too many are open, the one opened first is ended, and its value gets another later."""
        if len(self._open) >= LOAD_OPEN_FILES:
            self._end(next(iter(self._open.values())))
        self._check_count(len(self._paths))
        part.path = f"{partition_directory(dict(part.values))}part-{uuid.uuid4()}.parquet"
        self._paths.append(part.path)
        part.sink = self._destination.open(part.path)
        part.writer = pq.ParquetWriter(part.sink, self._file_columns, compression=PARQUET_COMPRESSION)
        self._open[part.values] = part

    def _check_count(self, files: int) -> None:
        """Raises PenstockError if a task that has so many files, or values, may not have another."""
        if files >= LOAD_FILES_PER_TASK:
            by = ", ".join(self._destination.partition_by)
            raise PenstockError(
                f"{by}: rows of one job have so many values that a task would write more than "
                f"{LOAD_FILES_PER_TASK:,} files: partition by fewer, or cluster by the column instead"
            )

    def _end(self, part: _Part) -> None:
        """Ends the file of a partition value, which has been opened; what waits then waits for another."""
        assert part.writer is not None
        part.writer.close()
        part.sink.close()
        del self._open[part.values]
        told = part.statistics
        size_bytes = self._destination.size_bytes(part.path)
        self._done.append(
            DataFile(part.path, size_bytes, part.rows, told.low, told.high, told.nulls, dict(part.values))
        )
        part.writer = part.sink = None
        part.statistics, part.rows = Statistics(), 0
