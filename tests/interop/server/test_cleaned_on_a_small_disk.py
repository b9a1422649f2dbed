"""A compacted log that is larger than what its disk has free, under a real broker: it is cleaned all the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic
from interop.clients.drivers import Confluent
from interop.server.test_full_disk import FULL, TIMEOUT_S, metric
from support.file_systems import small_file_system
from support.processes import Cluster, free_ports, wait_until

DISK_BYTES = 64 << 20
SEGMENT_BYTES = 1 << 20
RECORDS = 4_000
SUPERSEDED = range(2_000, 3_000)
VALUE_BYTES = 10_000
"""The log has 40 MB, of which 30 MB stay, and some 24 MB are free. Only later parts of a pass make more room."""
PASSES = "penstock_log_cleaner_passes_total"
UNCLEANABLE = "kafka_log_logcleanermanager_uncleanable_partitions_count{"


PART = "users-0: cleaned the segments from"
pytestmark = pytest.mark.slow


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    with small_file_system(tmp_path / "disk", DISK_BYTES) as path:
        yield path


def value_of(number: int) -> bytes:
    return (b"%d " % number).ljust(VALUE_BYTES, b"x")


def key_of(number: int) -> bytes:
    """The last thousand records have the keys of those before."""
    return b"%d" % (number if number < SUPERSEDED.stop else number - len(SUPERSEDED))


def compact(bootstrap: str) -> None:
    """Switches compaction on for the topic, as somebody may whose disk has become full."""
    entries = [("cleanup.policy", "compact"), ("min.cleanable.dirty.ratio", "0.01")]
    changes = [ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET) for name, value in entries]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "users", incremental_configs=changes)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(TIMEOUT_S)


def settings(tmp_path: Path, disk: Path, metrics: str) -> dict[str, object]:
    return {
        "log_dirs": disk / "data",
        "metadata_log_dir": tmp_path / "metadata",
        "log_cleaner_backoff_ms": 200,
        "log_initial_task_delay_ms": 200,
        "replica_high_watermark_checkpoint_interval_ms": 100,
        "penstock_metrics_listener": metrics,
    }


def fill(cluster: Cluster, disk: Path) -> int:
    """Writes the log; returns its bytes."""
    config = {"segment.bytes": str(SEGMENT_BYTES), "file.delete.delay.ms": "300"}
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for future in admin.create_topics([NewTopic("users", 1, 1, config=config)]).values():
        future.result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce("users", value_of(number), key_of(number), partition=0)
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0
    assert log_bytes(disk) > RECORDS * VALUE_BYTES > 1.5 * shutil.disk_usage(disk).free
    return log_bytes(disk)


def log_bytes(disk: Path) -> int:
    return sum(path.stat().st_size for path in (disk / "data" / "users-0").glob("*.log"))


def check_cleaned(bootstrap: str) -> list[bytes | None]:
    """Returns what is read: the last value of every key, and little more."""
    values = Confluent().values(bootstrap, "users", 0, 1)
    numbers = [int(value.split()[0]) for value in values if value is not None]
    assert numbers == sorted(set(numbers))
    assert set(range(RECORDS)) - set(SUPERSEDED) <= set(numbers)
    assert len(numbers) < RECORDS - len(SUPERSEDED) // 2
    return values


def test_a_log_that_is_larger_than_what_is_free_is_cleaned(tmp_path: Path, disk: Path) -> None:
    metrics = f"127.0.0.1:{free_ports(1)[0]}"
    with Cluster(tmp_path / "nodes", combined=1, **settings(tmp_path, disk, metrics)) as cluster:
        before = fill(cluster, disk)
        compact(cluster.bootstrap)
        wait_until(lambda: metric(metrics, PASSES) == 1, "a pass is in use", TIMEOUT_S)
        said = cluster.log(1)
        assert said.count(f"{PART} 0 to before") == 1
        assert said.count(PART) >= 2
        assert "cannot be cleaned" not in said
        assert "is full" not in said
        assert metric(metrics, UNCLEANABLE) == metric(metrics, FULL) == 0
        wait_until(lambda: log_bytes(disk) < before - len(SUPERSEDED) * VALUE_BYTES // 2, "old segments are gone")
        check_cleaned(cluster.bootstrap)


def test_a_broker_that_is_killed_in_and_between_parts_loses_nothing_and_cleans_the_log(
    tmp_path: Path, disk: Path
) -> None:
    metrics = f"127.0.0.1:{free_ports(1)[0]}"

    def is_writing() -> bool:
        return any((disk / "data" / "users-0").glob("*.log.cleaned"))

    with Cluster(tmp_path / "nodes", combined=1, **settings(tmp_path, disk, metrics)) as cluster:
        fill(cluster, disk)
        compact(cluster.bootstrap)

        for number in range(4):
            if number % 2:
                count = cluster.log(1).count(PART) + 1
                wait_until(lambda count=count: cluster.log(1).count(PART) >= count, "a part is in use", TIMEOUT_S)
            else:
                wait_until(is_writing, "a part is being written", TIMEOUT_S)
            cluster.kill(1)
            cluster.start(1)
            cluster.wait_ready(1)
        wait_until(lambda: metric(metrics, PASSES) == 1, "a pass is in use", TIMEOUT_S)
        values = check_cleaned(cluster.bootstrap)
        assert not is_writing()
        cluster.kill(1)
        cluster.start(1)
        cluster.wait_ready(1)
        assert Confluent().values(cluster.bootstrap, "users", 0, 1) == values
