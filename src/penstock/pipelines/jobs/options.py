"""Options that several jobs have, and how their results get where they go."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from penstock.pipelines.job import REQUIRED, Option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context

STARTING = Option("starting", str, "earliest", "Where the first run begins.", choices=("earliest", "latest"))
LATE_SECONDS = Option(
    "late_seconds",
    int,
    60,
    "How long a window accepts events behind the newest one, in seconds; later ones are dropped.",
    at_least=0,
)
AHEAD_SECONDS = Option(
    "ahead_seconds", int, 300, "An event further ahead of the clock than this is a dead letter.", at_least=0
)
TABLES = Option("tables", str, None, "Directory for the Delta tables (default: `tables` in the pipeline's directory).")
CLICK_OPTIONS = (
    Option("topic", str, REQUIRED, "Topic of views and clicks, as JSON.", reads=True, example="clicks"),
    STARTING,
    LATE_SECONDS,
    AHEAD_SECONDS,
)

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def table_path(context: Context) -> Callable[[str], str]:
    """Where a job's table of a name is."""
    root = context.options["tables"] or str(context.directory / "tables")
    return lambda name: f"{root.rstrip('/')}/{name}"


def start(
    context: Context, rows: DataFrame, query: str, write: Callable[[DataFrame, int], None], *, mode: str = "update"
) -> StreamingQuery:
    """Starts a query whose batches `write` gets: persisted, so that it may read one several times, and never empty.

    It must read all rows of a batch at least once, for the state that the query keeps of them.
    """
    from penstock.spark.starting import started

    def each(batch: DataFrame, number: int) -> None:
        from penstock.pipelines.jobs.options import persisted

        with persisted(batch):
            if not batch.isEmpty():
                write(batch, number)

    writer = rows.writeStream.outputMode(mode).foreachBatch(each).queryName(f"{context.name}.{query}")
    writer = writer.option("checkpointLocation", context.checkpoint(query))
    return started(context.spark, writer.trigger(**context.trigger()))


@contextlib.contextmanager
def persisted(rows: DataFrame) -> Iterator[DataFrame]:
    """Has Spark compute rows once, however often they are read within the block."""
    rows.persist()
    try:
        yield rows
    finally:
        rows.unpersist()


@contextlib.contextmanager
def rocksdb(spark: SparkSession) -> Iterator[None]:
    """Queries that are started within the block keep their state in RocksDB; others keep what the session says."""
    before = spark.conf.get(STATE_STORE, None)
    spark.conf.set(STATE_STORE, ROCKSDB)
    try:
        yield
    finally:
        if before is None:
            spark.conf.unset(STATE_STORE)
        else:
            spark.conf.set(STATE_STORE, before)
