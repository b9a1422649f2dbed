"""The job `activity`: what visitors do, counted while they do it.

From a topic of views and clicks (JSON, see `events.CLICK`) it keeps

- `counts`: requests a minute by page, user and country;
- `popular`: the pages most asked for in a sliding window, with their rank;
- `sessions`: one row a visit that has ended, with its first and last page;

as Delta tables, and writes the pages' counts back to a topic for whoever builds feeds from them. The tables hold what
the records say, exactly once: tasks upsert the rows by key, and a batch that is repeated after a crash is known by its
number. The topic of counts is at least once; each of its records holds a whole count, so that the latest of a key is
right.

Late events: one whose minute closed `late_seconds` before the newest event is dropped, and Spark counts it
(numRowsDroppedByWatermark). To change the job, copy this file and name it in a pipeline's TOML: `job = "file.py:run"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.pipelines.job import Job, Option
from penstock.pipelines.jobs.events import clicks
from penstock.pipelines.jobs.options import CLICK_OPTIONS, TABLES, rocksdb, start, table_path
from penstock.pipelines.jobs.tables import Write, results

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from penstock.pipelines.context import Context

DIMENSIONS = ("page", "user", "country")
COUNT_KEYS = ("minute", "dimension", "name")
POPULAR_KEYS = ("window_end", "rank")
SESSION_KEYS = ("visitor", "began")


def per_minute(events: DataFrame, dimensions: Sequence[str] = DIMENSIONS) -> DataFrame:
    """Requests a minute by each dimension: minute, dimension, name, requests.

    One aggregation for all dimensions: a stream then keeps one state and has one cost a batch. An event without a value
    of a dimension (nobody is logged in) is not counted there.
    """
    from pyspark.sql import functions as f

    named = [f.struct(f.lit(each).alias("dimension"), f.col(each).alias("name")) for each in dimensions]
    each = events.select("time", f.inline(f.array(*named))).where("name is not null")
    counted = each.groupBy(f.window("time", "1 minute"), "dimension", "name").agg(f.count("*").alias("requests"))
    return counted.select(f.col("window.start").alias("minute"), "dimension", "name", "requests")


def popular(events: DataFrame, *, seconds: int, slide_seconds: int, top: int) -> DataFrame:
    """The pages most asked for in a sliding window: window_start, window_end, rank from 1, page, requests.

    Spark's frequent-items sketch keeps the counts of a window: exact up to 7,500 pages a window, beyond it the leading
    pages are right and the counts a little off.
    """
    from pyspark.sql import functions as f

    window = f.window("time", f"{seconds} seconds", f"{slide_seconds} seconds")
    leading = events.groupBy(window).agg(f.expr(f"approx_top_k(page, {top})").alias("leading"))
    ranked = leading.select("window.start", "window.end", f.posexplode("leading").alias("place", "entry"))
    return ranked.select(
        f.col("start").alias("window_start"),
        f.col("end").alias("window_end"),
        (f.col("place") + 1).alias("rank"),
        f.col("entry.item").alias("page"),
        f.col("entry.count").alias("requests"),
    )


def sessions(events: DataFrame, *, gap_seconds: int) -> DataFrame:
    """Visits: requests of one visitor with no pause of `gap_seconds` or more between them. See `visits`.

    A stream needs RocksDB as its state store, and gives a visit when the watermark passes its end.
    """
    from pyspark.sql import functions as f

    from penstock.pipelines.jobs.visits import VISIT, Visits

    named = events.withColumn("visitor", f.coalesce("user", "client"))
    return (
        named.select("visitor", "time", "page", "country")
        .groupBy("visitor")
        .transformWithStateInPandas(
            statefulProcessor=Visits(gap_seconds * 1000),
            outputStructType=VISIT,
            outputMode="append",
            timeMode="EventTime",
        )
    )


def feed(counts: DataFrame) -> DataFrame:
    """The pages' counts as records: the key is the page, the value JSON with page, minute_ms and requests."""
    from pyspark.sql import functions as f

    fields = f.struct(f.col("name").alias("page"), f.unix_millis("minute").alias("minute_ms"), "requests")
    pages = counts.where("dimension = 'page'")
    return pages.select(f.col("name").cast("binary").alias("key"), f.to_json(fields).cast("binary").alias("value"))


def run(context: Context) -> Sequence[StreamingQuery]:
    """Starts the queries."""
    options = context.options
    good, queries = clicks(context)
    events = good.withWatermark("time", f"{options['late_seconds']} seconds")
    path = table_path(context)
    counts_topic = options["counts_topic"]
    to_topic = {**context.source(), "topic": counts_topic} if counts_topic else None
    counts = keep(results(context, path("counts"), "counts", COUNT_KEYS), to_topic)
    queries.append(start(context, per_minute(events), "counts", counts))
    if options["popular"]:
        window = {"seconds": options["popular_seconds"], "slide_seconds": options["popular_slide_seconds"]}
        leading = popular(events, **window, top=options["popular"])
        queries.append(start(context, leading, "popular", results(context, path("popular"), "popular", POPULAR_KEYS)))
    if options["sessions"]:
        with rocksdb(context.spark):
            visits = sessions(events, gap_seconds=options["session_gap_seconds"])
            ended = results(context, path("sessions"), "sessions", SESSION_KEYS)
            queries.append(start(context, visits, "sessions", ended, mode="append"))
    return queries


def keep(write: Write, to_topic: Mapping[str, str] | None) -> Write:
    """Returns the function that writes a batch to its table, and before that the page counts to a topic, if told to."""

    def both(rows: DataFrame, number: int) -> None:
        from penstock.pipelines.jobs.activity import feed

        if to_topic is not None:
            feed(rows).write.format("penstock").options(**to_topic).mode("append").save()
        write(rows, number)

    return both


JOB = Job(
    run,
    (
        *CLICK_OPTIONS,
        TABLES,
        Option("counts_topic", str, None, "Topic for the page counts; without one they are not written.", writes=True),
        Option("popular", int, 10, "How many pages are popular; 0 leaves that table out.", at_least=0, at_most=1000),
        Option("popular_seconds", int, 300, "The window in which they are counted.", at_least=1),
        Option("popular_slide_seconds", int, 30, "Interval between the starts of windows, in seconds.", at_least=1),
        Option("sessions", bool, True, "Whether to detect visits, the most expensive part of the job."),
        Option("session_gap_seconds", int, 1800, "A pause so long ends a visit.", at_least=1),
    ),
    doc="Counts views and clicks a minute by page, user and country, popular pages and sessions. Into Delta tables.",
)
