"""A broker that was killed with a large log: a worker process scans it, and the broker serves others meanwhile."""

from __future__ import annotations

from pathlib import Path

import psutil
from confluent_kafka import Consumer, KafkaException, TopicPartition
from e2e.cluster.history import QUIET, create_topic
from support.processes import Cluster, wait_until

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


def end_offset(bootstrap: str) -> int | None:
    """Where the large log ends; None while nobody can say."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "none", **QUIET})
    try:
        return consumer.get_watermark_offsets(TopicPartition("large", 0), timeout=10)[1]
    except KafkaException:
        return None
    finally:
        consumer.close()


def test_a_large_log_is_recovered_by_a_worker_while_the_broker_answers_others(tmp_path: Path) -> None:
    with Cluster(tmp_path, 1) as cluster:
        create_topic(cluster.bootstrap, "large", 1, 1)
        segment = cluster.path(1) / "data" / "large-0" / "00000000000000000000.log"
        wait_until(segment.parent.exists, "the log has a directory")
        cluster.kill(1)
        segment.touch()
        count = fill(segment, RECOVERY_WORKER_MIN_BYTES)
        cluster.start(1)
        cluster.wait_ready(1)
        create_topic(cluster.bootstrap, "small", 1, 1)
        wait_until(lambda: end_offset(cluster.bootstrap) == count, "all of the log is there, but for the torn batch")
        assert "worker started" in cluster.log(1)
        assert "a worker has failed" not in cluster.log(1)
        assert "no worker can be started" not in cluster.log(1)
        assert "a task has failed" not in cluster.log(1)
        (worker,) = workers_of(cluster.processes[1].pid)
        cluster.kill(1)
        wait_until(lambda: not worker.is_running() or worker.status() == psutil.STATUS_ZOMBIE, "no worker is left")
        cluster.start(1)
        cluster.wait_ready(1)
