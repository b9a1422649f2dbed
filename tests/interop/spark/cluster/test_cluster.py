"""Pipelines on a real standalone cluster: the same counts, and clean tables, also when executors are killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka import Producer

from penstock.testing.broker import LocalBroker

pytest.importorskip("deltalake", reason="needs penstock[spark]")
pytest.importorskip("pyspark", reason="needs penstock[spark]")

from penstock.errors import PenstockError
from penstock.pipelines.state import read_status
from penstock.spark.cluster import ClusterError, ClusterState, SparkCluster, down
from penstock.spark.java import find_java
from penstock.spark.lake.open import open_table
from penstock.spark.lake.verify import verify

pytestmark = pytest.mark.spark

WORKER_MB = 700
RECORDS = 60_000
PARTITIONS = 2
BUSY_S = 240
BACKLOG_RECORDS = 400_000
"""So far a load may be behind while its executors are killed: what is left is loaded within `BUSY_S` afterwards."""
KILLS = [pytest.param(name, kills, marks=pytest.mark.long) for name, kills in {"delta": 20, "iceberg": 10}.items()]
"""Formats, and how often executors are killed under a load. A kill costs more than ten seconds of a processor."""
FILE = """
[pipeline]
name = "{name}"
job = "{job}"
interval_ms = 0
[kafka]
bootstrap = "{bootstrap}"
[options]
{options}
[spark]
spark.executor.memory = "512m"
"""
COPY = """
def run(context):
    copied = context.read("in").select("key", "value")
    return [context.write(copied, "out", query="copy")]
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker() as broker:
        yield broker


