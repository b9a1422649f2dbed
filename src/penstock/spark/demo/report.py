"""The demo's report: what the lake tables hold, aggregated by Spark, drawn as one page."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.spark import svg
from penstock.spark.lake import LakeTable
from penstock.spark.page import card, page, table
from penstock.spark.verify import PartitionVerdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPERATIONS = """kind string, host string, time_ms bigint, core int, busy_percent double, load_1m double,
    total_bytes bigint, used_bytes bigint, disk string, read_bytes_per_s double, write_bytes_per_s double,
    interface string, in_bytes_per_s double, out_bytes_per_s double, pid int, name string, cpu_percent double,
    resident_bytes bigint"""
ACTIVITY = """kind string, time_ms bigint, api string, requests bigint, mean_ms double, topic string,
    records_in bigint, bytes_in bigint, bytes_out bigint"""


@dataclass(frozen=True, slots=True)
class Ran:
    """What the report tells beside the tables: how the run went."""

    bootstrap: str
    seconds: float
    jobs: Sequence[float]
    """Seconds of each job that committed."""


def rows_of(spark: SparkSession, lake: LakeTable) -> DataFrame:
    """A lake table's rows, from the files of its current version."""
    files = [os.path.join(lake.directory, path) for path in data_files(lake)]
    return spark.read.parquet(*files)


def data_files(lake: LakeTable) -> list[str]:
    """The data files of a table's current version, relative to it."""
    actions = lake.table.get_add_actions()
    return [str(path) for path in actions.column("path").to_pylist()]


def events(spark: SparkSession, lake: LakeTable, schema: str) -> DataFrame:
    """A table's JSON values as columns, with when each was published."""
    from pyspark.sql import functions as f

    parsed = rows_of(spark, lake).select(f.from_json(f.col("value").cast("string"), schema).alias("e"))
    return parsed.select("e.*", (f.col("e.time_ms") / 1000).cast("bigint").alias("at"))


def make_report(
    spark: SparkSession, operations: LakeTable, activity: LakeTable, verdicts: Sequence[PartitionVerdict], ran: Ran
) -> str:
    """The page. Every figure comes out of the lake tables through Spark, but for the verdict and the job times."""
    machine = events(spark, operations, OPERATIONS).cache()
    broker = events(spark, activity, ACTIVITY).cache()
    rows = sum(verdict.rows for verdict in verdicts)
    clean = all(verdict.clean for verdict in verdicts)
    jobs = sorted(ran.jobs)
    facts = [
        (f"{rows:,}", "records in the lake"),
        (f"{len(jobs)}", "atomic commits"),
        (svg.milliseconds(jobs[len(jobs) // 2] * 1000) if jobs else "-", "a job, median"),
        (f"{ran.seconds:.0f} s", "of publishing and loading"),
        ("clean" if clean else "NOT CLEAN", "verified from the tables alone"),
    ]
    cards = [*machine_cards(machine), *broker_cards(broker), latest_card(spark, ran.bootstrap), verdict_card(verdicts)]
    when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    lead = (
        f"{when}. This machine's operational data and the broker's own activity were published as records, loaded into "
        "two Delta tables by Spark, exactly once, and read back from there for this page."
    )
    return page("What flowed through Penstock", lead, facts, cards)


def machine_cards(machine: DataFrame) -> list[str]:
    """CPU, memory, network, disks and processes over time."""
    cpu = over_time(machine, "cpu", "core", "busy_percent", "avg", named=lambda core: f"core {core}")
    memory = over_time(machine, "memory", "host", "used_bytes", "max")
    total = machine.where("kind = 'memory'").agg({"total_bytes": "max"}).first()
    network = over_time(machine, "network", "interface", "in_bytes_per_s", "avg")
    disks = over_time(machine, "disk", "disk", "write_bytes_per_s", "avg")
    processes = (
        machine.where("kind = 'process'")
        .groupBy("name")
        .agg({"cpu_percent": "sum", "resident_bytes": "max"})
        .orderBy("sum(cpu_percent)", ascending=False)
        .limit(10)
        .collect()
    )
    readings = max(1, machine.where("kind = 'memory'").count())
    top = [(row["name"], row["sum(cpu_percent)"] / readings) for row in processes]
    resident = [(row["name"], float(row["max(resident_bytes)"])) for row in processes]
    return [
        card("CPU", svg.lines(cpu, svg.percent, top=100), note="Busy share of each core."),
        card("Memory in use", svg.lines(memory, svg.size, top=float(total[0]) if total and total[0] else None)),
        card("Network, received", svg.lines(network, svg.rate), note="Each interface; loopback carries the demo."),
        card("Disks, written", svg.lines(disks, svg.rate)),
        card("Processes by CPU", svg.bars(top, svg.percent), note="Mean over the run; 100 % is one core."),
        card("The same processes, memory", svg.bars(sorted(resident, key=lambda each: -each[1]), svg.size)),
    ]


def broker_cards(broker: DataFrame) -> list[str]:
    """Requests and topics of the broker."""
    requests = over_time(broker, "request", "api", "requests", "sum")
    records = over_time(broker, "topic", "topic", "records_in", "sum")
    slowest = (
        broker.where("kind = 'request'")
        .selectExpr("api", "requests", "requests * mean_ms as spent")
        .groupBy("api")
        .sum("requests", "spent")
        .orderBy("sum(requests)", ascending=False)
        .collect()
    )
    lines = [
        [row["api"], f"{row['sum(requests)']:,}", svg.milliseconds(row["sum(spent)"] / row["sum(requests)"])]
        for row in slowest
    ]
    return [
        card("Requests to the broker", svg.lines(requests, svg.plain), note="By API, a second."),
        card("Records published", svg.lines(records, svg.plain), note="By topic, a second."),
        card(
            "What clients asked",
            table(["API", "requests", "mean time"], lines),
            note="A fetch waits for data: its time is mostly waiting.",
        ),
    ]


def latest_card(spark: SparkSession, bootstrap: str) -> str:
    """Straight from the topics, not from the lake: `spark.read.format("penstock")`."""
    live = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribePattern", "operations|activity")
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
    return card("In the topics now", table(["topic", "partition", "records", "latest"], rows), note="Read by Spark.")


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


def over_time(
    frame: DataFrame, kind: str, by: str, value: str, how: str, *, named: Callable[[Any], str] = str
) -> dict[str, list[svg.Point]]:
    """One figure of one kind of event, a second and a name; the names with most of it first."""
    rows = frame.where(f"kind = '{kind}'").groupBy("at", by).agg({value: how}).orderBy("at").collect()
    series: dict[str, list[svg.Point]] = defaultdict(list)
    for at, name, figure in rows:
        series[named(name)].append((float(at), float(figure or 0)))
    order = sorted(series, key=lambda name: -sum(figure for _, figure in series[name]))
    chosen = order if kind != "cpu" else sorted(series)
    return {name: series[name] for name in chosen[: svg.SERIES_MAX]}
