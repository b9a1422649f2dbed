"""A broker that was killed with a large log: a worker process scans it, and the broker serves others meanwhile."""

from __future__ import annotations

import signal
import urllib.request
from pathlib import Path
from urllib.error import HTTPError

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from e2e.cluster.history import QUIET, create_topic
from support.processes import Cluster, free_ports, wait_until

from penstock.log.limits import RECOVERY_WORKER_MIN_BYTES
from penstock.records.builder import BatchBuilder

RECORDS_PER_BATCH = 64


def fill(segment: Path, size_bytes: int) -> int:
    """Writes batches to an empty segment, and a torn one; returns how many records there are."""
    value = b"x" * 1000
    count = 0
    with segment.open("r+b") as file:
        while file.tell() < size_bytes:
            builder = BatchBuilder(base_offset=count, leader_epoch=0)
            for _ in range(RECORDS_PER_BATCH):
                builder.append(1_700_000_000_000, None, value)
            file.write(builder.build())
            count += RECORDS_PER_BATCH
        file.write(builder.build()[:1000])
    return count


def workers_of(pid: int) -> list[psutil.Process]:
    """The worker processes of a broker."""
    return [child for child in psutil.Process(pid).children() if "penstock.server.worker_main" in child.cmdline()]


def stopped_workers(pid: int) -> bool:
    """Stops the workers that a broker has, so that what they do does not end; whether there were any."""
    workers = workers_of(pid)
    for worker in workers:
        worker.send_signal(signal.SIGSTOP)
    return bool(workers)


def end_offset(bootstrap: str) -> int | None:
    """Where the large log ends; None while nobody can say."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", **QUIET})
    try:
        return consumer.get_watermark_offsets(TopicPartition("large", 0), timeout=10)[1]
    except KafkaException:
        return None
    finally:
        consumer.close()


def get(port: int, path: str) -> str:
    """What the HTTP endpoint of a broker says."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
            said: bytes = answer.read()
    except HTTPError as error:
        said = error.read()
    return said.decode()


def left_to_recover(port: int, what: str, directory: Path) -> int:
    """A sample of how far the recovery of a log directory is."""
    name = f'kafka_log_logmanager_remaining{what}torecover{{dir="{directory}"}} '
    (line,) = [line for line in get(port, "/metrics").splitlines() if line.startswith(name)]
    return int(float(line.removeprefix(name)))


@pytest.mark.slow
def test_a_large_log_is_recovered_by_a_worker_while_the_broker_answers_others(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with Cluster(tmp_path, 1, penstock_metrics_listener=f"127.0.0.1:{port}") as cluster:
        create_topic(cluster.bootstrap, "large", 1, 1)
        segment = cluster.path(1) / "data" / "large-0" / "00000000000000000000.log"
        wait_until(segment.parent.exists, "the log has a directory")
        cluster.kill(1)
        segment.touch()
        count = fill(segment, RECOVERY_WORKER_MIN_BYTES)
        cluster.start(1)
        wait_until(lambda: stopped_workers(cluster.processes[1].pid), "a worker has begun")
        cluster.wait_ready(1)
        data = cluster.path(1) / "data"
        assert f"recovering {data}: 1 of " in get(port, "/readyz")
        assert left_to_recover(port, "logs", data) == 1
        assert left_to_recover(port, "segments", data) == 1
        for worker in workers_of(cluster.processes[1].pid):
            worker.send_signal(signal.SIGCONT)
        create_topic(cluster.bootstrap, "small", 1, 1)
        wait_until(lambda: end_offset(cluster.bootstrap) == count, "all of the log is there, but for the torn batch")
        assert get(port, "/readyz") == "ready\n"
        assert left_to_recover(port, "logs", data) == left_to_recover(port, "segments", data) == 0
        assert "worker started" in cluster.log(1)
        assert "a worker has failed" not in cluster.log(1)
        assert "no worker can be started" not in cluster.log(1)
        assert "a task has failed" not in cluster.log(1)
        (worker,) = workers_of(cluster.processes[1].pid)
        cluster.kill(1)
        wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "no worker is left")
        cluster.start(1)
        cluster.wait_ready(1)
