"""JSON records as rows: columns from the value, and what is wrong with a value that is not as it must be.

`judged` is pure: a DataFrame of records in, the same with the event's columns and a `reason` for those that are no
event. A record without a value (a tombstone), one that is not JSON or has other types, one without a field that must be
there, and one from the future get a reason; nothing makes the query fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context

CLICK = """time_ms bigint, client string, country string, agent string, user string, page string, referrer string,
    action string, status int"""
"""The fields of a view or click; a field that is missing is null."""
CLICK_REQUIRED = ("time_ms", "client", "page")
TIME_MS_MAX = 253_402_300_799_999
"""The last millisecond of the year 9999: Spark's timestamps end there."""


def judged(records: DataFrame, schema: str, required: Sequence[str], ahead_seconds: int) -> DataFrame:
    """Records with their value's fields, `time` (the event's, from `time_ms`) and `reason`.

    Args:
        records: with a column `value`, binary.
        schema: the value's fields as Spark writes columns; `time_ms` must be one.
        required: fields that must not be null.
        ahead_seconds: an event further ahead of the clock has a reason: one of them would move the watermark, and all
            others would be late from then on.

    Returns the columns of `records`, those of `schema`, `time` and `reason`, which is null for a good record.
    """
    from pyspark.sql import functions as f

    text = f.col("value").cast("string")
    parsed = f.from_json(text, f"{schema}, _broken string", {"columnNameOfCorruptRecord": "_broken"})
    rows = records.withColumn("_event", parsed)
    reason = f.when(f.col("value").isNull(), "no value").when(
        f.col("_event._broken").isNotNull(), "not JSON of the expected fields"
    )
    for name in required:
        reason = reason.when(f.col(f"_event.{name}").isNull(), f"no {name}")
    time_ms = f.col("_event.time_ms")
    now_ms = f.unix_millis(f.current_timestamp())
    possible = time_ms.between(0, TIME_MS_MAX)
    reason = reason.when(~possible, "time_ms is no time").when(
        time_ms > now_ms + 1000 * ahead_seconds, "time_ms is ahead of the clock"
    )
    time: Column = f.when(possible, f.timestamp_millis(time_ms)).alias("time")
    rows = rows.withColumn("reason", reason)
    names = rows.select("_event.*").drop("_broken").columns
    kept = [name for name in records.columns if name not in names]  # the event's timestamp, say, is what counts
    return rows.select(*kept, *(f.col(f"_event.{name}").alias(name) for name in names), time, "reason")


def clicks(context: Context, query: str = "dead-letters") -> tuple[DataFrame, list[StreamingQuery]]:
    """The good clicks of a job's option `topic` as a stream, and the query that sets the others aside, if any does."""
    records = context.read(context.options["topic"], starting=context.options["starting"])
    rows = judged(records, CLICK, CLICK_REQUIRED, context.options["ahead_seconds"])
    good, bad = context.split(rows, rows["reason"])
    return good.drop("reason"), list(context.dead_letters(bad, query=query))
