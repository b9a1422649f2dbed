"""Which files of a table to merge, and their merging in bounded memory.

Small files of one partition value are merged oldest first, so that offsets stay in the order in which they were
loaded, and the rows of a row group are sorted by topic, partition and offset. One merged file at a time is written and
committed: a step that is stopped has merged what it has merged.

Where rows are to be clustered, the whole merged file is sorted: the columns to sort by are read first, and say where
each row belongs; then the files are read once, and rows put into a spill file for each row group to come. So memory
holds those columns of one merged file, and one row group.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.spark.lake.clustering import Cluster, Places
from penstock.spark.lake.destination import Destination
from penstock.spark.lake.files import DataFileWriter
from penstock.spark.lake.reading import as_rows
from penstock.spark.lake.records import DataFile
from penstock.spark.lake.table import LakeTable, TableFile
from penstock.spark.limits import LAKE_ROW_GROUP_BYTES, LAKE_ROW_GROUP_ROWS

READ_ROWS = 1 << 14
PLACE = "penstock place"
"""Column of a spill file: where in the merged file a row belongs. No table may have a column of this name."""
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


def merge(lake: LakeTable, files: Sequence[TableFile], cluster: Cluster | None = None) -> DataFile:
    """Writes one file with all rows of some files of one partition value; nothing refers to it yet."""
    where = lake.destination()
    values = dict(files[0].partition_values)
    by = [name for name in where.partition_by if not where.keeps_partition_columns]
    schema = pa.schema([field for field in lake.columns if field.name not in by])
    flat = Destination(where.uri, where.storage_options)
    with DataFileWriter(flat, schema, values) as writer:
        if cluster is None:
            _merge_in_order(writer, _batches(lake, files, schema))
        else:
            _merge_clustered(writer, lake, files, schema, cluster)
        (merged,) = writer.close()
    assert merged.rows > 0
    return merged


def _batches(lake: LakeTable, files: Sequence[TableFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of files, one after the other, with these columns."""
    system = lake.file_systems()
    for file in files:
        with system.open_input_file(file.path) as source:
            parquet = pq.ParquetFile(source)
            there = [name for name in schema.names if name in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(READ_ROWS, columns=there, use_threads=False):
                yield as_rows(batch, schema, file)


def _merge_in_order(writer: DataFileWriter, batches: Iterator[pa.RecordBatch]) -> None:
    waiting: list[Any] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= LAKE_ROW_GROUP_ROWS or size >= LAKE_ROW_GROUP_BYTES:
            _write_sorted(writer, waiting)
            waiting, rows, size = [], 0, 0
    _write_sorted(writer, waiting)


def _merge_clustered(
    writer: DataFileWriter, lake: LakeTable, files: Sequence[TableFile], schema: pa.Schema, cluster: Cluster
) -> None:
    keys = pa.schema([schema.field(name) for name in cluster.columns])
    places = _places(pa.Table.from_batches(_batches(lake, files, keys), keys), cluster)
    each = _row_group_rows(lake, files)
    with tempfile.TemporaryDirectory(prefix="penstock-compact-") as scratch:
        spills = [os.path.join(scratch, str(at)) for at in range(-(-len(places) // each))]
        told = schema.append(pa.field(PLACE, pa.int64()))
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        sinks = [pa.ipc.new_stream(path, told, options=options) for path in spills]
        try:
            at = 0
            for batch in _batches(lake, files, schema):
                _spill(sinks, batch.append_column(told.field(PLACE), pa.array(places[at : at + len(batch)])), each)
                at += len(batch)
        finally:
            for sink in sinks:
                sink.close()
        for path in spills:
            with pa.OSFile(path) as source, pa.ipc.open_stream(source) as stream:
                rows = stream.read_all().sort_by(PLACE).select(schema.names).combine_chunks()
            for batch in rows.to_batches():
                writer.write(batch)
            os.unlink(path)


def _places(keys: pa.Table, cluster: Cluster) -> Places:
    """Where in the merged file each row belongs."""
    order = cluster.order(keys)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def _row_group_rows(lake: LakeTable, files: Sequence[TableFile]) -> int:
    """Rows of one row group of the merged file, by the mean size of the files' rows."""
    rows = size = 0
    for file in files:
        with lake.file_systems().open_input_file(file.path) as source:
            told = pq.ParquetFile(source).metadata
            rows += told.num_rows
            size += sum(told.row_group(at).total_byte_size for at in range(told.num_row_groups))
    return max(1, min(LAKE_ROW_GROUP_ROWS, LAKE_ROW_GROUP_BYTES * rows // max(1, size)))


def _spill(sinks: Sequence[Any], rows: pa.RecordBatch, each: int) -> None:
    """Puts rows, the last column of which says where they belong, into the spill file of their row group."""
    groups = rows.column(PLACE).to_numpy() // each
    order = np.argsort(groups, kind="stable")
    present, starts = np.unique(groups[order], return_index=True)
    for group, some in zip(present.tolist(), np.split(order, starts[1:]), strict=True):
        sinks[group].write_batch(rows.take(pa.array(some)))


def _write_sorted(writer: DataFileWriter, waiting: Sequence[pa.RecordBatch]) -> None:
    if waiting:
        table = pa.Table.from_batches(waiting)
        if set(ORDER) <= set(table.column_names):  # a load's; rows of a DataFrame stay in their order
            table = table.sort_by([(name, "ascending") for name in ORDER])
        table = table.combine_chunks()
        for batch in table.to_batches():
            writer.write(batch)
