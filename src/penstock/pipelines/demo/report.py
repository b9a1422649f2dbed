"""The demo's report: what the lake tables hold, aggregated by Spark, drawn as one page."""

from __future__ import annotations

import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from penstock.pipelines.demo.results import Results
from penstock.pipelines.drawing import svg
from penstock.pipelines.drawing.page import Fact, card, page, table
from penstock.spark.lake.delta import DeltaLake
from penstock.spark.lake.verify import PartitionVerdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Series = dict[str, list[svg.Point]]

ROWS = "timestamp timestamp, value binary"
"""The columns of the tables that the report needs."""
OPERATIONS = """kind string, host string, time_ms bigint, core int, busy_percent double, load_1m double,
    total_bytes bigint, used_bytes bigint, disk string, read_bytes_per_s double, write_bytes_per_s double,
    interface string, in_bytes_per_s double, out_bytes_per_s double, pid int, name string, cpu_percent double,
    resident_bytes bigint"""
ACTIVITY = """kind string, time_ms bigint, api string, requests bigint, mean_ms double, topic string,
    records_in bigint, bytes_in bigint, bytes_out bigint"""


FIGURES = ("requests", "records_in", "bytes_in", "bytes_out")


@dataclass(frozen=True, slots=True)
class Job:
    """A job that committed: of which topic, when (epoch seconds), how long it took, and its rows."""

    topic: str
    at: float
    seconds: float
    rows: int


@dataclass(frozen=True, slots=True)
class Ran:
    """The facts in the report that are not from tables: how the run went."""

    bootstrap: str
    published: int
    seconds: float
    jobs: Sequence[Job]


def rows_of(spark: SparkSession, lake: DeltaLake) -> DataFrame:
    """A lake table's rows, from the files of its current version, each with the name of its file as `file`."""
    files = [os.path.join(lake.uri, path) for path in data_files(lake)]
    return spark.read.schema(ROWS).parquet(*files).select("*", "_metadata.file_name")


def data_files(lake: DeltaLake) -> list[str]:
    """The data files of a table's current version, relative to it."""
    actions = lake.table.get_add_actions()
    return [str(path) for path in actions.column("path").to_pylist()]


def events(spark: SparkSession, lake: DeltaLake, schema: str) -> DataFrame:
    """A table's JSON values as columns, with when each was published, in epoch seconds, as `at`."""
    from pyspark.sql import functions as f

    parsed = rows_of(spark, lake).select(f.from_json(f.col("value").cast("string"), schema).alias("e"))
    return parsed.select("e.*", (f.col("e.time_ms") / 1000).alias("at"))


