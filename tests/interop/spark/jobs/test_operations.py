"""The job `operations`: rollups that are right, alerts when something is beyond or changes, a summary."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.pipelines.jobs import operations
from penstock.pipelines.jobs.operations import Rule
from penstock.pipelines.jobs.tables import rows_of
from penstock.testing.broker import LocalBroker

from .conftest import ContextOf, consumed, finish, publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 31, 12, tzinfo=UTC)
START_MS = int(START.timestamp() * 1000)


def reading(seconds: float, kind: str, **fields: Any) -> bytes:
    return json.dumps({"time_ms": START_MS + int(seconds * 1000), "host": "h", "kind": kind, **fields}).encode()


def rolled(spark: SparkSession, *values: bytes) -> DataFrame:
    rows = spark.createDataFrame([(value,) for value in values], "value binary")
    return operations.rollups(operations.measurements(operations.judged(rows, 300)))


def test_every_number_is_rolled_up_per_10_s_minute_and_hour(spark: SparkSession) -> None:
    rows = rolled(
        spark,
        reading(1, "cpu", core=0, busy_percent=10.0, pid=7, note="warm"),
        reading(9, "cpu", core=0, busy_percent=30),
        reading(10, "cpu", core=0, busy_percent=50),
        reading(1, "request", api="Fetch", requests=5, mean_ms="NaN"),
    ).collect()
    found = {
        (r.seconds, (r.start.replace(tzinfo=UTC) - START).seconds, r.service, r.metric): (
            r["count"], r.sum, r.min, r.max, r.last
        )
        for r in rows
    }  # fmt: skip
    cpu, fetch = ("cpu 0", "cpu.busy_percent"), ("request Fetch", "request.requests")
    assert found == {
        (10, 0, *cpu): (2, 40, 10, 30, 30), (10, 10, *cpu): (1, 50, 50, 50, 50),
        (60, 0, *cpu): (3, 90, 10, 50, 50), (3600, 0, *cpu): (3, 90, 10, 50, 50),
        **{(seconds, 0, *fetch): (1, 5, 5, 5, 5) for seconds in (10, 60, 3600)},
    }  # fmt: skip


def test_a_rule_is_broken_beyond_its_limit_only(spark: SparkSession) -> None:
    rows = rolled(spark, reading(1, "cpu", busy_percent=80), reading(61, "cpu", busy_percent=95))
    broken = operations.beyond(rows, [Rule.parse("cpu.busy_percent mean > 90 over 60")]).collect()
    assert [((row.began.replace(tzinfo=UTC) - START).seconds, row.value, row.usual) for row in broken] == [(60, 95, 90)]


def test_a_jump_is_a_change_and_noise_is_none(spark: SparkSession) -> None:
    steady = [reading(10 * i, "disk", disk="a", write_bytes_per_s=100 + i % 3) for i in range(12)]
    rows = rolled(spark, *steady, reading(120, "disk", disk="a", write_bytes_per_s=900))
    (row,) = operations.changed(rows, deviations=6.0).collect()
    assert (row.service, row.value, (row.began.replace(tzinfo=UTC) - START).seconds) == ("disk a", 900, 120)
    assert row.usual == pytest.approx(101)


def test_a_rule_that_is_none_is_told_before_anything_runs() -> None:
    (wrong,) = operations.check({"rules": ["cpu.busy_percent mean > 90 over 60", "cpu is hot"]})
    assert wrong.startswith("rules: 'cpu is hot' is no rule: it must be METRIC STATISTIC SIGN NUMBER over SECONDS")


@pytest.mark.slow
def test_rollups_alerts_and_summary_after_a_stop_in_the_middle(broker: LocalBroker, context_of: ContextOf) -> None:
    for topic in ("metrics", "operations-alerts"):
        broker.create_topic(topic)
    context = context_of(operations.JOB, topics=["metrics"], alerts_topic="operations-alerts")
    first = [reading(i, "cpu", core=0, busy_percent=91 + i % 7) for i in range(25)]
    second = [reading(i, "cpu", core=0, busy_percent=91 + i % 7) for i in range(25, 60)]
    for values in ([*first, b"garbage"], second):
        publish(broker, "metrics", values)
        finish(operations.run(context))
    expected = [91 + i % 7 for i in range(60)]

    def table(name: str) -> list[dict[str, Any]]:
        rows = rows_of(str(context.directory / "tables" / name))
        assert rows is not None
        return rows.to_pylist()

    rows = table("rollups")
    for seconds, count in ((10, 6), (60, 1), (3600, 1)):
        some = [row for row in rows if row["seconds"] == seconds]
        assert (len(some), sum(row["count"] for row in some), sum(row["sum"] for row in some)) == (
            count,
            60,
            sum(expected),
        )
    (line,) = table("summary")
    assert (line["count"], line["mean"], line["max"]) == (60, pytest.approx(sum(expected) / 60), 97)
    (alert,) = consumed(broker, "operations-alerts")
    assert json.loads(alert.value())["rule"] == "cpu.busy_percent mean > 90 over 60"
    assert {m.value() for m in consumed(broker, "dead")} == {b"garbage"}


def test_the_summary_is_of_the_last_hour_also_after_a_batch_of_late_rows_only(
    broker: LocalBroker, context_of: ContextOf
) -> None:
    """Rows that come late count in their rollups, and in the summary only if the hour before the newest has them."""
    broker.create_topic("late-metrics")
    context = context_of(operations.JOB, topics=["late-metrics"], late_seconds=7200)
    for values in (
        [reading(0, "cpu", core=0, busy_percent=10), reading(5400, "cpu", core=0, busy_percent=20)],
        [reading(60, "cpu", core=0, busy_percent=30)],
    ):
        publish(broker, "late-metrics", values)
        finish(operations.run(context))
        rows = rows_of(str(context.directory / "tables" / "summary"))
        assert rows is not None
        (line,) = rows.to_pylist()
        assert ((line["since"] - START).total_seconds(), line["count"], line["mean"]) == (5400, 1, 20)
    rollups = rows_of(str(context.directory / "tables" / "rollups"), filters=[("seconds", "=", 60)])
    assert rollups is not None
    assert sorted(rollups["sum"].to_pylist()) == [10, 20, 30]
