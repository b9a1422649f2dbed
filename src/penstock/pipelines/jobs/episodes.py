"""Alerts as episodes: windows of one subject and rule that touch are one alert which grows, not many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipelines.jobs.tables import Write

GONE = "gone"
"""Column of a row that takes an episode out of the table: it has become part of one that began earlier."""
NEW = "new"
"""Column: whether the table had no episode with this beginning."""
OLD, EPISODE, REACHED, OTHERS, KNOWN = (f"_{name}" for name in ("old", "episode", "reached", "others", "known"))


def raise_alerts(
    found: DataFrame,
    number: int,
    *,
    path: str,
    keys: Sequence[str],
    weight: str,
    write: Write,
    send: Callable[[DataFrame], None] | None,
) -> None:
    """Has the episodes that begin with a batch sent, and all that are new or have grown written.

    Args:
        found: alerts of windows; a row a window.
        number: of the batch.
        path: the table of episodes.
        keys: whose alert it is, and of what rule.
        weight: see `merged`.
        write: puts rows into the table; of those that are `gone` it takes the key away.
        send: tells episodes to a topic, or None.
    """
    from penstock.pipelines.jobs.options import persisted

    with persisted(found):
        if found.isEmpty():
            return
        with persisted(merged(found, known(path, found, keys), keys, weight)) as episodes:
            begun = episodes.where(f"{NEW} and not {GONE}").select(*found.columns)
            if send is not None and not begun.isEmpty():
                send(begun)
            write(episodes.drop(NEW), number)


def known(path: str, found: DataFrame, keys: Sequence[str]) -> DataFrame:
    """The episodes of a table that those found, at least one, may continue."""
    from pyspark.sql import functions as f

    from penstock.pipelines.jobs.tables import rows_since

    (first,) = found.agg(f.unix_micros(f.min("began"))).collect()
    return rows_since(found, path, "until", first[0]).join(found.select(*keys).distinct(), list(keys), "left_semi")


def merged(found: DataFrame, before: DataFrame, keys: Sequence[str], weight: str) -> DataFrame:
    """Alerts of windows joined with each other and with the episodes before.

    Args:
        found: `keys`, began, until and further columns; a row a window.
        before: the same, a row an episode.
        keys: whose alert it is, and of what rule.
        weight: the column whose greatest value tells which window's further columns an episode has.

    Returns all episodes, and those that are no more, with the columns of `found`, NEW and GONE.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    rows = found.withColumn(OLD, f.lit(False)).unionByName(before.withColumn(OLD, f.lit(True)))
    so_far = Window.partitionBy(*keys).orderBy("began", "until").rowsBetween(Window.unboundedPreceding, -1)
    up_to_this = so_far.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    apart = f.coalesce(f.col("began") > f.col(REACHED), f.lit(True)).cast("int")
    numbered = rows.withColumn(REACHED, f.max("until").over(so_far)).withColumn(EPISODE, f.sum(apart).over(up_to_this))
    others = [name for name in found.columns if name not in (*keys, "began", "until")]
    heaviest = f.struct(f.abs(f.col(weight)), -f.unix_micros("began"))
    episodes = numbered.groupBy(*keys, EPISODE).agg(
        f.max_by(f.struct(*others), heaviest).alias(OTHERS),
        f.collect_set(f.when(f.col(OLD), f.col("began"))).alias(KNOWN),
        f.min("began").alias("began"),
        f.max("until").alias("until"),
    )
    starts = f.array_append(f.array_except(KNOWN, f.array("began")), f.col("began"))
    each = episodes.withColumn("start", f.explode(starts)).withColumn(NEW, ~f.array_contains(KNOWN, f.col("began")))
    told = each.select(*keys, f.col("start").alias("began"), "until", f"{OTHERS}.*", NEW,
                       (f.col("start") != f.col("began")).alias(GONE))  # fmt: skip
    return told.select(*found.columns, NEW, GONE)
