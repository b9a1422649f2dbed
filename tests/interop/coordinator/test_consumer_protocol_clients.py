"""Real clients of the consumer group protocol: librdkafka, Java's console consumer, and Kafka's tools on groups."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from interop.kafka_peer import run_tool

from penstock.testing.broker import LocalBroker

DEADLINE_S = 40
PARTITIONS = 6
GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    settings = {
        "group.consumer.min.heartbeat.interval.ms": "300",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.initial.rebalance.delay.ms": "0",
    }
    with LocalBroker(settings) as running:
        yield running


class Member:
    """A librdkafka consumer, and what it has."""

    def __init__(self, broker: LocalBroker, group: str, topics: list[str], **settings: Any) -> None:
        self.owned: set[tuple[str, int]] = set()
        self.values: list[bytes] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 1_000,
                "log_level": 0,
                **settings,
            }
        )
        self.consumer.subscribe(topics, on_assign=self.assigned, on_revoke=self.revoked)

    def assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {(each.topic, each.partition) for each in partitions}
        consumer.incremental_assign(partitions)

    def revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {(each.topic, each.partition) for each in partitions}
        consumer.incremental_unassign(partitions)

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.values.append(message.value())


def poll_until(members: list[Member], done: Callable[[], bool]) -> None:
    """Members poll until it is so."""
    deadline = time.monotonic() + DEADLINE_S
    while not done():
        for member in members:
            member.poll()
        assert time.monotonic() < deadline, [member.owned for member in members]


def shared(members: list[Member], *topics: str) -> bool:
    """Whether every partition has one owner, and everybody about as many."""
    owned = [place for member in members for place in member.owned]
    sizes = [len(member.owned) for member in members]
    wanted = {(topic, index) for topic in topics for index in range(PARTITIONS)}
    return len(owned) == len(wanted) and set(owned) == wanted and max(sizes) - min(sizes) <= 1


def close(*members: Member) -> None:
    for member in members:
        member.consumer.close()


def fill(broker: LocalBroker, topic: str, count: int = 12) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
    assert producer.flush(20) == 0


def test_members_share_join_and_leave(broker: LocalBroker) -> None:
    broker.create_topic("shared", partitions=PARTITIONS)
    fill(broker, "shared")
    first, second = (Member(broker, "sharing", ["shared"]) for _ in range(2))
    poll_until([first, second], lambda: shared([first, second], "shared"))
    poll_until([first, second], lambda: len(first.values + second.values) >= 12)
    done = [TopicPartition("shared", index, 2) for _, index in sorted(first.owned)]
    assert all(each.error is None for each in first.consumer.commit(offsets=done, asynchronous=False) or ())
    third = Member(broker, "sharing", ["shared"])
    poll_until([first, second, third], lambda: shared([first, second, third], "shared"))
    close(first)
    poll_until([second, third], lambda: shared([second, third], "shared"))
    close(second, third)


@pytest.mark.slow
def test_a_regular_expression_is_evaluated_by_the_broker_and_finds_new_topics(broker: LocalBroker) -> None:
    broker.create_topic("logs-a", partitions=PARTITIONS)
    broker.create_topic("other", partitions=PARTITIONS)
    member = Member(broker, "matching", ["^logs-.*"])
    poll_until([member], lambda: shared([member], "logs-a"))
    broker.create_topic("logs-b", partitions=PARTITIONS)
    poll_until([member], lambda: shared([member], "logs-a", "logs-b"))
    close(member)


@pytest.mark.slow
def test_a_group_goes_from_the_classic_to_the_consumer_protocol_and_back(broker: LocalBroker) -> None:
    broker.create_topic("moving", partitions=PARTITIONS)
    classic = {"group.protocol": "classic", "partition.assignment.strategy": "cooperative-sticky"}
    old = Member(broker, "moving", ["moving"], **classic)
    poll_until([old], lambda: shared([old], "moving"))
    new = Member(broker, "moving", ["moving"])
    poll_until([old, new], lambda: shared([old, new], "moving"))
    close(old)
    poll_until([new], lambda: shared([new], "moving"))
    back = Member(broker, "moving", ["moving"], **classic)
    poll_until([new, back], lambda: shared([new, back], "moving"))
    close(new)
    poll_until([back], lambda: shared([back], "moving"))
    close(back)


@pytest.mark.slow
@pytest.mark.java
def test_javas_consumer_shares_with_librdkafka_and_kafkas_tools_describe_the_group(broker: LocalBroker) -> None:
    broker.create_topic("mixed", partitions=PARTITIONS)
    fill(broker, "mixed")
    java = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap, "--topic", "mixed", "--group", "mixing", "--from-beginning"),
        *("--command-property", "group.protocol=consumer", "--max-messages", 12, "--timeout-ms", 30_000),
    )
    assert sorted(map(int, java.stdout.split())) == list(range(12))
    member = Member(broker, "mixing", ["mixed"], **{"client.id": "reader"})
    poll_until([member], lambda: shared([member], "mixed"))

    def describe(*options: str) -> str:
        return run_tool(
            GROUPS, "--bootstrap-server", broker.bootstrap, "--describe", "--group", "mixing", *options
        ).stdout

    state = describe("--state", "--verbose").split()
    assert {"uniform", "Stable"} <= set(state)
    assert "reader" in describe("--members", "--verbose")
    offsets = [line.split() for line in describe("--offsets").splitlines() if "mixed" in line]
    assert [line[-1] != "-" for line in offsets] == [True] * PARTITIONS
    close(member)
    listed = run_tool(GROUPS, "--bootstrap-server", broker.bootstrap, "--list", "--type", "consumer", "--state").stdout
    assert "mixing" in listed
