"""Declared pipelines in one local session: a stream with dead letters beside a load, restarted, resumed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from penstock.client.client import Client
from penstock.client.groups import describe_group, lags
from penstock.testing.broker import LocalBroker

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from deltalake import DeltaTable

from penstock.pipelines import monitor as states
from penstock.pipelines.monitor import Monitor, Report
from penstock.pipelines.reach import unreachable
from penstock.pipelines.reading import read_pipelines
from penstock.pipelines.runner import Fleet, Running, epoch_ms
from penstock.spark.lake.open import open_table
from penstock.spark.lake.verify import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

JOB = """
from pyspark.sql import functions as f

def run(context):
    text = f.col("value").cast("string")
    rows = context.read("{topic}", includeHeaders="true")
    good, bad = context.split(rows, f.when(text.startswith("bad"), f.concat(f.lit("no: "), text)))
    upper = good.select("key", f.upper(text).cast("binary").alias("value"))
    return [context.write(upper, "{topic}.out", query="out"), *context.dead_letters(bad)]
"""
LOAD = '[pipeline]\njob = "load"\n[kafka]\nbootstrap = "{at}"\n[options]\ntopics = ["{topic}"]\ntable = "lake"\n'
STREAM = (
    '[pipeline]\njob = "job.py:run"\ncommit_offsets = true\n[kafka]\nbootstrap = "{at}"\n[restart]\nbackoff_ms = 1\n'
    "[dead_letters]\n"
)


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        for topic in ("a", "a.out", "b", "b.out", "b.dead", "c"):
            broker.create_topic(topic, 1)
        yield broker


def publish(broker: LocalBroker, topic: str, first: int, end: int) -> None:
    """Every tenth is bad."""
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(first, end):
        producer.produce(topic, value=f"{'bad' if n % 10 == 0 else 'good'} {n}", headers=[("n", str(n))], partition=0)
    assert producer.flush(30) == 0


def records(broker: LocalBroker, topic: str) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "enable.auto.commit": False})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
        consumer.assign([TopicPartition(topic, 0, low)])
        return consumer.consume(high - low, timeout=20) if high > low else []
    finally:
        consumer.close()


def places(broker: LocalBroker, group: str) -> list[tuple[int, int]]:
    """Committed offset and lag of a group in each partition."""

    async def ask() -> list[tuple[int, int]]:
        async with Client(broker.bootstrap) as client:
            return [(each.committed, each.lag) for each in await lags(client, await describe_group(client, group))]

    return asyncio.run(ask())


def run_once(spark: SparkSession, tmp_path: Path, *files: Path) -> list[Report]:
    pipelines, problems = read_pipelines(files, tmp_path / "state")
    assert not problems
    assert not unreachable(pipelines)
    stop = threading.Event()
    running = [Running(each, Monitor(each.name, each.job_name, 1, epoch_ms()), stop, once=True) for each in pipelines]
    fleet = Fleet(running, stop)
    fleet.start(spark)
    fleet.join()
    return [each.monitor.report(epoch_ms()) for each in running]


def declared(tmp_path: Path, broker: LocalBroker, topic: str, letters: str) -> tuple[Path, Path]:
    (tmp_path / "job.py").write_text(JOB.format(topic=topic))
    stream, load = tmp_path / "stream.toml", tmp_path / "lake.toml"
    stream.write_text(STREAM.format(at=broker.bootstrap) + letters)
    load.write_text(LOAD.format(at=broker.bootstrap, topic=topic))
    return stream, load


@pytest.mark.slow
def test_a_stream_and_a_load_share_a_session_and_dead_letters_go_to_a_table(
    tmp_path: Path, broker: LocalBroker, spark: SparkSession
) -> None:
    files = declared(tmp_path, broker, "a", 'table = "dead"\n')
    publish(broker, "a", 0, 100)
    first = run_once(spark, tmp_path, *files)
    assert [(each.state, each.error) for each in first] == [(states.DONE, "")] * 2
    assert first[1].rows == 100
    letters = DeltaTable(str(tmp_path / "dead")).to_pyarrow_table().sort_by("offset").to_pylist()
    assert [(row["topic"], row["offset"], row["reason"]) for row in letters[:2]] == [
        ("a", 0, "no: bad 0"),
        ("a", 10, "no: bad 10"),
    ]
    publish(broker, "a", 100, 150)  # a second run goes on where the first ended
    again = run_once(spark, tmp_path, *files)
    assert again[1].rows == 50
    assert len(records(broker, "a.out")) == 135
    assert DeltaTable(str(tmp_path / "dead")).to_pyarrow_table().num_rows == 15
    lake = open_table(str(tmp_path / "lake"), "lake", create=False)
    assert [(verdict.rows, verdict.clean) for verdict in verify(lake)] == [(150, True)]
    publish(broker, "a", 150, 153)
    groups = ("lake", "stream.out", "stream.dead-letters")
    assert [places(broker, group) for group in groups] == [[(150, 3)]] * 3, "how far each is, while none runs"


@pytest.mark.slow
def test_dead_letters_to_a_topic_keep_their_headers_and_a_deleted_checkpoint_doubles_none_in_a_table(
    tmp_path: Path, broker: LocalBroker, spark: SparkSession
) -> None:
    stream, _ = declared(tmp_path, broker, "b", 'topic = "b.dead"\n')
    publish(broker, "b", 0, 20)
    assert run_once(spark, tmp_path, stream)[0].state == states.DONE
    dead = records(broker, "b.dead")
    assert [record.value() for record in dead] == [b"bad 0", b"bad 10"]
    headers = dict(dead[1].headers())
    assert (headers["n"], headers["penstock.dead.reason"]) == (b"10", b"no: bad 10")
    assert (headers["penstock.dead.topic"], headers["penstock.dead.offset"]) == (b"b", b"10")
    stream.write_text(STREAM.format(at=broker.bootstrap) + 'table = "dead"\n')
    for _ in range(2):
        for checkpoint in (tmp_path / "state" / "stream" / "checkpoints").iterdir():
            checkpoint.rename(tmp_path / f"{checkpoint.name}.{len(list(tmp_path.iterdir()))}")
        assert run_once(spark, tmp_path, stream)[0].state == states.DONE
    assert DeltaTable(str(tmp_path / "dead")).to_pyarrow_table().num_rows == 2
    assert len(records(broker, "b.out")) == 3 * 18  # at least once: a topic gets them again


@pytest.mark.slow
def test_the_command_shows_its_state_refuses_a_second_copy_and_stops_cleanly(
    tmp_path: Path, broker: LocalBroker
) -> None:
    publish(broker, "c", 0, 100)
    _, file = declared(tmp_path, broker, "c", "")
    environment = {**os.environ, "PENSTOCK_STATE": str(tmp_path / "state")}
    words = [sys.executable, "-m", "penstock", "pipeline"]
    run = [*words, "run", str(file), "--master", "local[1]", "--spark-log", str(tmp_path / "spark.log")]

    def status() -> Any:
        done = subprocess.run([*words, "status", str(file), "--json"], env=environment, capture_output=True, check=True)
        return (json.loads(done.stdout) or [{"state": "", "rows": 0}])[0]

    with subprocess.Popen(run, env=environment, stderr=subprocess.PIPE, text=True) as first:
        deadline = time.monotonic() + 180
        while status()["rows"] < 100 and time.monotonic() < deadline:
            assert first.poll() is None
        told = status()
        assert (told["state"], told["live"], told["rows"], told["pid"]) == ("running", True, 100, first.pid)
        second = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
        assert second.returncode == 1
        assert f"pipeline lake runs already, as process {first.pid}" in second.stderr
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 0
    told = status()
    assert (told["state"], told["live"], told["rows"]) == ("stopped", False, 100)


def test_validate_asks_the_brokers_for_the_topics(tmp_path: Path, broker: LocalBroker) -> None:
    file = tmp_path / "p.toml"
    file.write_text(LOAD.format(at=broker.bootstrap, topic="a.outt"))
    pipelines, _ = read_pipelines([file], tmp_path)
    told = [problem.text for problem in unreachable(pipelines)]
    assert told == [f"topics is a.outt: there is no such topic at {broker.bootstrap}; did you mean a.out?"]
    file.write_text(LOAD.format(at="127.0.0.1:1", topic="a"))
    pipelines, _ = read_pipelines([file], tmp_path)
    assert unreachable(pipelines)[0].text.startswith("[kafka] bootstrap: ")
