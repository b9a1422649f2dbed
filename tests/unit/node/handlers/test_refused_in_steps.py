"""What a client may not see costs it steps of its own, as what it may see does: refusals keep nobody else waiting."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import pytest
from support.broker import Client, Node

from penstock.node.broker import Broker
from penstock.node.handlers import describe_topic_partitions, find_coordinator, metadata
from penstock.node.limits import PARTITIONS_PER_STEP
from penstock.node.request import Handler
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_topic_partitions_request import DescribeTopicPartitionsRequest, TopicRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.security.authorizer import StandardAuthorizer

COUNT = 5 * PARTITIONS_PER_STEP
ASKED: list[int] = []
"""How often the authorizer was asked in each step."""


class Counting(StandardAuthorizer):
    """An authorizer that counts what it is asked."""

    asked = 0

    def authorize(self, *args: Any) -> bool:
        self.asked += 1
        return super().authorize(*args)


AUTHORIZER = Counting()


def counted(handler: Handler[Broker]) -> Handler[Broker]:
    """The handler, whose steps count what they ask."""

    def handle(node: Broker, request: Any, now_ms: int) -> Generator[Any, None, Any]:
        steps: Any = handler.handle(node, request, now_ms)
        while True:
            before = AUTHORIZER.asked
            try:
                missing = next(steps)
            except StopIteration as ended:
                return ended.value
            finally:
                ASKED.append(AUTHORIZER.asked - before)
            yield missing

    return Handler(handler.key, handle, handler.refuse)


@pytest.fixture
def client() -> Iterator[Client]:
    (topics,), (coordinators,) = describe_topic_partitions.HANDLERS, find_coordinator.HANDLERS
    handlers = {topics.key: counted(topics), coordinators.key: counted(coordinators)}
    node = Node(authorizer=AUTHORIZER, handlers=handlers)
    ASKED.clear()
    yield node.connect()
    assert not node.bugs


@pytest.mark.parametrize(
    ("message", "version"),
    [
        (
            DescribeTopicPartitionsRequest(
                topics=[TopicRequest(name=f"t{number}") for number in range(COUNT)], response_partition_limit=10
            ),
            0,
        ),
        (FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{number}" for number in range(COUNT)]), 4),
    ],
    ids=["DescribeTopicPartitions", "FindCoordinator"],
)
def test_many_names_are_refused_in_steps(client: Client, message: Message, version: int) -> None:
    client.ask(message, version)
    assert sum(ASKED) >= COUNT
    assert max(ASKED) <= 2 * PARTITIONS_PER_STEP


def test_topics_that_are_left_out_of_all_take_steps_too(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "METADATA_PARTITIONS_PER_STEP", 3 * metadata.NAME_AS_PARTITIONS)
    monkeypatch.setattr(metadata, "METADATA_ANSWER_KEPT_TOPICS_MAX", 0)
    for number in range(7):
        client.node.create_topic(f"t{number}")
    steps = []
    list_some = metadata.list_some

    def counting(*args: Any) -> bool:
        steps.append(1)
        return list_some(*args)

    monkeypatch.setattr(metadata, "list_some", counting)
    assert not client.ask(MetadataRequest(topics=None), 12).topics
    assert len(steps) == 3


def test_a_list_of_all_topics_denies_nothing(client: Client) -> None:
    """What is left out of a list is no denial, in the log or in its counter."""
    client.node.create_topic("t")
    before = client.node.broker.gate.denials.count
    assert not client.ask(DescribeTopicPartitionsRequest(topics=[], response_partition_limit=10), 0).topics
    assert client.node.broker.gate.denials.count == before


def test_a_topic_that_might_have_been_created_is_denied_once(client: Client) -> None:
    before = client.node.broker.gate.denials.count
    client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True), 12)
    assert client.node.broker.gate.denials.count == before + 1
