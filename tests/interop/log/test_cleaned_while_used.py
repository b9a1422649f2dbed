"""Compacted topics of a running cluster: cleaned by every replica for itself, while real clients write and read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from threading import Event

import psutil
import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
)
from support.processes import Cluster, wait_until

TOPIC = "profiles"
KEYS = 50
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.1"}
SETTINGS = {
    "log_cleaner_backoff_ms": 100,
    "log_initial_task_delay_ms": 0,
    "log_segment_delete_delay_ms": 1000,
    "offsets_topic_num_partitions": 1,
    "offsets_topic_segment_bytes": 1 << 20,
}
TIMEOUT_S = 60


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, 3, **SETTINGS) as cluster:
        yield cluster


def cleaned(cluster: Cluster, id_: int, partition: str) -> int:
    """How many passes over a partition a node has taken into use."""
    return cluster.log(id_).count(f"{partition}: cleaned")


def read_all(cluster: Cluster) -> tuple[int, dict[bytes, bytes]]:
    """How many records a reader from the start gets, and the last value of each key."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "reader", "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: dict[bytes, bytes] = {}
    count = 0
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            assert message is not None, "nothing came"
            if message.error():
                assert message.error().name() == "_PARTITION_EOF", message.error()
                return count, found
            count += 1
            if message.value() is None:
                found.pop(message.key(), None)
            else:
                found[message.key()] = message.value()
    finally:
        consumer.close()


@pytest.mark.slow
def test_every_reader_sees_the_last_value_of_every_key(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 1, 3, config=COMPACTED)])[TOPIC].result(TIMEOUT_S)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "batch.size": 16384})
    latest: dict[bytes, bytes] = {}
    number = 0
    partition = f"{TOPIC}-0"

    def write() -> None:
        nonlocal number
        for _ in range(3_000):
            key, value = b"%d" % (number % KEYS), b"%d " % number + b"v" * 500
            producer.produce(TOPIC, value, key, partition=0)
            latest[key] = value
            number += 1
            producer.poll(0)
        assert producer.flush(TIMEOUT_S) == 0

    def all_have_cleaned() -> bool:
        write()
        return all(cleaned(cluster, id_, partition) >= 2 for id_ in cluster.roles)

    def most_is_gone() -> bool:
        """What was written while the passes ran is left to later ones, which need no further writes."""
        count, found = read_all(cluster)
        assert found == latest
        return count < number / 2

    wait_until(all_have_cleaned, "two passes on every node")
    wait_until(most_is_gone, "most records have been cleaned away")
    for id_ in cluster.roles:
        cluster.kill(id_)
    for id_ in cluster.roles:
        cluster.start(id_)
    for id_ in cluster.roles:
        cluster.wait_ready(id_)
    write()
    assert read_all(cluster)[1] == latest


@pytest.mark.slow
def test_offsets_that_groups_have_committed_outlive_the_cleaning_of_their_topic(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, 4, 3)])[TOPIC].result(TIMEOUT_S)
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "careful", "enable.auto.commit": False})
    offset = 0

    def commit_next() -> bool:
        """Whether the next offset is committed; not while the client looks for the coordinator."""
        nonlocal offset
        try:
            after = [TopicPartition(TOPIC, each, offset + 1, metadata="m" * 4000) for each in range(4)]
            consumer.commit(offsets=after, asynchronous=False)
        except KafkaException as error:
            if error.args[0].name() != "_WAIT_COORD":
                raise
            return False
        offset += 1
        return True

    def commit() -> bool:
        for _ in range(100):
            commit_next()
        return all(cleaned(cluster, id_, "__consumer_offsets-0") for id_ in cluster.roles)

    try:
        wait_until(commit_next, "the client knows the coordinator")
        wait_until(commit, "every node has cleaned the offsets")
        for id_ in cluster.roles:
            cluster.stop(id_)
            cluster.start(id_)
            cluster.wait_ready(id_)
        committed = consumer.committed([TopicPartition(TOPIC, each) for each in range(4)], timeout=TIMEOUT_S)
        assert [each.offset for each in committed] == [offset] * 4
    finally:
        consumer.close()


