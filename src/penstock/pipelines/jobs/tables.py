"""Delta tables of results: rows with a key, where a new row of a key replaces the old one.

Tasks write them (see `penstock.spark.frames.upsert`): what goes through the driver are names of files and statistics.
Each commit sets the number of the query's newest batch, so a batch that Spark repeats after a crash changes nothing.
A query that has lost its checkpoint, or a second copy of it, is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from penstock.pipelines.limits import RESULT_BATCHES_PER_CLEANING, RESULT_KEEP_HOURS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipelines.context import Context

Options = Mapping[str, str] | None
Write = Callable[["DataFrame", int], None]
"""What a streaming query calls with the rows and the number of a batch."""


def results(context: Context, path: str, query: str, keys: tuple[str, ...], **options: str) -> Write:
    """Returns what puts a batch's rows into a table, each in the place of the row with the same key.

    Args:
        context: of the pipeline.
        path: directory or URI of the table, which is made if it is missing.
        query: name of the query whose batches they are.
        keys: the columns of the key; none of them null.
        options: further ones of `penstock.spark.frames.upsert`.
    """
    from penstock.spark.frames.upsert import upserts
    from penstock.spark.session import is_remote

    given = {"upsertBy": ",".join(keys), "queryName": f"{context.name}.{query}", "tableFormat": "delta", **options}
    if is_remote(context.spark):  # elsewhere Spark itself tells whose batch it is
        given["checkpointLocation"] = context.checkpoint(query)
    upsert = upserts(path, **given)

    def write(rows: DataFrame, number: int) -> None:
        from penstock.pipelines.jobs.tables import clean

        upsert(rows, number)
        if (number + 1) % RESULT_BATCHES_PER_CLEANING == 0:
            clean(path)

    return write


def clean(path: str) -> None:
    """Deletes the files that upserts have replaced, when they are old."""
    from penstock.spark.frames.sink import PIPELINE
    from penstock.spark.lake.maintenance import Maintenance
    from penstock.spark.lake.open import open_table

    lake = open_table(path, PIPELINE, create=False, records=False)
    Maintenance(lake, target_bytes=0, keep_hours=RESULT_KEEP_HOURS).run(("expire", "vacuum"))


def rows_since(like: DataFrame, path: str, column: str, since_us: int) -> DataFrame:
    """The rows of a table from a time on, read by tasks; files that have only earlier ones are not opened.

    Args:
        like: its columns are those of the table, which is made if it is missing.
        path: directory or URI of the table.
        column: of the table, the time.
        since_us: microseconds since 1970.
    """
    from pyspark.sql import functions as f

    from penstock.spark.frames.columns import columns_of
    from penstock.spark.frames.keyed import may_hold
    from penstock.spark.frames.sink import PIPELINE
    from penstock.spark.lake.open import open_table
    from penstock.spark.lake.records import LAST_INSTANT_MS
    from penstock.spark.lake.rows import rows_of as rows_of_files
    from penstock.spark.session import parallelism

    lake = open_table(path, PIPELINE, columns=columns_of(like.schema), records=False)
    files = may_hold(lake.files(), lake.spans([column]), {column: (since_us, LAST_INSTANT_MS * 1000)})
    spark = like.sparkSession
    rows = rows_of_files(spark, lake, like.columns, parallelism(spark), files=files)
    return rows.where(f.unix_micros(column) >= since_us)


def rows_of(path: str, storage_options: Options = None, filters: Any = None, columns: Any = None) -> pa.Table | None:
    """A table's rows for those who show them, if they pass `filters` (of pyarrow); None if there is no table yet."""
    try:
        table = DeltaTable(path, storage_options=dict(storage_options or {}))
    except TableNotFoundError:
        return None
    return table.to_pyarrow_table(filters=filters, columns=columns)
