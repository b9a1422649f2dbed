"""What an operator finds in the log afterwards: who changed what, who led, what was refused; and nothing under load."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest
from support.broker import Client, Node
from support.group_requests import ALONE, commit, coordinate, delete_groups, delete_offsets
from support.requests import batch, fetch, produce, wanted

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import ConfigResource
from penstock.node.journal import NO_LEADER_NOW
from penstock.node.limits import JOURNAL_LINES_MAX, JOURNAL_PARTITIONS_MAX, REFUSAL_REPEAT_MS, REFUSALS_REMEMBERED_MAX
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.metadata.partition_record import PartitionRecord
from penstock.protocol.messages.metadata.topic_record import TopicRecord
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

WHO = " by=User:ANONYMOUS client=test host=127.0.0.1"
SET, DELETE = 0, 1
DIRECTORY = UUID(int=1)


@pytest.fixture
def node(caplog: pytest.LogCaptureFixture) -> Node:
    """A node that serves; what it said until then is forgotten."""
    caplog.set_level(logging.INFO, "penstock")
    made = Node()
    caplog.clear()
    return made


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines since the last call."""
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


def create(*names: str, partitions: int = 1, validate_only: bool = False, **configs: str) -> CreateTopicsRequest:
    given = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=given) for name in names
        ],
        timeout_ms=1000,
        validate_only=validate_only,
    )


def alter(kind: int, name: str, **configs: str | None) -> IncrementalAlterConfigsRequest:
    changes = [
        AlterableConfig(name=each.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for each, value in configs.items()
    ]
    return IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)]
    )


def test_topics_are_made_changed_and_deleted_by_somebody(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    client = node.connect()
    client.ask(create("clicks", partitions=2, retention_ms="5"), 7)
    counts = "partitions=2 replication_factor=1"
    assert said(caplog) == [f'topic created topic=clicks {counts} configs="retention.ms=5"{WHO}']
    client.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="clicks", count=3, assignments=None)]), 3)
    assert said(caplog) == [f"partitions added topic=clicks partitions=3{WHO}"]
    client.ask(alter(ConfigResource.TOPIC, "clicks", retention_ms=None, segment_ms="7"), 1)
    assert said(caplog) == [f'configs changed topic=clicks configs="retention.ms to its default,segment.ms=7"{WHO}']
    topic_id = node.broker.image.topics_by_name["clicks"].id
    client.ask(DeleteTopicsRequest(topic_names=["clicks", "none"]), 5)
    assert said(caplog) == [f"topic deleted topic=clicks id={topic_id}{WHO}"]


def test_what_is_deleted_of_groups_and_logs_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    node = Node(**ALONE)
    node.create_topic("t", partitions=JOURNAL_PARTITIONS_MAX + 2)
    coordinate(node)
    client = node.connect()
    client.ask(commit({("t", 0): 1, ("t", 1): 1}), 9)
    client.ask(produce("t", batch()), 9)
    caplog.clear()
    client.ask(delete_offsets("t", 0, 99), 0)
    assert said(caplog) == [f"committed offsets deleted group=g count=1 partitions=t-0{WHO}"]
    client.ask(delete_groups("g", "none"), 2)
    assert said(caplog) == [f"group deleted group=g{WHO}"]
    client.ask(delete_records({0: 1, 99: 0}), 2)
    assert said(caplog) == [f'records deleted count=1 partitions="t-0 before 1"{WHO}']
    client.ask(delete_records(dict.fromkeys(range(JOURNAL_PARTITIONS_MAX + 2), -1)), 2)
    (line,) = said(caplog)
    assert f"count={JOURNAL_PARTITIONS_MAX + 2}" in line
    assert ', and 2 more"' in line


def delete_records(offsets: dict[int, int]) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets.items()]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="t", partitions=partitions)], timeout_ms=1000)


