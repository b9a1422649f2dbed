"""The job `reports`: aggregates that are right, a page that stands on its own, and no work when nothing changed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

import pyarrow.parquet as pq

from penstock.pipelines.jobs import reports
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


@pytest.mark.slow
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_a_column_that_came_later_is_null_before_and_counted_since(
    spark: SparkSession, broker: LocalBroker, context_of: ContextOf, tmp_path: Path, table_format: str
) -> None:
    """Files of before have no such column, and files of a table by date not even the date."""
    pytest.importorskip("pyiceberg", reason="needs penstock[iceberg]")
    topic, lake = f"grown-{table_format}", str(tmp_path / "lake")
    broker.create_topic(topic)
    options = LoadOptions(
        broker.bootstrap, [topic], lake, "test", format="json", table_format=table_format, partition_by_date=True
    )
    with Load(None, options) as load:
        for extra in ({}, {"browser": "x", "value": 7}):
            producer = Producer({"bootstrap.servers": broker.bootstrap})
            for i in range(10):
                producer.produce(topic, json.dumps({"page": f"/{i % 2}", **extra}).encode(), timestamp=NOON_MS + i)
            assert producer.flush(30) == 0
            while load.run_job() is not None:
                pass
    given = {"table": lake, "to": str(tmp_path / "report"), "top": ["browser", "page"], "distinct": ["browser"]}
    (step,) = reports.run(context_of(reports.JOB, **given))
    assert step.step() is not None
    hourly, top = (pq.read_table(tmp_path / "report" / f"{n}.parquet").to_pylist() for n in ("hourly", "top"))
    assert [(row["records"], row["bytes"], row["distinct_browser"]) for row in hourly] == [(20, 0, 1)]
    leading = [(row["field"], row["name"], row["records"]) for row in top]
    assert leading == [("browser", "x", 10), ("page", "/0", 10), ("page", "/1", 10)]


STORE = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print("http://{}:{}".format(*server.get_host_and_port()), flush=True)
sys.stdin.read()
server.stop()
"""


@contextmanager
def object_store() -> Iterator[str]:
    """A store in a process of its own: delta-rs holds Python's lock while it waits for an answer."""
    command = [sys.executable, "-c", STORE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate("", timeout=30)


@pytest.mark.slow
def test_a_report_of_a_table_in_an_object_store(
    spark: SparkSession, context_of: ContextOf, tmp_path: Path, broker: LocalBroker
) -> None:
    """Spark has no client for the store: its tasks read with the table's own options."""
    pytest.importorskip("moto.server", reason="needs penstock[test]")
    with object_store() as endpoint:
        urllib.request.urlopen(urllib.request.Request(f"{endpoint}/lake", method="PUT")).close()
        store = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1", "AWS_ALLOW_HTTP": "true"}
        store |= {"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "nothing"}
        broker.create_topic("stored")
        publish(broker, "stored", 2)
        options = LoadOptions(broker.bootstrap, ["stored"], "s3://lake/stored", "test", storage_options=store)
        with Load(None, options) as load:
            assert load.run_job() is not None
        given = {"table": "s3://lake/stored", "to": str(tmp_path / "report"), "storage_options": store}
        (step,) = reports.run(context_of(reports.JOB, **given))
        assert step.step() is not None
    hourly = pq.read_table(tmp_path / "report" / "hourly.parquet")
    assert hourly.column("records").to_pylist() == [10, 10]
