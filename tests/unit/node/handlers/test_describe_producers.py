"""DescribeProducers: who writes to a partition, and which transactions are open there."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import START_MS, Client, Node
from support.replicated import Cluster
from support.requests import batch, produce, produced
from support.transactions import PRODUCER_ID, ScriptedCoordinator, ended, transactional, written

from penstock.errors import ErrorCode
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.security.authorizer import AclOperation, ResourceType


@pytest.fixture
def node() -> Node:
    node = ScriptedCoordinator().node()
    node.create_topic("orders", partitions=2)
    return node


def described(client: Client, topic: str = "orders", *indexes: int) -> list[Any]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=list(indexes or (0,)))])
    found: list[Any] = client.ask(request, 0).topics[0].partitions
    return found


def states(partition: Any) -> list[tuple[int, ...]]:
    assert partition.error_code == 0
    return [
        (
            each.producer_id,
            each.producer_epoch,
            each.last_sequence,
            each.last_timestamp,
            each.coordinator_epoch,
            each.current_txn_start_offset,
        )
        for each in partition.active_producers
    ]


def test_producers_are_described_as_they_are(node: Node) -> None:
    client = node.connect()
    assert states(described(client)[0]) == []
    produced(client, "orders", batch(b"plain"))
    produced(client, "orders", batch(b"a", b"b", producer_id=3, producer_epoch=1, base_sequence=4))
    written(client, "orders", transactional(epoch=2))
    assert states(described(client)[0]) == [(3, 1, 5, START_MS, -1, -1), (PRODUCER_ID, 2, 0, START_MS, -1, 3)]
    node.advance(1_000)
    ended(client, "orders", epoch=2, coordinator_epoch=9)
    found = states(described(client)[0])[-1]
    assert (found[:3], found[4:]) == ((PRODUCER_ID, 2, 0), (9, -1))
    assert found[3] >= START_MS
    ended(client, "orders", epoch=3, coordinator_epoch=9)
    assert states(described(client)[0])[-1][:3] == (PRODUCER_ID, 3, -1)


def test_what_cannot_be_described_is_answered_partition_by_partition(node: Node) -> None:
    client = node.connect()
    assert [each.error_code for each in described(client, "orders", 0, 1, 2, -1)] == [
        ErrorCode.NONE,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    for name, code in (("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), ("a/b", ErrorCode.INVALID_TOPIC_EXCEPTION)):
        (found,) = described(client, name)
        assert found.error_code == code
        assert found.error_message


def test_it_needs_the_right_to_read_the_topic(node: Node) -> None:
    node.acls.refused = lambda operation, kind, name: (
        (operation, kind, name) == (AclOperation.READ, ResourceType.TOPIC, "orders")
    )
    (found,) = described(node.connect())
    assert (found.error_code, found.active_producers) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, [])


def test_followers_answer_too() -> None:
    cluster = Cluster(3)
    cluster.create("orders")
    client = cluster.client(1)
    client.send(produce("orders", batch(producer_id=3, producer_epoch=0, base_sequence=0), acks=-1), 9)
    cluster.settle()
    assert [states(described(cluster.client(number))[0]) for number in (1, 2, 3)] == [[(3, 0, 0, START_MS, -1, -1)]] * 3
    cluster.change("orders", replicas=[1, 2], isr=[1, 2])
    cluster.settle()
    (found,) = described(cluster.client(3))
    assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_many_producers_are_described_in_steps(node: Node) -> None:
    client = node.connect()
    for producer_id in range(2_500):
        produced(client, "orders", batch(producer_id=producer_id, producer_epoch=0, base_sequence=0))
    assert len(states(described(client)[0])) == 2_500
