"""Which files of a table to merge, and their merging in bounded memory.

Small files of one partition value are merged oldest first, so that offsets stay in the order in which they were
loaded, and the rows of a row group are sorted by topic, partition and offset. One merged file at a time is written and
committed: a step that is stopped has merged what it has merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.lake.destination import Destination
from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.reading import as_rows
from penstock.spark.lake.records import DataFile
from penstock.spark.lake.table import LakeTable, TableFile
from penstock.spark.limits import LAKE_ROW_GROUP_BYTES, LAKE_ROW_GROUP_ROWS

READ_ROWS = 1 << 14
ORDER = ("topic", "topicId", "partition", "offset")


def bins_of(files: Sequence[TableFile], target_bytes: int) -> list[list[TableFile]]:
    """Files to merge with each other; `files` oldest first. A file is small below three quarters of the target."""
    small = [file for file in files if file.size_bytes < target_bytes * 3 // 4]
    groups: dict[tuple[tuple[str, str | None], ...], list[TableFile]] = {}
    for file in small:
        groups.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    bins: list[list[TableFile]] = []
    for group in groups.values():
        bins.append([])
        size = 0
        for file in group:
            if size + file.size_bytes > target_bytes and bins[-1]:
                bins.append([])
                size = 0
            bins[-1].append(file)
            size += file.size_bytes
    return [each for each in bins if len(each) > 1]


def merge(lake: LakeTable, files: Sequence[TableFile]) -> DataFile:
    """Writes one file with all rows of some files of one partition value; nothing refers to it yet."""
    where = lake.destination()
    values = dict(files[0].partition_values)
    by = [name for name in where.partition_by if not where.keeps_partition_columns]
    schema = pa.schema([field for field in lake.columns if field.name not in by])
    flat = Destination(where.uri, where.storage_options)
    with DataFileWriter(flat, schema, values) as writer:
        waiting: list[Any] = []
        rows = size = 0
        for file in files:
            with lake.file_systems().open_input_file(file.path) as source:
                for batch in pq.ParquetFile(source).iter_batches(READ_ROWS, use_threads=False):
                    waiting.append(as_rows(batch, schema, file))
                    rows, size = rows + batch.num_rows, size + batch.nbytes
                    if rows >= LAKE_ROW_GROUP_ROWS or size >= LAKE_ROW_GROUP_BYTES:
                        _write_sorted(writer, waiting)
                        waiting, rows, size = [], 0, 0
        _write_sorted(writer, waiting)
        (merged,) = writer.close()
    assert merged.rows > 0
    return merged


def _write_sorted(writer: DataFileWriter, waiting: Sequence[pa.RecordBatch]) -> None:
    if waiting:
        table = pa.Table.from_batches(waiting)
        if set(ORDER) <= set(table.column_names):  # a load's; rows of a DataFrame stay in their order
            table = table.sort_by([(name, "ascending") for name in ORDER])
        table = table.combine_chunks()
        for batch in table.to_batches():
            writer.write(batch)
