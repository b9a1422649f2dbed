"""Sets records aside that a job cannot process: a plain function for a plain DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ORIGIN = ("topic", "partition", "offset")
COLUMNS = ("key", "value", *ORIGIN, "timestamp")


def split(rows: DataFrame, reason: Column) -> tuple[DataFrame, DataFrame]:
    """Good rows, with the columns they had, and bad rows: the source's columns and `reason`.

    Args:
        rows: with the source's columns key, value, topic, partition, offset, timestamp (and headers), and any others.
        reason: text that says what is wrong with a row; null for a good one.
    """
    from pyspark.sql import functions as f

    kept = [*COLUMNS, *(["headers"] if "headers" in rows.columns else [])]
    judged = rows.withColumn("_reason", reason)
    good = judged.where(f.col("_reason").isNull()).drop("_reason")
    return good, judged.where(f.col("_reason").isNotNull()).select(*kept, f.col("_reason").alias("reason"))
