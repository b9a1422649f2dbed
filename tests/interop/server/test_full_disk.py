"""A disk that is full for a while under real processes: nothing acknowledged is lost, nothing is there twice."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from interop.clients.drivers import Confluent
from support.file_systems import small_file_system
from support.processes import Cluster, free_ports, wait_until

TIMEOUT_S = 60.0
PARTITIONS = 2
COUNT = 2_000
VALUE = b"x" * 500
DISK_BYTES = 48 << 20
FULL = "penstock_log_directory_full{"
REFUSED = 'kafka_server_brokertopicmetrics_failedproducerequests_total{topic="load"}'


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    with small_file_system(tmp_path / "disk", DISK_BYTES) as path:
        yield path


def fill(disk: Path, free_bytes: int, name: str = "filler") -> Path:
    """Writes a file that leaves so much room."""
    path = disk / name
    with open(path, "wb") as file:
        status = os.statvfs(disk)
        size_bytes = max(0, status.f_bavail * status.f_frsize - free_bytes)
        while size_bytes > 0:
            size_bytes -= os.write(file.fileno(), bytes(min(size_bytes, 1 << 16)))
    return path


class Load:
    """An idempotent librdkafka producer with acks=all that knows what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged = 0
        self.failed: list[str] = []
        settings = {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 50, "retry.backoff.max.ms": 200}
        self.producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 120_000, **settings})

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged += 1

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            value = b"%d " % number + VALUE
            self.producer.produce("load", value, partition=number % PARTITIONS, on_delivery=self._delivered)

    def flush(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0


def read_at_least(bootstrap: str, count: int) -> int:
    """Reads all records, of which there are so many; each is there once, in order. Returns how many there are."""
    found = 0
    for partition in range(PARTITIONS):
        there = Confluent().values(bootstrap, "load", partition, 1)
        numbers = [int(value.split()[0]) for value in there if value is not None]
        assert numbers == list(range(partition, partition + PARTITIONS * len(there), PARTITIONS))
        found += len(there)
    assert found >= count
    return found


def metric(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT_S) as answer:
        lines = answer.read().decode().splitlines()
    return next((float(line.split()[-1]) for line in lines if line.startswith(name)), 0.0)


@pytest.mark.parametrize(
    ("reserve_bytes", "free_bytes", "killed"),
    [
        pytest.param(0, 256 << 10, False, id="a write finds no room", marks=pytest.mark.slow),
        pytest.param(0, 256 << 10, True, id="a write finds no room and the process is killed"),
        pytest.param(4 << 20, 3 << 20, False, id="in the reserve"),
    ],
)
def test_producers_go_on_after_a_full_disk_without_loss_or_duplicates(
    tmp_path: Path, disk: Path, reserve_bytes: int, free_bytes: int, killed: bool
) -> None:
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    settings = {
        "log_dirs": disk / "data",
        "metadata_log_dir": tmp_path / "metadata",
        "offsets_topic_num_partitions": 1,
        "offsets_topic_replication_factor": 1,
        "penstock_log_dir_reserve_bytes": reserve_bytes,
        "penstock_metrics_listener": metrics,
    }
    with Cluster(tmp_path / "nodes", combined=1, **settings) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for future in admin.create_topics([NewTopic("load", PARTITIONS, 1)]).values():
            future.result(TIMEOUT_S)
        load = Load(cluster.bootstrap)
        load.send(0, COUNT)
        load.flush()
        consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "g"})
        consumer.commit(offsets=[TopicPartition("load", 0, 1)], asynchronous=False)

        fillers = [fill(disk, free_bytes)]
        if reserve_bytes:
            wait_until(lambda: metric(metrics, FULL) == 1, "the directory is full")
        load.send(COUNT, COUNT)
        wait_until(lambda: load.producer.poll(0) >= 0 and metric(metrics, REFUSED) > 0, "a producer is refused")
        assert metric(metrics, FULL) == 1
        before = load.acknowledged
        assert COUNT <= before < 2 * COUNT
        assert not reserve_bytes or before == COUNT
        read_at_least(cluster.bootstrap, before)
        if reserve_bytes:
            consumer.commit(offsets=[TopicPartition("load", 0, 2)], asynchronous=False)
        if killed:
            cluster.kill(1)
            fillers.append(fill(disk, 0, "rest"))  # a broker starts without a byte left
            cluster.start(1)
            cluster.wait_ready(1)  # its logs are recovered when there is room

        for filler in fillers:
            filler.unlink()
        load.flush()
        assert load.failed == []
        assert load.acknowledged == 2 * COUNT
        assert "takes records again" in cluster.log(1)
        assert "offline" not in cluster.log(1)
        if reserve_bytes:
            (committed,) = consumer.committed([TopicPartition("load", 0)], TIMEOUT_S)
            assert committed.offset == 2
        consumer.close()
        assert read_at_least(cluster.bootstrap, 2 * COUNT) == 2 * COUNT
        cluster.kill(1)
        cluster.start(1)
        cluster.wait_ready(1)
        assert read_at_least(cluster.bootstrap, 2 * COUNT) == 2 * COUNT
