"""A broker that stops or is killed under its clients: they go on, nothing is lost, nothing is there twice."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from interop.clients.drivers import Confluent
from support.processes import free_ports

from penstock.testing.broker import LocalBroker

TIMEOUT_S = 30.0
PARTITIONS = 2
BEFORE, DURING = 2_000, 4_000
"""Records whose acknowledgement is awaited before the broker goes down, and records that are on their way then."""


class Dev:
    """`penstock dev` as a process of its own, on a data directory and a port that are kept."""

    def __init__(self, data: Path) -> None:
        self.data = data
        (self.port,) = free_ports(1)

    def start(self) -> None:
        options = ["--json", "--port", str(self.port), "--metrics-port", "0", "--data", str(self.data)]
        command = [sys.executable, "-m", "penstock", "dev", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout is not None
        ready = json.loads(self.process.stdout.readline())
        self.bootstrap = str(ready["bootstrap"])

    def stop(self) -> None:
        self.process.terminate()
        self._wait()

    def kill(self) -> None:
        self.process.kill()
        self._wait()

    def _wait(self) -> None:
        self.process.wait(TIMEOUT_S)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Load:
    """An idempotent librdkafka producer with acks=all that counts what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: set[bytes] = set()
        self.failed: list[str] = []
        settings = {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.num.messages": 50,
        }
        self.producer = Producer({**settings, "reconnect.backoff.max.ms": 200, "retry.backoff.max.ms": 200})

    def _delivered(self, error: object, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            value = message.value()
            assert isinstance(value, bytes)
            self.acknowledged.add(value)

    def send(self, first: int, count: int) -> None:
        for number in range(first, first + count):
            self.producer.produce("load", b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)

    def flush(self) -> None:
        assert self.producer.flush(TIMEOUT_S) == 0


@pytest.mark.parametrize("down", [Dev.stop, Dev.kill])
def test_producers_go_on_over_a_restart_without_loss_or_duplicates(tmp_path: Path, down: Callable[[Dev], None]) -> None:
    dev = Dev(tmp_path / "data")
    dev.start()
    try:
        admin = AdminClient({"bootstrap.servers": dev.bootstrap})
        for future in admin.create_topics([NewTopic("load", PARTITIONS, 1)]).values():
            future.result(TIMEOUT_S)
        load = Load(dev.bootstrap)
        load.send(0, BEFORE)
        load.flush()
        load.send(BEFORE, DURING // 2)
        while len(load.acknowledged) < BEFORE + DURING // 10:
            load.producer.poll(1)
        load.send(BEFORE + DURING // 2, DURING // 2)
        before = len(load.acknowledged)
        down(dev)
        dev.start()
        load.flush()
        assert before < BEFORE + DURING, "it went down under load"
        assert load.failed == []
        assert len(load.acknowledged) == BEFORE + DURING
        for partition in range(PARTITIONS):
            there = Confluent().values(dev.bootstrap, "load", partition, (BEFORE + DURING) // PARTITIONS)
            expected = [b"%d" % number for number in range(partition, BEFORE + DURING, PARTITIONS)]
            assert there == expected, "each record once, in order"
    finally:
        dev.kill()


def test_topics_and_their_configs_are_there_after_a_restart(tmp_path: Path) -> None:
    with LocalBroker(data_dir=tmp_path) as broker:
        broker.create_topic("kept", partitions=3, configs={"retention.ms": "123456789"})
        broker.create_topic("gone")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for future in admin.delete_topics(["gone"]).values():
            future.result(TIMEOUT_S)
    with LocalBroker(data_dir=tmp_path) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        topics = admin.list_topics(timeout=TIMEOUT_S).topics
        assert {name: len(topic.partitions) for name, topic in topics.items()} == {"kept": 3}
        (described,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "kept")]).values()
        assert described.result(TIMEOUT_S)["retention.ms"].value == "123456789"
