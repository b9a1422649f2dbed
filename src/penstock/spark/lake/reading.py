"""Reads a lake table's rows file by file, in bounded memory, whatever its format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from penstock.spark.lake.table import LakeTable, TableFile

BATCH_ROWS = 1 << 16


def batches_of(lake: LakeTable, columns: Sequence[str], topic: str | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of the table's current version with these columns, of one topic if named, a file after the other.

    A column that a file does not have yet is null in it; a partition column comes from the table
    where the file lacks it.
    """
    schema = pa.schema([lake.columns.field(name) for name in columns])
    system = lake.file_systems()
    for file in lake.files():
        with system.open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            wanted = [*columns, *(["topic"] if topic is not None and "topic" not in columns else [])]
            present = [name for name in wanted if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(BATCH_ROWS, columns=present):
                rows = batch if topic is None else batch.filter(pc.equal(batch.column("topic"), topic))
                if rows.num_rows:
                    yield as_rows(rows, schema, file)


def as_rows(rows: pa.RecordBatch, schema: pa.Schema, file: TableFile) -> pa.RecordBatch:
    """Rows of a file with exactly the columns of a schema."""
    arrays: list[Any] = []
    for field in schema:
        if field.name in rows.schema.names:
            arrays.append(rows.column(field.name).cast(field.type))
        elif (value := file.partition_values.get(field.name)) is None:
            arrays.append(pa.nulls(rows.num_rows, field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value, pa.string()).cast(field.type), rows.num_rows))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
