"""The job `reports`: aggregates that are right, a page that stands on its own, and no work when nothing changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyarrow.parquet as pq

from penstock.spark.jobs import reports
from penstock.spark.load.load import Load, LoadOptions
from penstock.testing.broker import LocalBroker

from .conftest import ContextOf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NOON_MS = 1_769_860_800_000
HOUR_MS = 3_600_000


def publish(broker: LocalBroker, topic: str, hours: int) -> None:
    """Ten records an hour: eight of page /a, two of a page with a name that must be escaped, by two users."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for hour in range(hours):
        for i in range(10):
            value = {"page": "/a" if i < 8 else "/<b>", "user": f"u{i % 2}", "country": "DE"}
            producer.produce(topic, json.dumps(value).encode(), timestamp=NOON_MS + hour * HOUR_MS + i)
    assert producer.flush(30) == 0


def test_a_report_of_a_loads_table(
    spark: SparkSession, broker: LocalBroker, context_of: ContextOf, tmp_path: Path
) -> None:
    broker.create_topic("visits")
    publish(broker, "visits", 14)  # until two at night
    lake = str(tmp_path / "lake")
    with Load(spark, LoadOptions(broker.bootstrap, ["visits"], lake, "test")) as load:
        while load.run_job() is not None:
            pass
    (step,) = reports.run(context_of(reports.JOB, table=lake, to=str(tmp_path / "report")))
    did = step.step()
    assert did is not None
    assert did.rows == 140
    assert step.step() is None
    step.close()

    hourly, daily, top = (pq.read_table(tmp_path / "report" / f"{n}.parquet") for n in ("hourly", "daily", "top"))
    assert hourly.column("records").to_pylist() == [10] * 14
    assert daily.column("records").to_pylist() == [120, 20]
    assert daily.column("distinct_user").to_pylist() == [2, 2]
    leading = [(r["field"], r["rank"], r["name"], r["records"]) for r in top.to_pylist()[:3]]
    assert leading == [("country", 1, "DE", 120), ("page", 1, "/a", 96), ("page", 2, "/<b>", 24)]
    text = (tmp_path / "report" / "report.html").read_text()
    assert not re.search(r"https?://|@import|url\(|<script|<b>/", text)
    assert "/&lt;b&gt;" in text
    assert text.count("<polyline") >= 3
    assert sorted(path.name for path in (tmp_path / "report").iterdir()) == [
        "daily.parquet", "hourly.parquet", "report.html", "top.parquet"
    ]  # fmt: skip
