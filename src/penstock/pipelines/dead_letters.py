"""Dead letters: records that a job cannot process, kept with the reason and where they came from.

What `split` sets aside goes to a topic (the record as it was, reason and
origin as headers; at least once) or to a Delta table (a row a record; merged on the origin, so a batch that Spark
repeats, or a checkpoint that was deleted, adds no second row).
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
    """Returns the function that adds a batch to the table; it holds only plain values, so Spark Connect can send it."""

    def merge(rows: Any, _batch: int) -> None:
        from pyspark.sql import functions as f

        from penstock.pipelines.dead_letters import TABLE_ROW, merge_into

        named = rows.withColumn("pipeline", f.lit(pipeline))
        columns = [each.split()[0] for each in TABLE_ROW.split(",")]
        merge_into(table, named.select(*columns).toArrow(), storage_options)

    return merge


def merge_into(table: str, letters: Any, storage_options: Mapping[str, str]) -> None:
    """Adds the rows of a pyarrow table whose pipeline and origin the Delta table does not have yet."""
    from deltalake import DeltaTable

    if not letters.num_rows:
        return
    options = dict(storage_options)
    delta = DeltaTable.create(table, letters.schema, mode="ignore", storage_options=options)
    same = " AND ".join(f"old.{name} = new.{name}" for name in ("pipeline", *ORIGIN))
    keys = ["pipeline", *ORIGIN]
    once = letters.group_by(keys, use_threads=False).aggregate(
        [(name, "first") for name in letters.column_names if name not in keys]
    )
    once = once.rename_columns([name.removesuffix("_first") for name in once.column_names])
    merge = delta.merge(once.select(letters.column_names), same, source_alias="new", target_alias="old")
    merge.when_not_matched_insert_all().execute()
