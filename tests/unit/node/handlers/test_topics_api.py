"""CreateTopics, DeleteTopics, CreatePartitions, DescribeQuorum and AllocateProducerIds, over the wire."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.log.operations import Flush
from penstock.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData


@pytest.fixture
def node() -> Node:
    return Node()


def new(name: str, partitions: int = 1, **configs: str) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given)


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_creates_a_topic(node: Node, version: int) -> None:
    answer = node.connect().ask(CreateTopicsRequest(topics=[new("clicks", 2, retention_ms="7")]), version)
    [result] = answer.topics
    assert (result.name, result.error_code, result.error_message) == ("clicks", 0, None)
    created = node.broker.image.topics_by_name["clicks"]
    assert len(created.partitions) == 2
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (2, 1)
        values = {config.name: (config.value, config.config_source) for config in result.configs}
        assert values["retention.ms"] == ("7", 1)
        assert values["segment.bytes"] == ("1073741824", 5)
        assert list(values) == sorted(values)
    if version >= 7:
        assert result.topic_id == created.id


def test_the_answer_leaves_when_the_topic_is_committed_and_can_be_used(node: Node) -> None:
    client = node.connect()
    node.held = lambda operation: isinstance(operation, Flush)
    client.send(CreateTopicsRequest(topics=[new("clicks")]), 7)
    assert not client.answers
    node.let_go()
    assert client.receive().topics[0].error_code == 0
    assert node.broker.image.topics_by_name["clicks"].partitions[0].leader == 1


def test_an_answer_that_stands_on_what_is_not_committed_waits_for_it(node: Node) -> None:
    first, second = node.connect(), node.connect()
    node.held = lambda operation: isinstance(operation, Flush)
    first.send(CreateTopicsRequest(topics=[new("clicks")]), 7)
    second.send(CreateTopicsRequest(topics=[new("clicks")]), 7)
    assert not second.answers, "the topic that it would tell of may never be"
    node.let_go()
    assert first.receive().topics[0].error_code == 0
    assert second.receive().topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_change_that_fits_into_no_batch_is_refused() -> None:
    node = Node(internal_metadata_max_batch_size_in_bytes=2000)
    client = node.connect()
    answer = client.ask(CreateTopicsRequest(topics=[new("large", 100)]), 7)
    assert answer.topics[0].error_code == ErrorCode.POLICY_VIOLATION
    assert "large" not in node.broker.image.topics_by_name
    assert client.ask(CreateTopicsRequest(topics=[new("small")]), 7).topics[0].error_code == 0


def test_validate_only_changes_nothing(node: Node) -> None:
    request = CreateTopicsRequest(topics=[new("clicks"), new("a/b")], validate_only=True)
    answer = node.connect().ask(request, 7)
    assert [result.error_code for result in answer.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert len(node.broker.image.topics_by_name) == 0
    assert node.broker.controller.state.uncommitted == 0


def test_duplicates_are_refused_and_the_others_created(node: Node) -> None:
    answer = node.connect().ask(CreateTopicsRequest(topics=[new("a"), new("b"), new("a")]), 7)
    assert {result.name: result.error_code for result in answer.topics} == {"b": 0, "a": ErrorCode.INVALID_REQUEST}
    assert list(node.broker.image.topics_by_name) == ["b"]


def test_more_topics_than_a_request_may_have(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.handlers.create_topics.TOPICS_PER_REQUEST_MAX", 1)
    answer = node.connect().ask(CreateTopicsRequest(topics=[new("a"), new("b")]), 7)
    assert [result.error_code for result in answer.topics] == [ErrorCode.POLICY_VIOLATION] * 2


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_by_name(node: Node, version: int) -> None:
    node.create_topic("clicks")
    request = DeleteTopicsRequest(topic_names=["clicks", "unknown"])
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in ("clicks", "unknown")])
    answer = node.connect().ask(request, version)
    found = {result.name: result.error_code for result in answer.responses}
    assert found == {"clicks": 0, "unknown": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(node.broker.image.topics_by_name) == 0


def test_a_topic_is_deleted_by_its_id(node: Node) -> None:
    topic_id = node.create_topic("clicks")
    unknown = UUID(int=77)
    states = [DeleteTopicState(topic_id=each) for each in (topic_id, unknown)]
    answer = node.connect().ask(DeleteTopicsRequest(topics=states), 6)
    found = {result.topic_id: (result.name, result.error_code) for result in answer.responses}
    assert found == {topic_id: ("clicks", 0), unknown: (None, ErrorCode.UNKNOWN_TOPIC_ID)}


def test_a_name_and_the_id_of_one_topic(node: Node) -> None:
    topic_id = node.create_topic("clicks")
    states = [DeleteTopicState(name="clicks"), DeleteTopicState(topic_id=topic_id)]
    answer = node.connect().ask(DeleteTopicsRequest(topics=states), 6)
    assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST]
    assert "clicks" in node.broker.image.topics_by_name


def test_deletion_can_be_switched_off() -> None:
    node = Node(delete_topic_enable=False)
    node.create_topic("clicks")
    for version, code in ((1, ErrorCode.INVALID_REQUEST), (5, ErrorCode.TOPIC_DELETION_DISABLED)):
        answer = node.connect().ask(DeleteTopicsRequest(topic_names=["clicks"]), version)
        assert [result.error_code for result in answer.responses] == [code]
    assert "clicks" in node.broker.image.topics_by_name


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions(node: Node, version: int) -> None:
    node.create_topic("clicks")
    wanted = [CreatePartitionsTopic(name="clicks", count=3, assignments=None)]
    client = node.connect()
    validated = client.ask(CreatePartitionsRequest(topics=wanted, validate_only=True), version)
    assert [result.error_code for result in validated.results] == [0]
    assert len(node.broker.image.topics_by_name["clicks"].partitions) == 1
    answer = client.ask(CreatePartitionsRequest(topics=wanted), version)
    assert [result.error_code for result in answer.results] == [0]
    assert [each.leader for each in node.broker.image.topics_by_name["clicks"].partitions] == [1, 1, 1]
    again = client.ask(CreatePartitionsRequest(topics=[*wanted, *wanted]), version)
    assert [result.error_code for result in again.results] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", range(3))
def test_the_quorum(node: Node, version: int) -> None:
    topics = [TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
    answer = node.connect().ask(DescribeQuorumRequest(topics=topics), version)
    [partition] = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (1, 1)
    assert partition.high_watermark == node.broker.controller.next_offset
    assert [(each.replica_id, each.log_end_offset) for each in partition.current_voters] == [
        (1, partition.high_watermark)
    ]
    if version >= 2:
        assert [each.node_id for each in answer.nodes] == [1]


def test_blocks_of_producer_ids_are_for_brokers_on_the_controller_listener(node: Node) -> None:
    client = node.connect("CONTROLLER")
    epoch = node.broker.image.brokers[1].epoch
    first, second = (client.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), 0) for _ in range(2))
    assert second.producer_id_start == first.producer_id_start + first.producer_id_len
    stale = client.ask(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1), 0)
    assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
    elsewhere = node.connect()
    elsewhere.send(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch), 0)
    assert elsewhere.closed is not None


def test_changes_survive_a_restart_and_a_crash(node: Node) -> None:
    node.connect().ask(CreateTopicsRequest(topics=[new("clicks", 2, retention_ms="7")]), 7)
    topic_id = node.broker.image.topics_by_name["clicks"].id
    for again in (node.restart, node.crash):
        again()
        topic = node.broker.image.topics_by_name["clicks"]
        assert (topic.id, [each.leader for each in topic.partitions]) == (topic_id, [1, 1])
        assert node.broker.state.topic_config("clicks").retention_ms == 7
