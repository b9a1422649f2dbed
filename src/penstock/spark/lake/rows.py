"""A lake table's rows as a Spark DataFrame, of either format, from any store, without a connector of Spark's.

Spark's own Parquet reader knows neither the table's columns, which older files lack, nor the values by which its files
are apart, nor the storage options. So tasks read the files as `penstock verify` does, only the columns that are asked
for, and hand Spark Arrow batches. A private data source; its plan comes ready-made from the driver as an option, and
is of one version of the table.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

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
    plan = {
        "where": lake.destination().to_json(),
        "columns": base64.b64encode(schema.serialize().to_pybytes()).decode(),
        "tasks": [[(f.path, f.size_bytes, dict(f.partition_values)) for f in some] for some in shared(chosen, tasks)],
        "path_column": path_column,
    }
    spark.dataSource.register(LakeSource)
    return spark.read.format(LakeSource.name()).option("plan", json.dumps(plan)).load()


def shared(files: Sequence[TableFile], tasks: int) -> list[list[TableFile]]:
    """Files of a table, shared out to at most this many tasks with about as many bytes each."""
    shares: list[list[TableFile]] = [[] for _ in range(max(1, tasks))]
    sizes = [0] * len(shares)
    for file in sorted(files, key=lambda each: (-each.size_bytes, each.path)):
        least = sizes.index(min(sizes))
        shares[least].append(file)
        sizes[least] += file.size_bytes
    return [share for share in shares if share]


@dataclass(frozen=True, slots=True)
class ReadTask(InputPartition):
    """The files that one task reads: path, size in bytes, partition values."""

    files: Sequence[tuple[str, int, dict[str, str | None]]]


class LakeSource(DataSource):
    """`format("penstock-lake-rows")` with the plan of `rows_of` as the option `plan`."""

    @classmethod
    def name(cls) -> str:
        return "penstock-lake-rows"

    def schema(self) -> StructType:
        return from_arrow_schema(_columns(json.loads(self.options["plan"])))

    def reader(self, schema: StructType) -> LakeReader:
        return LakeReader(self.options["plan"])


class LakeReader(DataSourceReader):
    """Reads what a plan names."""

    def __init__(self, plan: str) -> None:
        self._plan = plan

    def partitions(self) -> Sequence[InputPartition]:
        tasks = json.loads(self._plan)["tasks"]
        return [ReadTask(task) for task in tasks] or [ReadTask(())]  # Spark reads no plan as one of None

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ReadTask)
        plan = json.loads(self._plan)
        schema, system = _columns(plan), Destination.from_json(plan["where"]).filesystem()
        for path, size_bytes, values in partition.files:
            constants = {**values, **({plan["path_column"]: path} if plan["path_column"] else {})}
            with system.open_input_file(path) as source:
                parquet = pq.ParquetFile(source)
                present = [name for name in schema.names if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(SPARK_ARROW_BATCH_ROWS, columns=present, use_threads=False):
                    yield as_rows(batch, schema, TableFile(path, size_bytes, constants))


def _columns(plan: dict[str, Any]) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(plan["columns"])))
