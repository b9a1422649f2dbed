"""A request goes to the quorum whose topic it names, and what names none of them is refused as Kafka refuses it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from support.broker import Node
from support.quorum_member import OWN, Member

from penstock.errors import ErrorCode
from penstock.node.quorums import Quorums
from penstock.node.request import Request
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from penstock.protocol.messages.fetch_request import ReplicaState
from penstock.raft import messages
from penstock.raft.checkpoint import CheckpointId
from penstock.raft.replica import QuorumDescription
from penstock.raft.topic import METADATA, QuorumTopic
from penstock.raft.voters import ReplicaKey

NOBODYS = QuorumTopic("nobodys", UUID(int=99))
PEER, LOCAL = ReplicaKey(2, UUID(int=2)), ReplicaKey(1)
STALE_EPOCH = 0


def vote(topic: QuorumTopic) -> Message:
    return messages.vote(None, PEER, LOCAL, STALE_EPOCH, last_epoch=0, end_offset=0, pre_vote=True, topic=topic)


def begin(topic: QuorumTopic) -> Message:
    return messages.begin_quorum_epoch(None, 2, STALE_EPOCH, LOCAL, (), topic=topic)


def end(topic: QuorumTopic) -> Message:
    return messages.end_quorum_epoch(None, 2, STALE_EPOCH, (), (), topic=topic)


def fetch(topic: QuorumTopic) -> Message:
    return messages.fetch(
        None, PEER, STALE_EPOCH, offset=0, last_epoch=0, high_watermark=0, max_wait_ms=0, max_bytes=9, topic=topic
    )


def fetch_by_name(topic: QuorumTopic) -> Message:
    """As the versions before ids ask."""
    request: Any = fetch(topic)
    request.replica_id, request.replica_state = PEER.id, ReplicaState()
    return request  # type: ignore[no-any-return]


def fetch_snapshot(topic: QuorumTopic) -> Message:
    return messages.fetch_snapshot(None, PEER, STALE_EPOCH, CheckpointId(1, 1), position=0, max_bytes=9, topic=topic)


def describe(topic: QuorumTopic) -> Message:
    return DescribeQuorumRequest(
        topics=[TopicData(topic_name=topic.name, partitions=[PartitionData(partition_index=0)])]
    )


REQUESTS = ((vote, 2), (begin, 1), (end, 1), (fetch_by_name, 12), (fetch, 17), (fetch_snapshot, 1), (describe, 2))


class SecondQuorum:
    """What a node does that takes part in a quorum of its own: a driven replica, and the way for its answers."""

    topic = OWN

    def __init__(self, node: Node, voters: int = 1) -> None:
        self.node = node
        self.member = Member(voters)

    def handle(self, request: Request[Any], now_ms: int) -> None:
        self.node.broker.answer(request, self.member.ask(request.body, request.version), now_ms)

    def describe(self) -> QuorumDescription:
        return self.member.driver.replica.describe()


@pytest.fixture
def node() -> Node:
    node = Node()
    node.broker.quorums.add(SecondQuorum(node))
    return node


@pytest.mark.parametrize("topic", [METADATA, OWN])
@pytest.mark.parametrize(("request_of", "version"), REQUESTS)
def test_the_quorum_of_the_topic_answers(node: Node, request_of: Any, version: int, topic: QuorumTopic) -> None:
    answer = node.connect("CONTROLLER").ask(request_of(topic), version)
    partition = messages.partition_of(answer, topic)
    assert partition is not None, f"{answer} is the answer of another quorum"
    if request_of is describe:
        offset = {METADATA: node.broker.quorum.high_watermark, OWN: 1}[topic]
        assert (partition.error_code, partition.leader_id, partition.high_watermark) == (0, 1, offset)
    else:
        assert partition.error_code == ErrorCode.FENCED_LEADER_EPOCH


@pytest.mark.parametrize(("request_of", "version"), REQUESTS)
def test_a_topic_of_no_quorum_is_refused_as_kafka_does(node: Node, request_of: Any, version: int) -> None:
    answer = node.connect("CONTROLLER").ask(request_of(NOBODYS), version)
    if request_of is describe:
        [partition] = answer.topics[0].partitions
        assert (answer.error_code, partition.error_code) == (0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    elif request_of is fetch_snapshot:
        assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        assert answer.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(("request_of", "version"), REQUESTS)
def test_a_request_about_two_quorums_is_refused(node: Node, request_of: Any, version: int) -> None:
    both = request_of(OWN)
    both.topics += request_of(METADATA).topics
    answer = node.connect("CONTROLLER").ask(both, version)
    assert messages.partition_of(answer, OWN) is None
    assert messages.partition_of(answer, METADATA) is None


def test_who_does_not_lead_a_quorum_does_not_describe_it() -> None:
    node = Node()
    node.broker.quorums.add(SecondQuorum(node, voters=3))
    answer = node.connect().ask(describe(OWN), 2)
    assert messages.partition_of(answer, OWN).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER  # type: ignore[union-attr]


def test_two_quorums_of_one_topic_are_a_bug() -> None:
    quorums = Quorums()
    node = Node()
    quorums.add(SecondQuorum(node))
    with pytest.raises(AssertionError):
        quorums.add(SecondQuorum(node))
