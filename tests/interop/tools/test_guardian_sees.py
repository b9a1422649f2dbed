"""What Guardian's leader sees of a cluster: a broker of Penstock, a node of Apache Kafka, one that stands still."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from interop.kafka_peer import KafkaPeer
from support.guardian_process import Guardian
from support.processes import wait_until

from penstock.guardian.model.reading import read_model
from penstock.guardian.plan.model import BYTES, Model
from penstock.testing.broker import LocalBroker

TOPIC, PARTITIONS, RECORDS, RECORD_BYTES = "clicks", 3, 50, 1_000


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    found = Guardian(tmp_path, nodes=1, **{"sample.interval.ms": "300"})
    found.format()
    found.start(1)
    yield found
    for node_id in list(found.processes):
        found.kill(node_id)


def seen_whole(guardian: Guardian, cluster: str) -> dict[str, Any]:
    """The inventory of a cluster, once the leader has seen the topic's data."""
    found: dict[str, Any] = {}

    def whole() -> bool:
        found.update(guardian.json("inventory", cluster))
        topics = {each["name"]: each for each in found["topics"]}
        return (
            TOPIC in topics
            and None not in [found["age_ms"][part] for part in ("disks", "settings")]
            and topics[TOPIC]["bytes"] > RECORDS * RECORD_BYTES
            and topics[TOPIC]["min_insync_replicas"] is not None
        )

    wait_until(whole, "the topic is seen, with its data", timeout_s=20)
    return found


def check(found: dict[str, Any], kind: str, directories: int) -> None:
    assert found["kind"] == kind
    assert found["failures"] == {}
    assert found["kafka_id"]
    summary = found["summary"]
    assert (summary["brokers"], summary["disks"], summary["under_replicated"]) == (1, directories, 0)
    (broker,) = found["brokers"]
    assert broker["controller"]
    assert broker["alive"]
    for disk in found["disks"]:
        assert disk["capacity_bytes"] > disk["usable_bytes"] > 0
        assert 0 <= disk["age_ms"] < 5_000
    topic = next(each for each in found["topics"] if each["name"] == TOPIC)
    assert (topic["partitions"], topic["replicas"], topic["min_insync_replicas"]) == (PARTITIONS, 1, 1)
    assert all(0 <= found["age_ms"][part] < 5_000 for part in ("metadata", "reassignments", "disks"))


def exported(guardian: Guardian, cluster: str, directory: Path) -> Model:
    """The model of a cluster, once anything is known of what is written to it."""

    def watched() -> bool:
        found = guardian.json("model", "export", "--cluster", cluster, "--cpu-cores", "4", str(directory))
        return any("windows of 5 minutes" in each for each in found["estimates"])

    wait_until(watched, "what is written is known", timeout_s=20)
    return read_model(directory).model


def fill(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap})
    for number in range(RECORDS):
        producer.produce(TOPIC, os.urandom(RECORD_BYTES), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def test_penstock_is_seen(guardian: Guardian, tmp_path: Path) -> None:
    with LocalBroker() as broker:
        broker.create_topic(TOPIC, partitions=PARTITIONS)
        fill(broker.bootstrap)
        guardian.said("clusters", "add", "mine", "--kind", "penstock", "--bootstrap", broker.bootstrap)
        check(seen_whole(guardian, "mine"), "penstock", directories=1)
        model = exported(guardian, "mine", tmp_path / "model")
        assert TOPIC in model.topics
        assert model.disks.dirs == (str(broker.data_dir),)
        assert model.load()[:, BYTES].sum() > RECORDS * RECORD_BYTES
        said = guardian.said("inventory", "mine")
        assert f"{TOPIC} " in said
        assert "controller" in said
        guardian.said("clusters", "add", "again", "--bootstrap", broker.bootstrap.replace("127.0.0.1", "localhost"))
        wait_until(lambda: "registered as mine already" in guardian.said("inventory"), "the second is found out")
    wait_until(lambda: "metadata" in guardian.json("inventory", "mine")["failures"], "the broker is gone")
    assert guardian.json("inventory", "mine")["topics"], "what was seen is still told, with its age"


@pytest.mark.slow
@pytest.mark.java
def test_kafka_is_seen_and_one_that_stands_still_is_told(guardian: Guardian, tmp_path: Path) -> None:
    with KafkaPeer(log_directories=2) as kafka, LocalBroker() as broker:
        kafka.create_topic(TOPIC, PARTITIONS)
        fill(kafka.bootstrap)
        guardian.said("clusters", "add", "theirs", "--kind", "kafka", "--bootstrap", kafka.bootstrap)
        guardian.said("clusters", "add", "mine", "--kind", "penstock", "--bootstrap", broker.bootstrap)
        check(seen_whole(guardian, "theirs"), "kafka", directories=2)
        model = exported(guardian, "theirs", tmp_path / "model")
        assert len(model.disks.dirs) == 2
        plan = guardian.json("plan", "--cluster", "theirs", "--cpu-cores", "4")
        assert plan["violations"] == []
        assert {move["kind"] for move in plan["moves"]} <= {"disk"}
        assert any("Kafka tells none of them" in each for each in plan["estimates"])
        assert kafka.process is not None
        os.kill(kafka.process.pid, signal.SIGSTOP)
        try:
            wait_until(lambda: "metadata" in guardian.json("inventory", "theirs")["failures"], "it stands still")
            other = guardian.json("inventory", "mine")
            assert other["failures"] == {}
            assert other["age_ms"]["metadata"] < 3_000
        finally:
            os.kill(kafka.process.pid, signal.SIGCONT)
        wait_until(lambda: not guardian.json("inventory", "theirs")["failures"], "it is seen again")
