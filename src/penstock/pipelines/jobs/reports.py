"""The job `reports`: what a lake table holds, by day and hour, as Parquet and as one page.

It reads a table that a load fills (see the job `load`), Delta or Iceberg, on a disk or in an object store, and writes,
below its directory,

- `hourly.parquet` and `daily.parquet`: records, bytes and distinct values of chosen fields, per topic;
- `top.parquet`: the most frequent values of chosen fields, per day;
- `report.html`: plots and tables of all this, which needs nothing but itself.

Each file is written whole and then put in the place of the last, so a reader never sees half of one. Fields are those
of JSON values, or columns of a decoded table. A table that has not changed since the last report is not read again.
Event time is the record's timestamp.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.pipelines.drawing import svg
from penstock.pipelines.drawing.page import Fact, card, page, table
from penstock.pipelines.job import REQUIRED, Job, Option
from penstock.pipelines.step import Did

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipelines.context import Context
    from penstock.spark.lake.table import LakeTable

TOP = 20
TOP_SHOWN = 10
SKETCH = 12
"""Base-2 logarithm of the places of a sketch of distinct values: 4 KiB each, an error of 1.6 %."""


def columns_for(columns: pa.Schema, fields: Sequence[str]) -> list[str]:
    """The columns of a table that a report reads: those of `fields` that it has, else the JSON values."""
    own = [name for name in fields if name in columns.names]
    value = ["value"] if "value" in columns.names and pa.types.is_binary(columns.field("value").type) else []
    return list(dict.fromkeys(["topic", "timestamp", *own, *value]))


def with_fields(rows: DataFrame, fields: Sequence[str]) -> DataFrame:
    """Rows with a column, text, for each field: the table's own column if it has one, else from the JSON value."""
    from pyspark.sql import functions as f

    raw = dict(rows.dtypes).get("value") == "binary"
    own = {name: f.col(name).cast("string") for name in fields if name in rows.columns}
    text = f.col("value").cast("string") if raw else f.lit(None).cast("string")
    other = {name: f.get_json_object(text, f"$['{name}']") for name in fields if name not in own}
    size = f.coalesce(f.octet_length("value"), f.lit(0)) if raw else f.lit(0)
    named = [column.alias(f"_{name}") for name, column in (own | other).items()]
    return rows.select("topic", "timestamp", size.alias("bytes"), *named)


def per_hour(rows: DataFrame, distinct: Sequence[str]) -> DataFrame:
    """Aggregates per topic and hour: start, topic, records, bytes, and a sketch `distinct_FIELD` of each field."""
    from pyspark.sql import functions as f

    return rows.groupBy(f.date_trunc("hour", "timestamp").alias("start"), "topic").agg(
        f.count("*").alias("records"),
        f.sum("bytes").alias("bytes"),
        *(f.hll_sketch_agg(f"_{name}", SKETCH).alias(f"distinct_{name}") for name in distinct),
    )


def per_time(hours: DataFrame, unit: str, distinct: Sequence[str]) -> DataFrame:
    """Aggregates the result of `per_hour` per topic and hour or day (`unit`): start, topic, records, bytes,
    `distinct_FIELD`.

    Distinct values are estimates, mostly within 2 %.
    """
    from pyspark.sql import functions as f

    counts = (f.hll_sketch_estimate(f.hll_union_agg(f"distinct_{n}")).alias(f"distinct_{n}") for n in distinct)
    return (
        hours.groupBy(f.date_trunc(unit, "start").alias("start"), "topic")
        .agg(f.sum("records").alias("records"), f.sum("bytes").alias("bytes"), *counts)
        .orderBy("start", "topic")
    )


def leading(rows: DataFrame, fields: Sequence[str], top: int = TOP) -> DataFrame:
    """The most frequent values of each field per day: start, field, rank, name, records."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    each = f.explode(f.array(*(f.struct(f.lit(n).alias("field"), f.col(f"_{n}").alias("name")) for n in fields)))
    day = f.date_trunc("day", "timestamp").alias("start")
    counted = (
        rows.select(day, each.alias("e")).where("e.name is not null").groupBy("start", "e.field", "e.name").count()
    )
    order = Window.partitionBy("start", "field").orderBy(f.desc("count"), "name")
    ranked = counted.select(
        "start", "field", f.row_number().over(order).alias("rank"), "name", f.col("count").alias("records")
    )
    return ranked.where(f.col("rank") <= top).orderBy("start", "field", "rank")


def draw(title: str, hourly: pa.Table, daily: pa.Table, top: pa.Table) -> str:
    """The page, from the aggregates."""
    hours, days = hourly.to_pylist(), daily.to_pylist()
    distinct = [name for name in daily.column_names if name.startswith("distinct_")]
    totals = [sum(row[name] for row in days) for name in ("records", "bytes")]
    facts = [
        Fact(f"{totals[0]:,}", "records"),
        Fact(svg.size(totals[1]), "of values"),
        Fact(f"{len({row['start'] for row in days})}", "days"),
        *(
            Fact(f"{max(row[name] for row in days):,}", f"{words(name)} on the busiest day")
            for name in distinct
            if days
        ),
    ]
    plots = [
        card("Records", svg.lines(series(hours, "records"), svg.plain), note="An hour, by topic."),
        card("Bytes", svg.lines(series(hours, "bytes"), svg.size), note="An hour, by topic; values only."),
        *(
            card(
                words(name).capitalize(), svg.lines(series(hours, name), svg.plain), note="Distinct, an hour, by topic."
            )
            for name in distinct
        ),
    ]
    head = ["day", "topic", "records", "bytes", *map(words, distinct)]
    rows = [
        [f"{row['start']:%Y-%m-%d}", row["topic"], f"{row['records']:,}", svg.size(row["bytes"]),
         *(f"{row[name]:,}" for name in distinct)]
        for row in reversed(days)
    ]  # fmt: skip
    sections = {"By the hour": plots, "By day": [card("Each day", table(head, rows), wide=True)]}
    if top.num_rows:
        sections["Most frequent"] = leaders(top)
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    return page(title, "What the lake table holds, by the time of its records.", facts, sections, f"Made {when} UTC.")


def leaders(top: pa.Table) -> list[str]:
    """Bars of the latest day's most frequent values."""
    rows = top.to_pylist()
    latest = max(row["start"] for row in rows)
    fields = dict.fromkeys(row["field"] for row in rows)
    cards = []
    for field in fields:
        found = [row for row in rows if row["start"] == latest and row["field"] == field][:TOP_SHOWN]
        bars = [(row["name"], float(row["records"])) for row in found]
        cards.append(card(field.capitalize(), svg.bars(bars, svg.plain), note=f"Records of {latest:%Y-%m-%d}."))
    return cards