@pytest.fixture
def cluster(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[SparkCluster]:
    """Two workers of one core; with Spark Connect where the test's parameter says so."""
    try:
        find_java()
    except PenstockError as error:
        pytest.skip(str(error))
    connect = getattr(request, "param", False)
    settings = {"spark.executor.memory": "512m"}
    with SparkCluster(tmp_path / "cluster", workers=2, memory_mb=WORKER_MB, connect=connect, settings=settings) as it:
        yield it


def publish(broker: LocalBroker, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 20})
    for number in range(records):
        producer.produce(topic, value=b"value %d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0


def declared(tmp_path: Path, broker: LocalBroker, name: str, job: str, options: str) -> Path:
    file = tmp_path / f"{name}.toml"
    file.write_text(FILE.format(name=name, job=job, bootstrap=broker.bootstrap, options=options))
    return file


def load_of(tmp_path: Path, broker: LocalBroker, topic: str, table_format: str = "delta") -> Path:
    """A load whose jobs are too large to run in the driver."""
    options = f'topics = ["{topic}"]\ntable = "lake"\ntable_format = "{table_format}"\noffsets_per_job = 30000'
    return declared(tmp_path, broker, "lake", "load", options)


def started(tmp_path: Path, *arguments: object) -> subprocess.Popen[bytes]:
    """`penstock pipeline run` as a process of its own: a session on a cluster excludes the tests' local one."""
    words = [sys.executable, "-m", "penstock", "pipeline", "run", "--state", tmp_path / "state"]
    log = ("--spark-log", tmp_path / "spark.log")
    return subprocess.Popen([str(word) for word in (*words, *log, *arguments)], cwd=tmp_path)


def rows_and_verdict(tmp_path: Path, table_format: str = "delta") -> tuple[int, bool]:
    verdicts = verify(open_table(str(tmp_path / "lake"), "lake", format=table_format, create=False))
    return sum(verdict.rows for verdict in verdicts), all(verdict.clean for verdict in verdicts)


@pytest.mark.slow
def test_a_load_and_a_stream_run_on_a_cluster(tmp_path: Path, broker: LocalBroker, cluster: SparkCluster) -> None:
    for topic in ("in", "out"):
        broker.create_topic(topic, PARTITIONS)
    publish(broker, "in", RECORDS)
    (tmp_path / "job.py").write_text(COPY)
    files = load_of(tmp_path, broker, "in"), declared(tmp_path, broker, "copy", "job.py:run", "")
    with started(tmp_path, *files, "--once", "--master", cluster.master) as process:
        assert process.wait(BUSY_S) == 0
    assert rows_and_verdict(tmp_path) == (RECORDS, True)
    with pytest.raises(ClusterError, match="runs already"):
        SparkCluster(cluster.directory).up()


@pytest.mark.long
@pytest.mark.parametrize("cluster", [True], indirect=True)
def test_a_load_and_a_stream_run_through_spark_connect(
    tmp_path: Path, broker: LocalBroker, cluster: SparkCluster
) -> None:
    pytest.importorskip("grpc", reason="needs penstock[connect]")
    for topic in ("in", "out"):
        broker.create_topic(f"connect.{topic}", PARTITIONS)
    publish(broker, "connect.in", RECORDS)
    (tmp_path / "job.py").write_text(COPY.replace('"in"', '"connect.in"').replace('"out"', '"connect.out"'))
    files = load_of(tmp_path, broker, "connect.in"), declared(tmp_path, broker, "copy", "job.py:run", "")
    with started(tmp_path, *files, "--once", "--remote", cluster.remote) as process:
        assert process.wait(BUSY_S) == 0
    assert rows_and_verdict(tmp_path) == (RECORDS, True)


@pytest.mark.parametrize(("table_format", "kills"), KILLS)
def test_a_load_survives_kills_of_executors(
    tmp_path: Path, broker: LocalBroker, cluster: SparkCluster, table_format: str, kills: int
) -> None:
    topic = f"killed.{table_format}.{kills}"
    broker.create_topic(topic, PARTITIONS)
    stop = threading.Event()
    published = 0

    def feed() -> None:
        nonlocal published
        while not stop.is_set():
            if published - rows_so_far(tmp_path) < BACKLOG_RECORDS:
                publish(broker, topic, RECORDS)
                published += RECORDS
            stop.wait(1)

    feeder = threading.Thread(target=feed)
    feeder.start()
    file = load_of(tmp_path, broker, topic, table_format)
    try:
        with started(tmp_path, file, "--master", cluster.master) as process:
            killed = kill_executors(cluster, kills, random.Random(7), lambda: rows_so_far(tmp_path), process)
            stop.set()
            feeder.join()
            process.send_signal(signal.SIGTERM)
            process.wait(BUSY_S)
    finally:
        stop.set()
        feeder.join()
    with started(tmp_path, file, "--once", "--master", cluster.master) as process:
        assert process.wait(BUSY_S) == 0
    assert killed == kills
    assert rows_and_verdict(tmp_path, table_format) == (published, True)


@pytest.mark.long
def test_a_load_survives_workers_that_go_and_come(tmp_path: Path, broker: LocalBroker, cluster: SparkCluster) -> None:
    """Both workers are killed one after the other, and one that came in between does the rest."""
    broker.create_topic("workers", PARTITIONS)
    publish(broker, "workers", BACKLOG_RECORDS)
    file = load_of(tmp_path, broker, "workers")
    first, second = (psutil.Process(each.pid) for each in cluster.members if each.name.startswith("worker"))
    with started(tmp_path, file, "--master", cluster.master) as process:

        def wait(what: Callable[[], bool]) -> None:
            deadline = time.monotonic() + BUSY_S
            while not what():
                assert process.poll() is None
                assert time.monotonic() < deadline, (tmp_path / "spark.log").read_text()[-3000:]
                time.sleep(0.1)  # leaves the load the processor

        wait(lambda: rows_so_far(tmp_path) > 0 and bool(executors_of(first)) and bool(executors_of(second)))
        kill_worker(first)
        newcomer = psutil.Process(cluster.add_worker().pid)
        wait(lambda: bool(executors_of(newcomer)))
        publish(broker, "workers", BACKLOG_RECORDS)  # faster than it is loaded: there is work left for the newcomer
        kill_worker(second)
        wait(lambda: rows_so_far(tmp_path) >= 2 * BACKLOG_RECORDS)
        process.send_signal(signal.SIGTERM)
        process.wait(BUSY_S)
    assert rows_and_verdict(tmp_path) == (2 * BACKLOG_RECORDS, True)


def kill_worker(worker: psutil.Process) -> None:
    """As if its host had gone: the worker, and then its executors before they can notice."""
    executors = executors_of(worker)
    worker.kill()
    for executor in executors:
        executor.kill()


def executors_of(worker: psutil.Process) -> list[psutil.Process]:
    return [child for child in worker.children() if is_executor(child)]


def kill_executors(
    cluster: SparkCluster, kills: int, random_: random.Random, rows: Callable[[], int], run: subprocess.Popen[bytes]
) -> int:
    """Kills an executor of this cluster at a random moment, each time that the load has got further; how often."""
    killed, seen, deadline = 0, 0, time.monotonic() + BUSY_S + 60 * kills
    while killed < kills and time.monotonic() < deadline and run.poll() is None:
        if (now := rows()) == seen:
            time.sleep(0.1)
            continue
        seen = now
        time.sleep(random_.uniform(0, 2))
        workers = [psutil.Process(each.pid) for each in cluster.members if each.name.startswith("worker")]
        executors = [executor for worker in workers for executor in executors_of(worker)]
        if executors:
            os.kill(random_.choice(executors).pid, signal.SIGKILL)
            killed += 1
    return killed


def rows_so_far(tmp_path: Path) -> int:
    known = read_status(tmp_path / "state" / "lake")
    return known.report.rows if known else 0


def is_executor(process: psutil.Process) -> bool:
    try:
        return any("CoarseGrainedExecutorBackend" in word for word in process.cmdline())
    except psutil.Error:
        return False


def test_down_ends_only_what_its_file_names(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as stranger:
        at = psutil.Process(stranger.pid).create_time()
        state = {"name": "worker-1", "pid": stranger.pid, "started": at - 100}  # the pid is used anew
        ClusterState("spark://127.0.0.1:1", "", "", 1, 1, ()).write(tmp_path)
        text = (
            (tmp_path / "cluster.json").read_text().replace('"members": []', f'"members": [{state}]'.replace("'", '"'))
        )
        (tmp_path / "cluster.json").write_text(text)
        assert down(tmp_path) == []
        assert stranger.poll() is None
        stranger.kill()
