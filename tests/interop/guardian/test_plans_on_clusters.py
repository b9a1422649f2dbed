"""Plans at work on three Penstock brokers and on three of Apache Kafka 4.3.1, under an acks=all writer, while the
leader of Guardian is killed: every partition as planned, asked for once, no write failed or lost, no throttle left.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from e2e.cluster.history import Writer, check, create_topic, wait_for_full_isr
from e2e.test_guardian import Guardian
from interop.kafka_peer import require_kafka
from interop.tools.three_nodes import KafkaCluster
from support.processes import wait_until
from support.three_nodes import three_racks

from penstock.cli.main import main
from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType, alter_configs, describe_configs
from penstock.client.client import Client

PARTITIONS = 12
RECORDS, RECORD_BYTES = 1_000, 1_000
RATE = "400K"
BEFORE = "123456789"
SETTINGS = {"sample.interval.ms": "1000", "election.timeout.ms": "1000", "fetch.timeout.ms": "2000"}
THROTTLED = "throttled"


@pytest.fixture(params=["penstock", pytest.param("kafka", marks=pytest.mark.java)])
def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "kafka":
            require_kafka()
            yield stack.enter_context(KafkaCluster(tmp_path / "kafka")).bootstrap
        else:
            yield stack.enter_context(three_racks(tmp_path / "penstock")).bootstrap


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    found = Guardian(tmp_path, **SETTINGS)
    found.format()
    for node_id in found.ports:
        found.start(node_id)
    yield found
    for node_id in list(found.processes):
        found.kill(node_id)


class Asking:
    """`penstock guardian` with words: what it prints."""

    def __init__(self, guardian: Guardian, capsys: pytest.CaptureFixture[str]) -> None:
        self.guardian, self.capsys = guardian, capsys

    def say(self, *words: str) -> str:
        self.capsys.readouterr()
        code = main(["guardian", *words, "--guardian", self.guardian.addresses, "--timeout", "30"])
        said = self.capsys.readouterr()
        assert code == 0, said.out + said.err
        return said.out

    def get(self, *words: str) -> Any:
        return json.loads(self.say(*words, "--json"))


def filled(bootstrap: str, topic: str, replicas: int = 2) -> None:
    """A topic with records in every partition."""
    create_topic(bootstrap, topic, PARTITIONS, replicas)
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        for partition in range(PARTITIONS):
            producer.produce(topic, b"%d" % number + b"x" * RECORD_BYTES, partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


async def replicas_of(bootstrap: str, topic: str) -> dict[int, list[int]]:
    async with Client(bootstrap) as client:
        (found,) = (await client.refresh([topic])).topics
    return {each.partition_index: list(each.replica_nodes) for each in found.partitions}


async def throttles(bootstrap: str, *topics: str) -> dict[str, str]:
    """All throttles that are set, of brokers and topics."""
    found = {}
    resources = [Resource(ResourceType.BROKER, str(broker)) for broker in (1, 2, 3)]
    resources += [Resource(ResourceType.TOPIC, topic) for topic in topics]
    async with Client(bootstrap) as client:
        for resource in resources:
            for each in await describe_configs(client, resource):
                dynamic = each.source == (1 if resource.type == ResourceType.TOPIC else 2)
                if dynamic and (THROTTLED in each.name or "io.max.bytes" in each.name):
                    found[f"{resource.name} {each.name}"] = str(each.value)
    return found


async def set_rate(bootstrap: str, broker: int) -> None:
    async with Client(bootstrap) as client:
        change = Change("leader.replication.throttled.rate", ConfigOperation.SET, BEFORE)
        await alter_configs(client, Resource(ResourceType.BROKER, str(broker)), [change])


@pytest.mark.slow
def test_a_plan_survives_guardians_leaders(
    bootstrap: str, guardian: Guardian, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asking = Asking(guardian, capsys)
    filled(bootstrap, "clicks")
    create_topic(bootstrap, "written", 3, 3)
    wait_for_full_isr(bootstrap, "clicks", 2)
    asyncio.run(set_rate(bootstrap, 2))
    before = asyncio.run(replicas_of(bootstrap, "clicks"))
    planned = {index: [other(each), each[1]] for index, each in before.items()}
    plan = {
        "version": 1,
        "partitions": [{"topic": "clicks", "partition": index, "replicas": each} for index, each in planned.items()],
        "leaders": [{"topic": "clicks", "partition": index, "broker": each[0]} for index, each in planned.items()],
    }
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))
    asking.say("clusters", "add", "clicks", "--bootstrap", bootstrap)
    asking.say("clusters", "set-mode", "clicks", "balance=advise")
    asking.say("plans", "submit", str(file), "--cluster", "clicks", "--rate", RATE)
    kills = 0
    with Writer(bootstrap, "written") as writer:
        writer.wait_for_more()
        asking.say("approve", "1")
        wait_until(lambda: bool(asyncio.run(throttles(bootstrap, "clicks"))), "throttles are set")
        deadline_s = time.monotonic() + 150
        while (state := asking.get("plans", "show", "1"))["state"] != "done":
            assert time.monotonic() < deadline_s, state
            if kills < 5:
                leader = asking.get("clusters", "list")["leader"]
                guardian.kill(leader)
                kills += 1
                asking.get("plans", "show", "1")
                guardian.start(leader)
                wait_until(lambda: asking.get("clusters", "list")["leader"] > 0, "somebody leads")
            time.sleep(1)
        writer.wait_for_more()
    assert kills >= 3
    assert not writer.failed
    check(writer, bootstrap, 3)
    assert asyncio.run(replicas_of(bootstrap, "clicks")) == planned
    for move in asking.get("moves", "--plan", "1")["moves"]:
        assert move["state"] == "verified", move
        stages = asking.get("explain", move["id"])["stages"]
        assert [each["state"] for each in stages].count("submitted") == 1, stages
    assert asking.get("limits")["limits"] == []
    assert asyncio.run(throttles(bootstrap, "clicks")) == {"2 leader.replication.throttled.rate": BEFORE}
    assert "is done, and was found as planned" in asking.say("explain", "1-1")


def other(replicas: list[int]) -> int:
    """The broker that has no replica."""
    return next(each for each in (1, 2, 3) if each not in replicas)