def words(name: str) -> str:
    """A column's name for people."""
    return name.replace("distinct_", "different ").replace("_", " ")


def series(rows: Sequence[dict[str, Any]], figure: str) -> dict[str, list[svg.Point]]:
    """A figure over time as a line a topic."""
    found: dict[str, list[svg.Point]] = {}
    for row in rows:
        found.setdefault(row["topic"], []).append((row["start"].timestamp(), float(row[figure])))
    return found


class Reports:
    """The step: a report whenever the table has changed, at most one an `interval_ms`."""

    def __init__(self, context: Context, lake: LakeTable, directory: Path) -> None:
        self.interval_ms = int(context.options["every_seconds"] * 1000)
        self._context, self._lake, self._directory = context, lake, directory
        self._reported = -1

    def step(self) -> Did | None:
        """Makes the report. None if the table is as it was."""
        self._lake.refresh()
        if self._lake.version == self._reported or not self._lake.files():
            return None
        began, options = time.monotonic(), self._context.options
        version = self._lake.version
        top, distinct = options["top"], options["distinct"]
        rows = self._rows(list(dict.fromkeys([*top, *distinct])))
        hours = per_hour(rows, distinct).persist()  # aggregates; the table itself is read, not kept
        try:
            hourly, daily = (per_time(hours, unit, distinct).toArrow() for unit in ("hour", "day"))
            most = leading(rows, top).toArrow() if top else pa.table({})
        finally:
            hours.unpersist()
        self._directory.mkdir(parents=True, exist_ok=True)
        for name, found in (("hourly", hourly), ("daily", daily), ("top", most)):
            if found.num_columns:
                replace(self._directory / f"{name}.parquet", found)
        text = draw(options["title"], hourly, daily, most)
        replace(self._directory / "report.html", text)
        self._reported = version
        return Did(sum(daily.column("records").to_pylist()), 0, time.monotonic() - began)

    def _rows(self, fields: Sequence[str]) -> DataFrame:
        """The table's rows with what the report needs of them: read once for the counts and once for the leaders."""
        from penstock.spark.lake.rows import rows_of
        from penstock.spark.session import parallelism

        spark = self._context.spark
        found = rows_of(spark, self._lake, columns_for(self._lake.columns, fields), parallelism(spark))
        return with_fields(found, fields)

    def close(self) -> None:
        """Nothing is held."""


def replace(path: Path, content: pa.Table | str) -> None:
    """Writes a file whole, then puts it in the place of the last."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if isinstance(content, str):
            fresh.write_text(content, encoding="utf-8")
        else:
            pq.write_table(content, fresh)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def run(context: Context) -> Sequence[Reports]:
    """Makes the step."""
    from penstock.spark.lake.open import open_table

    options = context.options
    stores = {name: str(value) for name, value in options["storage_options"].items()}
    lake = open_table(options["table"], context.name, format="auto", create=False, storage_options=stores)
    return [Reports(context, lake, Path(options["to"] or context.directory / "report"))]


JOB = Job(
    run,
    (
        Option("table", str, REQUIRED, "The table of a load, Delta or Iceberg.", example="lake/clicks"),
        Option("to", str, None, "Directory for the files (default: `report` in the pipeline's directory)."),
        Option("title", str, "What the lake holds", "The page's title."),
        Option("top", list, ["page", "country"], "Fields of which the most frequent values are listed."),
        Option("distinct", list, ["user"], "Fields of which different values are counted."),
        Option("storage_options", Mapping, {}, "Of the object store and the catalog: [options.storage_options]."),
        Option("every_seconds", float, 300.0, "Minimum interval between reports, in seconds.", at_least=1),
    ),
    doc="Aggregates a lake table by hour and day to Parquet and draws one page of it. Nothing but files come out.",
)
