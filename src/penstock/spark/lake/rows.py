"""A lake table's rows as a Spark DataFrame, of either format, from any store, without a connector of Spark's.

Spark's own Parquet reader knows neither the table's columns, which older files lack, nor the values by which its files
are apart, nor the storage options. So tasks read the files as `penstock verify` does, only the columns that are asked
for, and hand Spark Arrow batches. The plan comes ready-made from the driver, and is of one version of the table. It is
a function over the tasks' numbers and no data source: for each read of one, Spark starts two processes that plan it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.spark.lake.destination import Destination
from penstock.spark.lake.reading import as_rows
from penstock.spark.lake.table import LakeTable, TableFile
from penstock.spark.limits import SPARK_ARROW_BATCH_ROWS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows_of(
    spark: SparkSession,
    lake: LakeTable,
    columns: Sequence[str],
    tasks: int,
    *,
    files: Sequence[TableFile] | None = None,
    path_column: str | None = None,
) -> DataFrame:
    """The rows of the version that `lake` has seen, with the given columns, read by about this many tasks.

    Args:
        spark: reads them.
        lake: the table.
        columns: of its columns, those that are read.
        tasks: how many read, at most.
        files: those whose rows are wanted; None are all.
        path_column: a further column, of the path of a row's file.
    """
    schema = pa.schema([lake.columns.field(name) for name in columns])
    if path_column is not None:
        schema = schema.append(pa.field(path_column, pa.string()))
    chosen = lake.files() if files is None else files
    shares = shared(chosen, tasks)
    plan = {
        "where": lake.destination().to_json(),
        "columns": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        "tasks": [[(f.path, f.size_bytes, dict(f.partition_values)) for f in some] for some in shares],
        "path_column": path_column,
    }
    numbers = spark.range(0, len(shares), numPartitions=max(1, len(shares)))
    return numbers.mapInArrow(Reading(json.dumps(plan)), from_arrow_schema(schema))


def shared(files: Sequence[TableFile], tasks: int) -> list[list[TableFile]]:
    """Files of a table, shared out to at most this many tasks with about as many bytes each."""
    shares: list[list[TableFile]] = [[] for _ in range(max(1, tasks))]
    sizes = [0] * len(shares)
    for file in sorted(files, key=lambda each: (-each.size_bytes, each.path)):
        least = sizes.index(min(sizes))
        shares[least].append(file)
        sizes[least] += file.size_bytes
    return [share for share in shares if share]


class Reading:
    """What the tasks do: task N reads the files that a plan names for it."""

    def __init__(self, plan: str) -> None:
        self._plan = plan

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        plan = json.loads(self._plan)
        schema, system = _columns(plan), Destination.from_json(plan["where"]).filesystem()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for path, size_bytes, values in plan["tasks"][number]:
                    constants = {**values, **({plan["path_column"]: path} if plan["path_column"] else {})}
                    yield from _rows(system, schema, TableFile(path, size_bytes, constants))


def _rows(system: Any, schema: pa.Schema, file: TableFile) -> Iterator[pa.RecordBatch]:
    with system.open_input_file(file.path) as source:
        parquet = pq.ParquetFile(source)
        present = [name for name in schema.names if name in parquet.schema_arrow.names]
        for batch in parquet.iter_batches(SPARK_ARROW_BATCH_ROWS, columns=present, use_threads=False):
            yield as_rows(batch, schema, file)


def _columns(plan: dict[str, Any]) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(plan["columns"])))
