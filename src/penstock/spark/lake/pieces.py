"""Files as tasks read them: parts of about equal size, each a task's rows as Arrow batches.

A large file is shared by byte ranges: a row group is of the range that it begins in, so that nobody has to open a file
to plan. A file may lack columns that came later, and have narrower types than the table has by now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.spark.lake.destination import Destination
from penstock.spark.lake.scan import Column, ScanFile, UnreadableError
from penstock.spark.lake.table import one_line
from penstock.spark.limits import LAKE_FILE_OPEN_BYTES, LAKE_READ_BATCH_ROWS, LAKE_READ_TASK_BYTES

FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True, slots=True)
class Piece:
    """The row groups of a file that begin within [start, end)."""

    path: str
    start: int
    end: int
    partition_values: tuple[tuple[str, Any], ...] = ()


def shared_out(files: Iterable[ScanFile], at_once: int) -> list[list[Piece]]:
    """The files cut and packed, in their order, into tasks of about equal size.

    Args:
        files: what there is to read.
        at_once: how many tasks may run at the same time; there are more only if each would be larger than
            LAKE_READ_TASK_BYTES.
    """
    there = list(files)
    total = sum(each.size_bytes + LAKE_FILE_OPEN_BYTES for each in there)
    size = min(LAKE_READ_TASK_BYTES, max(LAKE_FILE_OPEN_BYTES, -(-total // at_once)))
    packed: list[list[Piece]] = []
    room = 0
    for file in there:
        values = tuple(file.partition_values.items())
        parts = max(1, -(-file.size_bytes // size))
        for at in range(parts):
            start, end = (file.size_bytes * each // parts for each in (at, at + 1))
            cost = end - start + LAKE_FILE_OPEN_BYTES
            if not packed or cost > room:
                packed.append([])
                room = size
            packed[-1].append(Piece(file.path, start, end, values))
            room -= cost
    return packed


@dataclass(frozen=True, slots=True)
class Reading:
    """How tasks read a table's files: `schema` is what they give back, a field for each of `columns`."""

    destination: Destination
    columns: Sequence[Column]
    schema: pa.Schema

    def rows(self, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        """The rows of the pieces. Raises UnreadableError."""
        system = self.destination.filesystem()
        for piece in pieces:
            try:
                with system.open_input_file(piece.path) as source:
                    yield from self._rows(source, piece)
            except FileNotFoundError:
                raise UnreadableError(
                    f"file {piece.path} of the table at {self.destination.uri} is gone: the version that has it was "
                    "vacuumed"
                ) from None
            except (pa.ArrowException, OSError) as error:
                raise UnreadableError(
                    f"file {piece.path} of the table at {self.destination.uri} cannot be read: {one_line(error)}"
                ) from error

    def _rows(self, source: Any, piece: Piece) -> Iterator[pa.RecordBatch]:
        parquet = pq.ParquetFile(source, coerce_int96_timestamp_unit="us")
        groups = [at for at in range(parquet.num_row_groups) if piece.start <= _begin(parquet, at) < piece.end]
        if not groups:
            return
        found = [_name_in(parquet.schema_arrow, each) for each in self.columns]
        names = [name for name in found if name is not None]
        values = dict(piece.partition_values)
        for batch in parquet.iter_batches(LAKE_READ_BATCH_ROWS, row_groups=groups, columns=names, use_threads=False):
            yield self._as_wanted(batch, found, values)

    def _as_wanted(self, batch: pa.RecordBatch, found: Sequence[str | None], values: dict[str, Any]) -> pa.RecordBatch:
        arrays = []
        for field, column, name in zip(self.schema, self.columns, found, strict=True):
            if name is not None:
                arrays.append(conformed(batch.column(name), field.type))
            else:
                value = values.get(column.name)
                arrays.append(_repeated(value, field.type, batch.num_rows))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def conformed(array: Any, kind: pa.DataType) -> Any:
    """An array of a file as one of the table's type: wider numbers, missing parts of structs null, finer times cut."""
    if array.type == kind:
        return array
    return pc.cast(array, options=pc.CastOptions(target_type=kind, allow_time_truncate=True))


def _repeated(value: Any, kind: pa.DataType, times: int) -> Any:
    """A partition value as a column of a batch."""
    if value is None:
        return pa.nulls(times, kind)
    if isinstance(value, str) and pa.types.is_timestamp(kind):
        zoned = value.endswith("Z") or any(sign in value[10:] for sign in "+-")
        scalar = pa.scalar(value).cast(kind if zoned and kind.tz else pa.timestamp("us")).cast(kind)
    elif isinstance(value, str):
        scalar = pa.scalar(value).cast(kind)
    elif isinstance(value, int) and pa.types.is_date(kind):
        scalar = pa.scalar(value, pa.int32()).cast(kind)
    elif isinstance(value, int) and pa.types.is_timestamp(kind):
        scalar = pa.scalar(value, pa.int64()).cast(kind)
    else:
        scalar = pa.scalar(value, kind)
    return pa.repeat(scalar, times)


def _name_in(schema: pa.Schema, column: Column) -> str | None:
    """What a column is called in a file, or None if the file lacks it."""
    if column.field_id is not None and any((each.metadata or {}).get(FIELD_ID) for each in schema):
        wanted = str(column.field_id).encode()
        found = next((each for each in schema if (each.metadata or {}).get(FIELD_ID) == wanted), None)
        return None if found is None else str(found.name)
    return next((name for name in column.names if name in schema.names), None)


def _begin(parquet: pq.ParquetFile, group: int) -> int:
    """Where a row group begins in its file."""
    first = parquet.metadata.row_group(group).column(0)
    dictionary = first.dictionary_page_offset
    return int(first.data_page_offset if dictionary is None else min(dictionary, first.data_page_offset))
