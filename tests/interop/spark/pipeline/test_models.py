"""Models on real Spark: runs that add only what is new, tests that stop what depends on them, backfills beside them."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.testing.broker import LocalBroker

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from unit.pipelines.test_models import QUERIES

from penstock.errors import ConfigError
from penstock.pipelines import monitor as states
from penstock.pipelines.models.backfill import Backfill, backfilled
from penstock.pipelines.models.page import page_of
from penstock.pipelines.models.references import tables_of
from penstock.pipelines.models.results import last_results
from penstock.pipelines.models.step import ModelsStep
from penstock.pipelines.monitor import Monitor, Report
from penstock.pipelines.reading import read_pipeline
from penstock.pipelines.runner import Running, epoch_ms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
TEN = datetime(2026, 1, 31, 10, tzinfo=UTC)
HOUR = timedelta(hours=1)
DECLARED = """
[pipeline]
name = "shop"
[kafka]
bootstrap = "{at}"
[restart]
attempts = 0
[sources.clicks]
topic = "clicks"
format = "json"
schema = "page string"
event_time = "timestamp"
[lake]
directory = "lake"
[alarm]
command = ["{python}", "-c", "import sys; open(r'{told}', 'a').write(sys.stdin.read())"]

[models.named]
sql = "select partition, offset, timestamp, value.page as page from clicks"
[models.views]
sql = "select * from named"
materialized = "incremental"
event_time = "timestamp"
tests = [
  {{ not_null = "page" }},
  {{ unique = ["partition", "offset"] }},
  {{ row_count = "clicks" }},
  {{ accepted_values = "page", values = ["a", "b"] }},
]
[models.per_hour]
sql = "select date_trunc('HOUR', timestamp) as hour, page, count(*) as views from named group by 1, 2"
materialized = "incremental"
unique_key = ["hour", "page"]
event_time = "hour"
tests = [{{ row_count = "clicks", sum = "views" }}]
[models.total]
sql = "select page, count(*) as views from views group by page"
materialized = "table"
[models.copies]
python = "copies.py:model"
materialized = "incremental"
tests = [{{ freshness = "timestamp", error_after_seconds = 60, severity = "warn" }}]
"""
COPIES = "def model(dbt, session):\n    return dbt.ref('views').where(\"page = 'a'\")\n"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        broker.create_topic("clicks", 2, {"retention.ms": "-1"})  # what is published is months old
        yield broker


def publish(broker: LocalBroker, pages: str, start: datetime) -> None:
    """A view of each page, a minute apart, over both partitions."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n, page in enumerate(pages):
        at = int((start + n * timedelta(minutes=1)).timestamp() * 1000)
        producer.produce("clicks", value=json.dumps({"page": page}), partition=n % 2, timestamp=at)
    assert producer.flush(30) == 0


def run_once(spark: SparkSession, tmp_path: Path) -> Report:
    pipeline, problems = read_pipeline(tmp_path / "shop.toml", tmp_path / "state")
    assert pipeline is not None, problems
    running = Running(pipeline, Monitor("shop", "models", 1, epoch_ms()), threading.Event(), once=True)
    running.run(spark)
    return running.monitor.report(epoch_ms())


