"""Dead letters: records that a job cannot process, kept with the reason and where they came from.

What `split` sets aside goes to a topic (the record as it was, reason and origin as headers; at least once) or to a
Delta table (a row a record; upserted by the origin, so a batch that Spark repeats, or a checkpoint that was deleted,
adds no second row).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.pipelines.split import ORIGIN

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context

TABLE_ROW = """pipeline string, reason string, topic string, partition int, offset bigint, timestamp timestamp,
    key binary, value binary"""
KEY = ("pipeline", *ORIGIN)
"""What a row of the table is known by."""
HEADER_PREFIX = "penstock.dead."


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """A topic for dead letters: key, value and headers as they were, and headers that say why and where."""

    topic: str

    def write(self, context: Context, rows: DataFrame, query: str) -> list[StreamingQuery]:
        records = as_records(rows, context.name)
        if rows.isStreaming:
            return [context.write(records, self.topic, query=query)]
        records.write.format("penstock").options(**context.source(), topic=self.topic).mode("append").save()
        return []


def as_records(rows: DataFrame, pipeline: str) -> DataFrame:
    """Dead letters as the sink's columns key, value, headers."""
    from pyspark.sql import functions as f

    told: dict[str, Column] = {"reason": f.col("reason"), "pipeline": f.lit(pipeline)}
    told |= {name: f.col(name).cast("string") for name in (*ORIGIN, "timestamp")}
    added = f.array(
        *(
            f.struct(f.lit(HEADER_PREFIX + name).alias("key"), f.encode(value, "UTF-8").alias("value"))
            for name, value in told.items()
        )
    )
    none = f.expr("cast(array() as array<struct<key: string, value: binary>>)")
    before = f.coalesce(f.col("headers"), none) if "headers" in rows.columns else none
    return rows.select("key", "value", f.concat(before, added).alias("headers"))


@dataclass(frozen=True, slots=True)
class DeadLetterTable:
    """A Delta table for dead letters; `storage_options` are those of an object store."""

    table: str
    storage_options: Mapping[str, str] = field(default_factory=dict)

    def write(self, context: Context, rows: DataFrame, query: str) -> list[StreamingQuery]:
        from penstock.spark.starting import started

        merge = merger(self.table, context.name, dict(self.storage_options))
        if not rows.isStreaming:
            merge(rows, 0)
            return []
        writer = rows.writeStream.foreachBatch(merge).queryName(f"{context.name}.{query}")
        writer = writer.option("checkpointLocation", context.checkpoint(query))
        return [started(context.spark, writer.trigger(**context.trigger()))]


def merger(table: str, pipeline: str, storage_options: dict[str, str]) -> Callable[[Any, int], None]:
    """Returns the function that puts a batch into the table; it holds only plain values, so Spark Connect can send it.

    Tasks write the rows, each in the place of the one of the same record, if there is one.
    """

    def merge(rows: Any, number: int) -> None:
        from pyspark.sql import functions as f

        from penstock.pipelines.dead_letters import KEY, TABLE_ROW
        from penstock.pipelines.jobs.options import persisted
        from penstock.pipelines.jobs.tables import clean_now_and_then
        from penstock.spark.frames.upsert import upsert

        columns = [each.split()[0] for each in TABLE_ROW.split(",")]
        stores = {f"storage.{name}": value for name, value in storage_options.items()}
        with persisted(rows.withColumn("pipeline", f.lit(pipeline)).select(*columns)) as letters:
            if not letters.isEmpty():
                upsert(letters, table, upsertBy=",".join(KEY), tableFormat="delta", **stores)
                clean_now_and_then(table, number, storage_options)

    return merge
