"""Metadata, DescribeTopicPartitions, DescribeCluster: every version, ids, creation on demand, pages, kept answers."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any
from uuid import UUID

import pytest
from support.broker import CLUSTER_ID, Node

from penstock.errors import ErrorCode
from penstock.log.operations import Flush
from penstock.metadata import brokers
from penstock.node.channel import deserialized
from penstock.protocol.api import ApiKey
from penstock.protocol.codec import decode
from penstock.protocol.frames import decode_request_header
from penstock.protocol.messages.create_topics_request import CreateTopicsRequest
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.security.authorizer import ANONYMOUS

UNKNOWN_ID = UUID(int=0xABCDEF)


@pytest.fixture
def node() -> Node:
    node = Node()
    node.create_topic("clicks", 3)
    node.create_topic("views")
    return node


def asking(*names: str, create: bool = False) -> MetadataRequest:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=create)


def shown(answer: Any) -> dict[str | None, int | list[int]]:
    """Topic name to its error, or to the leaders of its partitions."""
    return {
        topic.name: topic.error_code or [partition.leader_id for partition in topic.partitions]
        for topic in answer.topics
    }


@pytest.mark.parametrize("version", range(14))
def test_every_version_describes_brokers_and_topics(node: Node, version: int) -> None:
    answer = node.connect().ask(asking("clicks", create=version < 4), version)
    assert [(broker.node_id, broker.host, broker.port) for broker in answer.brokers] == [(1, "127.0.0.1", 9092)]
    assert shown(answer) == {"clicks": [1, 1, 1]}
    assert answer.topics[0].partitions[2].replica_nodes == [1]
    assert answer.topics[0].partitions[2].isr_nodes == [1]
    assert answer.topics[0].partitions[2].offline_replicas == []
    if version >= 1:
        assert answer.controller_id == 1
    if version >= 2:
        assert answer.cluster_id == CLUSTER_ID
    if version >= 10:
        assert answer.topics[0].topic_id == node.broker.image.topics_by_name["clicks"].id


def test_no_topics_means_all_in_version_0_and_none_later(node: Node) -> None:
    client = node.connect()
    assert shown(client.ask(MetadataRequest(topics=[]), 0)) == {"clicks": [1, 1, 1], "views": [1]}
    assert shown(client.ask(MetadataRequest(topics=[]), 1)) == {}
    assert shown(client.ask(MetadataRequest(topics=None), 1)) == {"clicks": [1, 1, 1], "views": [1]}


def test_topics_by_id(node: Node) -> None:
    topic_id = node.broker.image.topics_by_name["views"].id
    topics = [MetadataRequestTopic(name=None, topic_id=each) for each in (topic_id, UNKNOWN_ID)]
    answer = node.connect().ask(MetadataRequest(topics=topics), 13)
    assert shown(answer) == {None: ErrorCode.UNKNOWN_TOPIC_ID, "views": [1]}


def test_ids_before_version_12_are_refused(node: Node) -> None:
    topics = [MetadataRequestTopic(name="views", topic_id=UNKNOWN_ID)]
    answer = node.connect().ask(MetadataRequest(topics=topics), 11)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(("version", "name"), [(10, ""), (11, ""), (12, None), (13, None)])
def test_a_refused_topic_without_a_name_is_answered_as_the_version_can_say_it(
    node: Node, version: int, name: str | None
) -> None:
    answer = node.connect().ask(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), version)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(name, ErrorCode.INVALID_REQUEST)]


def test_unknown_and_impossible_names(node: Node) -> None:
    answer = node.connect().ask(asking("unknown", "a/b", "__consumer_offsets"), 12)
    assert shown(answer) == {
        "unknown": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "__consumer_offsets": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert [topic.is_internal for topic in answer.topics] == [False, False, True]


def test_a_topic_is_created_on_demand_and_is_in_the_answer(node: Node) -> None:
    answer = node.connect().ask(asking("new", "a/b", create=True), 12)
    assert shown(answer) == {"new": [1], "a/b": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert "new" in node.broker.image.topics_by_name


def test_a_topic_is_created_as_the_broker_that_is_asked_would_have_it(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(num_partitions=5, default_replication_factor=3)
    asked: list[Callable[[], EnvelopeRequest]] = []
    client, channel = node.connect(), node.broker.channel
    monkeypatch.setattr(node.broker.controller, "active", False)
    monkeypatch.setattr(type(channel), "elsewhere", True)
    monkeypatch.setattr(channel, "to_controller", lambda make, *_, **__: asked.append(make))
    client.send(asking("new", create=True), 12)
    envelope = asked[0]()
    assert deserialized(envelope.request_principal or b"") == ANONYMOUS, "with the client's rights, not the broker's"
    assert ip_address(envelope.client_host_address) == ip_address("127.0.0.1")
    frame = memoryview(bytearray(envelope.request_data))
    header, position = decode_request_header(frame)
    created, _ = decode(CreateTopicsRequest, header.api_version, frame, position)
    (topic,) = created.topics
    assert (topic.num_partitions, topic.replication_factor) == (5, 3), "the controller may have other defaults"


def test_the_answer_waits_until_the_new_topic_is_committed(node: Node) -> None:
    first, second = node.connect(), node.connect()
    node.held = lambda operation: isinstance(operation, Flush)
    first.send(asking("new", create=True), 12)
    assert not first.answers
    assert shown(second.ask(asking("new", create=True), 12)) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    node.let_go()
    assert shown(first.receive()) == {"new": [1]}


def test_nothing_is_created_when_the_request_or_the_settings_forbid_it(node: Node) -> None:
    assert shown(node.connect().ask(asking("new"), 12)) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    other = Node(auto_create_topics_enable=False)
    answer = other.connect().ask(asking("new", create=True), 12)
    assert shown(answer) == {"new": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(other.broker.image.topics_by_name) == 0


def test_a_client_that_left_before_its_topic_was_created_disturbs_nobody(node: Node) -> None:
    client = node.connect()
    node.held = lambda operation: isinstance(operation, Flush)
    client.send(asking("new", create=True), 12)
    node.disconnect(client)
    node.let_go()
    assert shown(node.connect().ask(asking("new"), 12)) == {"new": [1]}


def test_the_same_question_is_answered_from_memory_until_the_image_changes(node: Node) -> None:
    client = node.connect()
    first = client.ask(asking("clicks"), 12)
    kept = node.broker.dispatcher.served.broker[ApiKey.METADATA].kept._answers
    assert len(kept) == 1
    assert client.ask(asking("clicks"), 12) == first
    assert node.connect().ask(asking("clicks"), 12) == first
    assert len(kept) == 1
    assert client.ask(asking("clicks"), 9).topics[0].partitions == first.topics[0].partitions
    assert len(kept) == 2
    node.add_partitions("clicks", 4)
    assert shown(client.ask(asking("clicks"), 12)) == {"clicks": [1] * 4}
    assert len(node.broker.dispatcher.served.broker[ApiKey.METADATA].kept._answers) == 1


def test_kept_answers_are_bounded(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.handlers.metadata.ANSWERS_KEPT_MAX", 4)
    client = node.connect()
    for number in range(20):
        client.ask(asking(f"unknown-{number}"), 12)
        assert len(node.broker.dispatcher.served.broker[ApiKey.METADATA].kept._answers) <= 4


def test_authorized_operations_on_request(node: Node) -> None:
    request = asking("clicks")
    request.include_topic_authorized_operations = request.include_cluster_authorized_operations = True
    answer = node.connect().ask(request, 10)
    assert answer.topics[0].topic_authorized_operations == sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
    assert answer.cluster_authorized_operations == sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
    assert node.connect().ask(asking("clicks"), 10).topics[0].topic_authorized_operations == -(2**31)


def test_partitions_without_a_leader_say_so(node: Node) -> None:
    broker = node.broker.image.brokers[1]
    node.change(brokers.begin_controlled_shutdown(node.broker.controller.state, 1, broker.epoch).records)
    node.change(brokers.fence_broker(node.broker.controller.state, 1, broker.epoch).records)
    client = node.connect()
    assert broker.active
    for version in (0, 12):
        answer = client.ask(asking("views", create=version < 4), version)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert answer.topics[0].partitions[0].leader_id == -1
        assert answer.brokers == []
    assert answer.topics[0].partitions[0].offline_replicas == [1]


def test_a_listener_that_the_leader_lacks(node: Node) -> None:
    client = node.connect("INTERNAL")
    codes = [client.ask(asking("views"), version).topics[0].partitions[0].error_code for version in (5, 6)]
    assert codes == [ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.LISTENER_NOT_FOUND]


# DescribeTopicPartitions


def pages(node: Node, limit: int, *names: str) -> list[list[tuple[str, list[int]]]]:
    """All pages of a listing: topics with the partitions that each page shows."""
    client, found = node.connect(), []
    cursor = None
    while True:
        topics = [TopicRequest(name=name) for name in names]
        request = DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=limit, cursor=cursor)
        answer = client.ask(request, 0)
        found.append([(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics])
        if answer.next_cursor is None:
            return found
        cursor = Cursor(topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index)


def test_partitions_come_in_pages_in_the_order_of_names(node: Node) -> None:
    everything = [[("clicks", [0, 1, 2]), ("views", [0])]]
    assert pages(node, 2000) == everything
    assert pages(node, 2) == [[("clicks", [0, 1])], [("clicks", [2]), ("views", [0])]]
    assert pages(node, 3) == [[("clicks", [0, 1, 2])], [("views", [0])]]
    assert pages(node, 0, "views", "clicks") == [*([("clicks", [each])] for each in range(3)), [("views", [0])]]


def test_a_page_is_bounded_by_the_settings_too() -> None:
    node = Node(max_request_partition_size_limit=1)
    node.create_topic("clicks", 2)
    assert pages(node, 2000) == [[("clicks", [0])], [("clicks", [1])]]


def test_cursors_that_cannot_be(node: Node) -> None:
    client = node.connect()
    for cursor in (Cursor(topic_name="other", partition_index=0), Cursor(topic_name="clicks", partition_index=-1)):
        request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="clicks")], cursor=cursor)
        answer = client.ask(request, 0)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
    after = DescribeTopicPartitionsRequest(topics=[], cursor=Cursor(topic_name="clicks", partition_index=99))
    assert [len(topic.partitions) for topic in client.ask(after, 0).topics] == [0, 1]


# DescribeCluster


@pytest.mark.parametrize("version", range(3))
def test_the_cluster(node: Node, version: int) -> None:
    answer = node.connect().ask(DescribeClusterRequest(), version)
    assert (answer.cluster_id, answer.controller_id, answer.error_code) == (CLUSTER_ID, 1, 0)
    assert [(broker.broker_id, broker.port) for broker in answer.brokers] == [(1, 9092)]


def test_controllers_are_told_about_on_their_own_listener_only(node: Node) -> None:
    request = DescribeClusterRequest(endpoint_type=2)
    assert node.connect().ask(request, 1).error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    answer = node.connect("CONTROLLER").ask(request, 1)
    assert (answer.endpoint_type, [each.broker_id for each in answer.brokers], answer.controller_id) == (2, [1], 1)


def test_a_controller_that_is_no_broker_names_the_active_one() -> None:
    node = Node(process_roles=("controller",), listeners="CONTROLLER://127.0.0.1:9093")
    answer = node.connect("CONTROLLER").ask(DescribeClusterRequest(endpoint_type=2), 1)
    assert ([each.broker_id for each in answer.brokers], answer.controller_id) == ([1], 1)