def make_report(
    spark: SparkSession,
    tables: tuple[DeltaLake, DeltaLake],
    verdicts: Sequence[PartitionVerdict],
    ran: Ran,
    results: Results,
    *,
    proceed: Callable[[], None] = lambda: None,
) -> str:
    """The page from the tables of operations and of activity, and from what the pipelines found. Every figure comes
    out of tables, but for the verdict and the times of jobs and batches.

    `proceed` is called between the parts and may raise, to end early.
    """
    operations, activity = tables
    spark.conf.set("spark.sql.shuffle.partitions", "1")  # minutes of one machine: a task more costs more than it shares
    delays = {name: delay(spark, lake) for name, lake in (("operations", operations), ("activity", activity))}
    proceed()
    topics_card = latest_card(spark, ran.bootstrap)
    lake_cards = [delay_card(delays), *job_cards(ran.jobs), results.batch_card(), topics_card, verdict_card(verdicts)]
    machine = machine_cards(events(spark, operations, OPERATIONS))
    proceed()
    broker = broker_cards(events(spark, activity, ACTIVITY))
    proceed()
    clean = all(verdict.clean for verdict in verdicts)
    every = sorted(each for some in delays.values() for _, each in some)
    jobs = sorted(job.seconds for job in ran.jobs)
    facts = [
        Fact("clean" if clean else "NOT CLEAN", "no offset missing, none twice", "good" if clean else "bad"),
        Fact(f"{sum(verdict.rows for verdict in verdicts):,}", f"rows in the lake, of {ran.published:,} published"),
        *results.facts(),
        Fact(f"{len(jobs)}", f"atomic commits in {ran.seconds:.0f} s"),
        Fact(svg.milliseconds(jobs[len(jobs) // 2] * 1000) if jobs else "-", "a job, median"),
        Fact(svg.milliseconds(every[len(every) // 2]) if every else "-", "from published to in the lake, median"),
    ]
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    lead = (
        "This machine's operational data, the broker's own activity and clicks of generated visitors were published as "
        "records, loaded into Delta tables by Spark, exactly once, and analysed by three pipelines meanwhile. The "
        "page is made from the tables."
    )
    sections = {
        "The visitors": results.visitors(),
        "Crawlers and abuse": results.abuse(),
        "Operations": results.operations(),
        "The lake": lake_cards,
        "The machine": machine,
        "The broker": broker,
    }
    return page("What flowed through Penstock", lead, facts, sections, f"Made {when} UTC; all times are UTC.")


def delay(spark: SparkSession, lake: DeltaLake) -> list[svg.Point]:
    """A point a reading: when it was published, and the milliseconds until its file was committed to the table.

    What was published before the first commit waited for Spark to start and is left out.
    """
    from pyspark.sql import functions as f

    actions = lake.table.get_add_actions()
    names, times = actions.column("path").to_pylist(), actions.column("modification_time").to_pylist()
    committed = {str(name): int(at) for name, at in zip(names, times, strict=True)}  # epoch milliseconds
    first = min(committed.values())
    published = (f.col("timestamp").cast("double") * 1000).alias("published_ms")
    rows = rows_of(spark, lake).select("file_name", published).groupBy("file_name", "published_ms").count().collect()
    points = {
        row.published_ms / 1000: float(committed[row.file_name] - row.published_ms)
        for row in rows
        if row.published_ms >= first
    }
    return sorted(points.items())


def delay_card(delays: Mapping[str, list[svg.Point]]) -> str:
    """How fresh the tables are."""
    return card(
        "From published to in the lake",
        svg.lines(delays, svg.milliseconds),
        note="Until the commit; a job of each table begins every second.",
    )


def job_cards(jobs: Sequence[Job]) -> list[str]:
    """The cards that show what the jobs did."""
    spent: dict[str, list[svg.Point]] = defaultdict(list)
    rows: dict[str, list[svg.Point]] = defaultdict(list)
    first: dict[str, float] = {}
    for job in jobs:
        if job.topic in first:
            spent[job.topic].append((job.at, job.seconds * 1000))
        first.setdefault(job.topic, job.seconds)
        rows[job.topic].append((job.at, (rows[job.topic][-1][1] if rows[job.topic] else 0) + job.rows))
    slowest = svg.milliseconds(max(first.values(), default=0.0) * 1000)
    note = f"Plan, fetch, decode, write Parquet, commit. Not shown: the first, which starts the workers ({slowest})."
    return [
        card("Each job", svg.lines(spent, svg.milliseconds), note=note),
        card("Rows in the lake", svg.lines(rows, svg.plain), note="After each commit, by table."),
    ]


def machine_cards(machine: DataFrame) -> list[str]:
    """CPU, memory, network, disks and processes over time."""
    name = "coalesce(cast(core as string), disk, interface, host) as name"
    figure = "coalesce(busy_percent, used_bytes, write_bytes_per_s, in_bytes_per_s) as figure"
    readings = (
        machine.where("kind <> 'process'")
        .selectExpr("kind", "at", name, figure, "total_bytes")
        .groupBy("kind", "name", "at")
        .agg({"figure": "avg", "total_bytes": "max"})
        .collect()
    )
    processes = (
        machine.where("kind = 'process'")
        .groupBy("name")
        .agg({"cpu_percent": "sum", "resident_bytes": "max"})
        .orderBy("sum(cpu_percent)", ascending=False)
        .limit(8)
        .collect()
    )
    cpu, memory, network, disks = (
        series_of((row.name, row.at, row["avg(figure)"]) for row in readings if row.kind == kind)
        for kind in ("cpu", "memory", "network", "disk")
    )
    moments = max(1, len({row.at for row in readings}))
    total = max((row["max(total_bytes)"] for row in readings if row.kind == "memory"), default=None)
    cores = {f"core {core}": cpu[core] for core in sorted(cpu, key=int)}
    top = [(row["name"], row["sum(cpu_percent)"] / moments) for row in processes]
    resident = [(row["name"], float(row["max(resident_bytes)"])) for row in processes]
    return [
        card("CPU", svg.lines(cores, svg.percent, top=100), note="Busy share of each core."),
        card("Memory in use", svg.lines(memory, svg.size), note=f"Of {svg.size(total)}." if total else ""),
        card("Network, received", svg.lines(network, svg.rate), note="Each interface; loopback carries the demo."),
        card("Disks, written", svg.lines(disks, svg.rate), note="Each device."),
        card("Processes by CPU", svg.bars(top, svg.percent), note="Mean over the run; 100 % is one core."),
        card(
            "The same processes, memory",
            svg.bars(sorted(resident, key=lambda each: -each[1]), svg.size),
            note="Resident, at most.",
        ),
    ]


def broker_cards(broker: DataFrame) -> list[str]:
    """Requests and topics of the broker."""
    rows = (
        broker.selectExpr("kind", "at", "coalesce(api, topic) as name", "requests * mean_ms as spent", *FIGURES)
        .groupBy("kind", "name", "at")
        .sum("spent", *FIGURES)
        .collect()
    )
    readings = sorted({row.at for row in rows})

    def series(kind: str, figure: str) -> Series:
        found = series_of((row.name, row.at, row[f"sum({figure})"]) for row in rows if row.kind == kind)
        return rates(found, readings)

    asked: dict[str, tuple[int, float]] = {}
    for row in rows:
        if row.kind == "request":
            requests, spent = asked.get(row.name, (0, 0.0))
            asked[row.name] = (requests + row["sum(requests)"], spent + row["sum(spent)"])
    lines = [
        [api, f"{requests:,}", mean(spent / requests)]
        for api, (requests, spent) in sorted(asked.items(), key=lambda each: -each[1][0])
    ]
    volume = {
        "in": total_of(series("topic", "bytes_in").values()),
        "out": total_of(series("topic", "bytes_out").values()),
    }
    note = "Compressed, as producers sent them."
    return [
        card("Requests to the broker", svg.lines(series("request", "requests"), svg.plain), note="By API, a second."),
        card("Records published", svg.lines(series("topic", "records_in"), svg.plain), note="By topic, a second."),
        card("Bytes through the broker", svg.lines(volume, svg.rate), note=note),
        card(
            "What clients asked",
            table(["API", "requests", "mean time"], lines),
            note="A fetch waits for data: its time is mostly waiting.",
        ),
    ]


def mean(milliseconds: float) -> str:
    """A mean of times that the broker counts in whole milliseconds."""
    return svg.milliseconds(milliseconds) if milliseconds >= 0.1 else "< 0.1 ms"


def series_of(figures: Iterable[tuple[str, float, float | None]]) -> Series:
    """(name, time, figure) as a line a name: those with most of it first, those with none left out."""
    series: Series = defaultdict(list)
    for name, at, figure in figures:
        series[name].append((float(at), float(figure or 0)))
    order = sorted(series, key=lambda name: -sum(figure for _, figure in series[name]))
    busy = [name for name in order if any(figure for _, figure in series[name])] or order[:1]
    return {name: sorted(series[name]) for name in busy[: svg.SERIES_MAX]}


def total_of(series: Iterable[Sequence[svg.Point]]) -> list[svg.Point]:
    """The sum of several lines at each moment."""
    found: dict[float, float] = defaultdict(float)
    for points in series:
        for at, value in points:
            found[at] += value
    return sorted(found.items())


def rates(series: Series, readings: Sequence[float]) -> Series:
    """What happened since the reading before, as a second's worth; at a reading without a point nothing did."""
    found = {}
    for name, points in series.items():
        counts = dict(points)
        found[name] = [
            (now, counts.get(now, 0.0) / max(1e-3, now - before)) for before, now in itertools.pairwise(readings)
        ]
    return found


def latest_card(spark: SparkSession, bootstrap: str) -> str:
    """Straight from the topics, not from the lake: `spark.read.format("penstock")`."""
    live = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribePattern", "operations|activity|clicks|alerts|page-counts")
        .load()
        .groupBy("topic", "partition")
        .agg({"offset": "max", "timestamp": "max", "value": "count"})
        .orderBy("topic", "partition")
        .collect()
    )
    rows = [
        [row["topic"], str(row["partition"]), f"{row['count(value)']:,}", row["max(timestamp)"].strftime("%H:%M:%S")]
        for row in live
    ]
    return card(
        "In the topics now",
        table(["topic", "partition", "records", "latest"], rows),
        note="Read from the broker with spark.read.",
    )


def verdict_card(verdicts: Sequence[PartitionVerdict]) -> str:
    """The proof, partition by partition."""
    rows = [
        [
            *(verdict.topic, str(verdict.partition), f"{verdict.start:,}", f"{verdict.end:,}", f"{verdict.rows:,}"),
            *(f"{verdict.missing:,}", f"{verdict.duplicates:,}", "clean" if verdict.clean else "NOT CLEAN"),
        ]
        for verdict in verdicts
    ]
    head = ["topic", "partition", "from", "to", "rows", "missing", "double", "verdict"]
    marks = ["good" if verdict.clean else "bad" for verdict in verdicts]
    return card("Every offset exactly once", table(head, rows, marks=marks), wide=True)