def rows(tmp_path: Path, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = DeltaTable(str(tmp_path / "lake" / table)).to_pyarrow_table(columns=list(columns)).to_pylist()
    return sorted(tuple(row.values()) for row in found)


def statuses(tmp_path: Path) -> dict[str, str]:
    return {
        f"{each.step} {each.test}": each.status
        for each in last_results(str(tmp_path / "lake" / "test_results"), "shop", {})
    }


def test_models_from_the_first_run_to_a_failed_test_and_a_backfill(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path
) -> None:
    told = tmp_path / "told"
    (tmp_path / "copies.py").write_text(COPIES)
    (tmp_path / "shop.toml").write_text(DECLARED.format(at=broker.bootstrap, python=sys.executable, told=told))
    publish(broker, "aab", TEN)
    first = run_once(spark, tmp_path)
    assert (first.state, first.error) == (states.DONE, "")
    publish(broker, "ab", TEN + HOUR)
    publish(broker, "b", TEN)  # late
    assert run_once(spark, tmp_path).state == states.DONE
    hours = [(TEN, "a", 2), (TEN, "b", 2), (TEN + HOUR, "a", 1), (TEN + HOUR, "b", 1)]
    assert rows(tmp_path, "per_hour", "hour", "page", "views") == hours
    assert rows(tmp_path, "total", "page", "views") == [("a", 3), ("b", 3)]
    assert rows(tmp_path, "copies", "page") == [("a",)] * 3
    assert statuses(tmp_path)["views row_count(clicks)"] == "pass"
    assert statuses(tmp_path)["copies freshness(timestamp)"] == "warn"
    assert not told.exists()

    live = a_backfill_makes_a_damaged_range_right(spark, tmp_path)
    a_failed_test_stops_what_depends_on_it(spark, broker, tmp_path, told)
    page = page_of(live.project, "shop", last_results(live.project.results, "shop", {}))
    assert "accepted_values(page)" in page
    assert "://" not in page.replace("http://www.w3.org", "")


def a_backfill_makes_a_damaged_range_right(spark: SparkSession, tmp_path: Path) -> ModelsStep:
    pipeline, _ = read_pipeline(tmp_path / "shop.toml", tmp_path / "state")
    assert pipeline is not None
    assert pipeline.project is not None
    context = Running(pipeline, Monitor("shop", "models", 1, 0), threading.Event()).context(spark)
    live = ModelsStep(context, pipeline.project)
    right = {name: rows(tmp_path, *columns) for name, columns in TABLES.items()}
    for name, (table, *_) in TABLES.items():
        damage(tmp_path / "lake" / table)
        assert rows(tmp_path, *TABLES[name]) != right[name]
    assert [each.status for each in live.test(["views"]) if each.test.startswith("unique")] == ["fail"]
    lines: list[str] = []
    for _ in range(2):
        for name in TABLES:
            model = backfilled(pipeline.project, name, TEN, TEN + HOUR)
            assert Backfill(live, model, context.stop, lines.append).run(TEN, TEN + HOUR)
        assert {name: rows(tmp_path, *columns) for name, columns in TABLES.items()} == right
    assert len(lines) == 4
    with pytest.raises(ConfigError, match="is within a batch: model views has one a hour"):
        backfilled(pipeline.project, "views", TEN + timedelta(minutes=1), TEN + HOUR)
    with pytest.raises(ConfigError, match="model total is a table: each run makes it anew"):
        backfilled(pipeline.project, "total", TEN, TEN + HOUR)
    return live


TABLES = {
    "views": ("views", "partition", "offset", "timestamp", "page"),
    "per_hour": ("per_hour", "hour", "page", "views"),
}


def damage(path: Path) -> None:
    """Rows of ten o'clock are there twice, or have wrong counts."""
    table = DeltaTable(str(path)).to_pyarrow_table()
    if "views" in table.column_names:
        counts = pa.array([n + 90 if at == TEN else n for n, at in zip(*_of(table, "views", "hour"), strict=True)])
        worse = table.set_column(table.column_names.index("views"), "views", counts)
        write_deltalake(str(path), worse, mode="overwrite")
    else:
        ten = [row for row in table.to_pylist() if row["timestamp"] < TEN + HOUR]
        write_deltalake(str(path), pa.Table.from_pylist(ten, schema=table.schema), mode="append")


def _of(table: Any, *columns: str) -> list[list[Any]]:
    return [table[name].to_pylist() for name in columns]


def a_failed_test_stops_what_depends_on_it(
    spark: SparkSession, broker: LocalBroker, tmp_path: Path, told: Path
) -> None:
    publish(broker, "xa", TEN + 2 * HOUR)
    report = run_once(spark, tmp_path)
    assert report.state == states.FAILED
    assert "views accepted_values(page): fail, 1 failures: accepted: a, b" in report.error
    assert (TEN + 2 * HOUR, "x", 1) in rows(tmp_path, "per_hour", "hour", "page", "views"), "nothing else is stopped"
    assert rows(tmp_path, "total", "page", "views") == [("a", 3), ("b", 3)], "what depends on it is"
    assert statuses(tmp_path)["total run"] == statuses(tmp_path)["copies run"] == "skipped"
    alarms = [json.loads(line) for line in told.read_text().splitlines()]
    failed = [each for each in alarms if each["test"] == "accepted_values(page)"]
    assert [(each["step"], each["status"], each["failures"]) for each in failed] == [("views", "fail", 1)]
    assert json.loads(failed[0]["sample"])[0]["page"] == "x"


def test_spark_finds_the_same_tables_in_a_query(spark: SparkSession) -> None:
    parser = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[union-attr]
    for query in QUERIES:
        plan = parser.parsePlan(query).toString()
        named = {name.replace(", ", ".") for name in re.findall(r"UnresolvedRelation \[([^\]]*)\]", plan)}
        ours = set(tables_of(query))
        assert ours <= named, plan
        expressions = set(re.findall(r"(?:with|,) (\w+)(?:\([^)]*\))? as \(", query))
        assert named - ours <= expressions, plan
