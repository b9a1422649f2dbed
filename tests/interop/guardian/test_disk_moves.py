"""Replicas that Guardian moves to another log directory, of Penstock and of Apache Kafka 4.3.1, held back meanwhile."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from e2e.cluster.history import create_topic
from e2e.test_guardian import Guardian
from interop.kafka_peer import KafkaPeer, require_kafka
from interop.tools.two_directories import directory, formatted
from support.processes import wait_until

from penstock.cli.main import main
from penstock.client.admin import Resource, ResourceType, describe_configs
from penstock.client.client import Client
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest

RECORDS, RECORD_BYTES = 3_000, 1_000
RATE = "500K"
DISK_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"


@pytest.fixture(params=["penstock", pytest.param("kafka", marks=pytest.mark.java)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[str, list[str]]]:
    """The bootstrap address of a cluster, and the directories of its broker 1."""
    with ExitStack() as stack:
        if request.param == "kafka":
            require_kafka()
            kafka = stack.enter_context(KafkaPeer(tmp_path / "kafka", log_directories=2))
            yield kafka.bootstrap, [str(each) for each in kafka.log_dirs]
        else:
            cluster = stack.enter_context(formatted(tmp_path / "penstock"))
            yield cluster.bootstrap, [str(directory(cluster, 1, number)) for number in (0, 1)]


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    found = Guardian(tmp_path, nodes=1, **{"sample.interval.ms": "500"})
    found.format()
    found.start(1)
    yield found
    for node_id in list(found.processes):
        found.kill(node_id)


async def lies_in(bootstrap: str, topic: str) -> list[tuple[str, bool]]:
    """Where broker 1 has partition 0 of a topic, and whether that is a copy under way."""
    asked = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic=topic, partitions=[0])])
    async with Client(bootstrap) as client:
        await client.refresh([topic])
        answer = await client.send(asked, node_id=1)
    return [
        (each.log_dir, partition.is_future_key)
        for each in answer.results
        for found in each.topics
        for partition in found.partitions
    ]


async def replicas_of(bootstrap: str, topic: str) -> list[int]:
    """Who has partition 0 of a topic."""
    async with Client(bootstrap) as client:
        (found,) = (await client.refresh([topic])).topics
    return list(found.partitions[0].replica_nodes)


async def disk_rate(bootstrap: str) -> str | None:
    async with Client(bootstrap) as client:
        configs = await describe_configs(client, Resource(ResourceType.BROKER, "1"), [DISK_RATE])
    return next((each.value for each in configs if each.source == 2), None)


@pytest.mark.slow
def test_a_replica_moves_to_another_directory(
    place: tuple[str, list[str]], guardian: Guardian, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap, directories = place
    create_topic(bootstrap, "clicks", 1, min(3, len(bootstrap.split(","))))

    def say(*words: str) -> Any:
        capsys.readouterr()
        code = main(["guardian", *words, "--guardian", guardian.addresses, "--timeout", "30", "--json"])
        said = capsys.readouterr()
        assert code == 0, said.out + said.err
        return json.loads(said.out)

    say("clusters", "add", "web", "--bootstrap", bootstrap)
    say("clusters", "set-mode", "web", "balance=advise")
    ((before, _),) = asyncio.run(lies_in(bootstrap, "clicks"))
    (after,) = (each for each in directories if each != before)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce("clicks", b"%d" % number + b"x" * RECORD_BYTES, partition=0)
        producer.poll(0)
    assert producer.flush(60) == 0
    move = {
        "id": 1, "topic": "clicks", "partition": 0, "kind": "disk", "bytes": 3_000_000, "why": "it is full",
        "from": {"broker": 1, "dir": before}, "to": {"broker": 1, "dir": after},
    }  # fmt: skip
    replicas = asyncio.run(replicas_of(bootstrap, "clicks"))
    log_dirs = [after if broker == 1 else "any" for broker in replicas]
    partition = {"topic": "clicks", "partition": 0, "replicas": replicas, "log_dirs": log_dirs}
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"version": 1, "partitions": [partition], "moves": [move]}))
    say("plans", "submit", str(file), "--cluster", "web", "--rate", RATE)
    say("approve", "1")
    wait_until(lambda: (after, True) in asyncio.run(lies_in(bootstrap, "clicks")), "it is being copied")
    assert asyncio.run(disk_rate(bootstrap)) == "500000"
    wait_until(lambda: say("plans", "show", "1")["state"] == "done", "the plan is done")
    assert asyncio.run(lies_in(bootstrap, "clicks")) == [(after, False)]
    assert asyncio.run(disk_rate(bootstrap)) is None
    assert say("explain", "1-1")["state"] == "verified"