SLOWLY = {**SETTINGS, "log_cleaner_io_max_bytes_per_second": 25_000_000}
"""A pass takes some tenths of a second, long enough to be met in the middle of it; some end before the kill."""
KILLS, ATTEMPTS = 50, 200


def in_passes(cluster: Cluster, id_: int) -> list[psutil.Process]:
    """The workers of a node that are writing new segments."""
    found = []
    for worker in psutil.Process(cluster.processes[id_].pid).children():
        with suppress(psutil.NoSuchProcess):
            if any(file.path.endswith(".cleaned") for file in worker.open_files()):
                found.append(worker)
    return found


@pytest.mark.slow
def test_workers_that_are_killed_in_passes_cost_no_value_and_later_passes_succeed(tmp_path: Path) -> None:
    number = 0
    latest: dict[bytes, bytes] = {}
    struck: list[int] = []
    with Cluster(tmp_path, 1, **SLOWLY, offsets_topic_replication_factor=1) as cluster:
        data = cluster.path(1) / "data" / f"{TOPIC}-0"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=COMPACTED)])[TOPIC].result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})

        def write(count: int) -> None:
            nonlocal number
            for _ in range(count):
                key, value = b"%d" % (number % KEYS), b"%d " % number + b"v" * 500
                producer.produce(TOPIC, value, key, partition=0)
                latest[key] = value
                number += 1
                producer.poll(0)

        def killed() -> bool:
            """Writes on, and kills each worker that is met in a pass."""
            write(100)
            for worker in in_passes(cluster, 1):
                worker.kill()
                struck.append(worker.pid)
            return f"{TOPIC}-0 cannot be cleaned" in cluster.log(1)

        wait_until(killed, "a pass is given up after two tries")
        assert producer.flush(TIMEOUT_S) == 0
        assert len(set(struck)) >= 2
        assert not list(data.glob("*.cleaned"))
        assert read_all(cluster)[1] == latest

        passes = cleaned(cluster, 1, f"{TOPIC}-0")
        change = ConfigEntry("min.cleanable.dirty.ratio", "0.05", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, TOPIC, incremental_configs=[change])
        admin.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
        wait_until(lambda: cleaned(cluster, 1, f"{TOPIC}-0") > passes, "the change has it tried again")
        count, found = read_all(cluster)
        assert found == latest
        assert count < number


@pytest.mark.long
def test_a_broker_that_is_killed_in_passes_has_the_last_value_of_every_key(tmp_path: Path) -> None:
    random = Random(1)
    settings = {**SLOWLY, "offsets_topic_replication_factor": 1}
    in_passes = number = 0
    latest: dict[bytes, bytes] = {}
    with Cluster(tmp_path, 1, **settings) as cluster:
        data = cluster.path(1) / "data" / f"{TOPIC}-0"
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=COMPACTED)])[TOPIC].result(TIMEOUT_S)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "linger.ms": 5})

        def left_by_a_pass() -> list[Path]:
            return [*data.glob("*.cleaned"), *data.glob("*.swap")]

        for _ in range(ATTEMPTS):
            for _ in range(2_500):
                key, value = b"%d" % random.randrange(KEYS), b"%d " % number + b"v" * 500
                producer.produce(TOPIC, value, key, partition=0)
                latest[key] = value
                number += 1
                producer.poll(0)
            assert producer.flush(TIMEOUT_S) == 0
            wait_until(lambda: bool(left_by_a_pass()), "a pass is under way")
            Event().wait(random.random() * random.random())
            cluster.kill(1)
            in_passes += bool(left_by_a_pass())
            cluster.start(1)
            cluster.wait_ready(1)
            assert read_all(cluster)[1] == latest
            assert not list(data.glob("*.swap"))
            if in_passes == KILLS:
                break
        assert in_passes == KILLS
        assert cluster.log(1).count(f"{TOPIC}-0: cleaned") > 0