def test_what_was_not_done_is_not_told(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    client = node.connect()
    client.ask(create("clicks", validate_only=True), 7)
    client.ask(create("no/name"), 7)
    client.ask(alter(ConfigResource.TOPIC, "none", retention_ms="1"), 1)
    assert said(caplog) == []


def test_a_large_request_is_not_a_line_for_each(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.connect().ask(create(*(f"t{number}" for number in range(JOURNAL_LINES_MAX + 5))), 7)
    lines = said(caplog)
    assert len(lines) == JOURNAL_LINES_MAX + 1
    assert lines[-1] == f"and more of the same request{WHO}"


def test_secrets_of_brokers_are_hidden(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    client = node.connect()
    client.ask(alter(ConfigResource.BROKER, "", log_retention_ms="9"), 1)
    assert said(caplog) == [f'configs changed broker=(all) configs="log.retention.ms=9"{WHO}']
    client.ask(alter(ConfigResource.BROKER, "", **{"listener.name.x.ssl.key.password": "open sesame"}), 1)
    assert not [line for line in said(caplog) if "sesame" in line]


def test_a_topic_that_a_client_asked_for_is_told_with_the_client(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="asked")], allow_auto_topic_creation=True)
    node.connect().ask(request, 12)
    who = "asked_for_by=User:ANONYMOUS client=test host=127.0.0.1"
    assert said(caplog) == [f"topic created topic=asked partitions=1 replication_factor=1 {who}"]


def refused(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [line for line in said(caplog) if line.startswith("refused: ")]


@pytest.mark.parametrize(
    ("request_", "version", "why"),
    [
        (
            FindCoordinatorRequest(key_type=2, coordinator_keys=["g:x:0"]),
            6,
            "share groups are not supported yet api=FindCoordinator",
        ),
    ],
)
def test_a_refused_feature_is_told_once_a_while_for_each_host(
    node: Node, caplog: pytest.LogCaptureFixture, request_: Message, version: int, why: str
) -> None:
    for _ in range(5):
        node.connect().send(request_, version)
    (line,) = refused(caplog)
    assert line.startswith(f"refused: {why} ")
    assert "client=test" in line
    assert line.endswith("peer=127.0.0.1:40000")
    node.advance(REFUSAL_REPEAT_MS)
    node.connect().send(request_, version)
    (line,) = refused(caplog)
    assert line.endswith("more_since_the_last=4")


def test_refusals_are_remembered_within_bounds(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(REFUSALS_REMEMBERED_MAX + 10):
        node.broker.connected(10_000 + number, "PLAINTEXT", f"10.0.{number >> 8}.{number & 255}:1", node.now_ms)
        node.clients[10_000 + number] = client = Client(node, 10_000 + number)
        client.send(FindCoordinatorRequest(key_type=2, coordinator_keys=["g:x:0"]), 6)
    assert len(refused(caplog)) == REFUSALS_REMEMBERED_MAX


def test_leaderships_are_told_by_those_they_concern(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    topic_id = node.create_topic("clicks", partitions=1)
    delta = MetadataDelta(node.broker.image)
    delta.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, replicas=[1, 2], directories=[DIRECTORY] * 2))
    old = delta.apply(node.broker.image.offset + 1, 1, node.now_ms)
    caplog.clear()

    def change(**changes: object) -> list[str]:
        nonlocal old
        delta = MetadataDelta(old)
        delta.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, **changes))  # type: ignore[arg-type]
        node.broker.journal.published(old, delta)
        old = delta.apply(old.offset + 1, old.epoch, node.now_ms)
        return said(caplog)

    def line(what: str, state: str) -> str:
        return f'{what} count=1 partitions="clicks-0 ({state})"'

    assert change(isr=[1, 2]) == [line("in-sync replicas more", "leader 1, epoch 0, in sync 1 2 of 1 2")]
    assert change(leader=2) == [line("leads partitions no more", "leader 2, epoch 1, in sync 1 2 of 1 2")]
    assert change(isr=[2]) == []
    gone = "leader none, epoch 2, in sync 2 of 1 2"
    assert change(leader=-1) == [line("partitions without a leader", gone)]
    assert change(leader=1, isr=[1, 2]) == [line("leads partitions", "leader 1, epoch 3, in sync 1 2 of 1 2")]
    assert change(isr=[1]) == [line("in-sync replicas fewer", "leader 1, epoch 3, in sync 1 of 1 2")]


def test_many_leaderships_at_once_are_a_few_lines(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    count = JOURNAL_PARTITIONS_MAX + 30
    topic_id = node.create_topic("clicks", partitions=count)
    caplog.clear()
    delta = MetadataDelta(node.broker.image)
    for index in range(count):
        delta.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=index, leader=2, isr=[2]))
    node.broker.journal.published(node.broker.image, delta)
    (line,) = said(caplog)
    assert line.startswith(
        'leads partitions no more count=35 partitions="clicks-0 (leader 2, epoch 1, in sync 2 of 1), '
    )
    assert line.endswith('clicks-4 (leader 2, epoch 1, in sync 2 of 1), and 30 more"')


def test_new_topics_are_not_told_partition_by_partition(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    delta = MetadataDelta(node.broker.image)
    topic_id = UUID(int=7)
    delta.replay(TopicRecord(name="new", topic_id=topic_id))
    delta.replay(PartitionRecord(topic_id=topic_id, partition_id=0, replicas=[1], isr=[1], leader=1))
    node.broker.journal.published(node.broker.image, delta)
    assert said(caplog) == []


def test_brokers_that_come_and_go(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "penstock")
    node = Node()
    started = said(caplog)
    assert any(line.startswith("broker registered broker=1 ") for line in started)
    assert any(line.startswith("broker unfenced broker=1 ") for line in started)
    assert "active controller node=1 this_node=True" in started
    node.stop()
    assert any(line.startswith("broker fenced broker=1 ") for line in said(caplog))


def test_the_only_broker_that_comes_back_from_a_crash_is_no_reason_to_warn(
    node: Node, caplog: pytest.LogCaptureFixture
) -> None:
    node.create_topic("clicks")
    caplog.clear()
    node.crash()
    assert any(record.getMessage().startswith(f"{NO_LEADER_NOW} ") for record in caplog.records)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_under_load_the_log_is_quiet(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.create_topic("clicks")
    client = node.connect()
    caplog.clear()
    for _ in range(50):
        client.ask(produce("clicks", batch()), 9)
        client.ask(fetch("clicks", wanted()), 12)
        client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="clicks")]), 12)
        node.disconnect(node.connect())
        node.advance(1000)
    assert said(caplog) == []
