"""librdkafka, three brokers, and a power failure of all of them: what was acknowledged with `group` is still there."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from support import processes
from support.heard import until_heard
from support.noting_server import lose_power
from support.processes import TIMEOUT_S, Cluster

PARTITIONS = 3
BEFORE = 400
"""Records of each producer that are acknowledged before all brokers die, with as many more on their way."""


class Load:
    """A librdkafka producer and what it was told. Attributes: `acknowledged`, the numbers of records."""

    def __init__(self, bootstrap: str, topic: str, acks: str) -> None:
        self.topic = topic
        self.acknowledged: set[int] = set()
        self.count = 0
        self.producer = Producer(
            {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 1, "enable.idempotence": acks == "all"}
        )

    def go_on(self) -> None:
        """Some more records, and answers to those before."""
        for _ in range(20):
            self.producer.produce(self.topic, str(self.count), on_delivery=self._told)
            self.count += 1
        self.producer.poll(0.002)

    def end(self) -> None:
        """Gives up what nobody has answered."""
        self.producer.poll(0.1)
        self.producer.purge()
        self.producer.flush(TIMEOUT_S)

    def _told(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged.add(int(message.value() or b""))


def read_all(bootstrap: str, topic: str) -> set[int]:
    """The numbers of all records of a topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "nobody", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    found: set[int] = set()
    ended: set[int] = set()
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(ended) < PARTITIONS:
        assert time.monotonic() < deadline_s, f"the end of {topic} was not reached"
        message = consumer.poll(1.0)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found.add(int(message.value() or b""))
        elif error.code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition() or 0)
    consumer.close()
    return found


def create(bootstrap: str) -> None:
    """Topics of three replicas and of one whose records count on disk, and one whose records do not wait."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    group = {"penstock.log.fsync": "group"}
    topics = [
        NewTopic("replicated", PARTITIONS, 3, config={**group, "min.insync.replicas": "2"}),
        NewTopic("single", PARTITIONS, 1, config=group),
        NewTopic("loose", PARTITIONS, 1),
    ]
    for made in admin.create_topics(topics).values():
        made.result(TIMEOUT_S)
    until_heard(bootstrap)
    resource = ConfigResource(ResourceType.TOPIC, "single")
    (described,) = admin.describe_configs([resource]).values()
    assert described.result(TIMEOUT_S)["penstock.log.fsync"].value == "group"


def test_a_power_failure_of_all_machines_takes_nothing_that_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = tmp_path / "fsyncs"
    monkeypatch.setattr(processes, "PENSTOCK", [sys.executable, "-m", "support.noting_server", str(journal)])
    monkeypatch.setenv("PYTHONPATH", str(Path(processes.__file__).parents[1]), prepend=":")
    with Cluster(tmp_path / "nodes", 3) as cluster:
        create(cluster.bootstrap)
        topics = {"replicated": "all", "single": "1", "loose": "1"}
        loads = [Load(cluster.bootstrap, topic, acks) for topic, acks in topics.items()]
        deadline_s = time.monotonic() + TIMEOUT_S
        while min(len(load.acknowledged) for load in loads) < BEFORE:
            assert time.monotonic() < deadline_s, f"acknowledged: {[len(load.acknowledged) for load in loads]}"
            for load in loads:
                load.go_on()
        for id_ in list(cluster.processes):
            cluster.kill(id_)
        for load in loads:
            load.end()
        assert lose_power(tmp_path / "nodes", journal) > 0
        for id_ in cluster.roles:
            cluster.start(id_)
        cluster.wait_ready(*cluster.roles)
        for load in loads:
            lost = load.acknowledged - read_all(cluster.bootstrap, load.topic)
            if load.topic == "loose":
                assert lost, "without it the page cache alone had the records: the failure was one"
            else:
                assert not lost, f"{len(lost)} of {len(load.acknowledged)} records of {load.topic} are gone"
