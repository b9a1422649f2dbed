"""The same admin requests, good and bad, to Apache Kafka and to Penstock: the same codes, and the same sentences.

Sentences about configs are our own (they name the bounds); `OWN_SENTENCE` lists where only the code is compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import pytest
from interop.kafka_peer import KafkaPeer, random_uuid

from penstock.client.admin import wait_for_topic
from penstock.client.client import Client
from penstock.config.server import Settings
from penstock.errors import ErrorCode
from penstock.metadata.configs import APPEND, DELETE, SET, SUBTRACT
from penstock.metadata.format import FormatRequest, format_directories
from penstock.metadata.image import ConfigResource
from penstock.protocol.messages import alter_configs_request as legacy
from penstock.protocol.messages import incremental_alter_configs_request as incremental
from penstock.protocol.messages.alter_configs_request import AlterConfigsRequest
from penstock.protocol.messages.create_partitions_request import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData
from penstock.protocol.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.raft.voters import VoterEndpoint
from penstock.server.disk import BlockingDisk
from penstock.server.server import Server

pytestmark = pytest.mark.java

UNKNOWN_ID = UUID("12345678-9abc-4def-8123-456789abcdef")


def topic(name: str = "new", partitions: int = 1, replicas: int = 1, **configs: str | None) -> CreatableTopic:
    given = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas, configs=given)


def assigned(*replicas: list[int], first: int = 0) -> CreatableTopic:
    wanted = topic(partitions=-1, replicas=-1)
    wanted.assignments = [
        CreatableReplicaAssignment(partition_index=first + number, broker_ids=each)
        for number, each in enumerate(replicas)
    ]
    return wanted


def create(*topics: CreatableTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=list(topics), validate_only=True, timeout_ms=10_000)


def add(count: int, *assignments: list[int], name: str = "existing.topic") -> CreatePartitionsRequest:
    chosen = [CreatePartitionsAssignment(broker_ids=each) for each in assignments] or None
    wanted = CreatePartitionsTopic(name=name, count=count, assignments=chosen)
    return CreatePartitionsRequest(topics=[wanted], validate_only=True, timeout_ms=10_000)


def delete(*topics: tuple[str | None, UUID]) -> DeleteTopicsRequest:
    states = [DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in topics]
    return DeleteTopicsRequest(topics=states, timeout_ms=10_000)


def change(kind: int, name: str, *configs: tuple[str, int, str | None]) -> IncrementalAlterConfigsRequest:
    changes = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in configs
    ]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def replace(kind: int, name: str, **configs: str | None) -> AlterConfigsRequest:
    values = [legacy.AlterableConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    resource = legacy.AlterConfigsResource(resource_type=kind, resource_name=name, configs=values)
    return AlterConfigsRequest(resources=[resource], validate_only=True)


def describe(kind: int, name: str) -> DescribeConfigsRequest:
    wanted = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
    return DescribeConfigsRequest(resources=[wanted])


NO_ID = UUID(int=0)
TOPIC, BROKER, LOGGER = ConfigResource.TOPIC, ConfigResource.BROKER, ConfigResource.BROKER_LOGGER

CORPUS: dict[str, Any] = {
    "create a good topic": create(topic()),
    "create with defaults": create(topic(partitions=-1, replicas=-1)),
    "create an empty name": create(topic("")),
    "create a dot": create(topic(".")),
    "create two dots": create(topic("..")),
    "create a long name": create(topic("a" * 250)),
    "create a slash": create(topic("a/b")),
    "create an existing topic": create(topic("existing.topic")),
    "create a colliding topic": create(topic("existing_topic")),
    "create the same twice": create(topic("a"), topic("a")),
    "create the metadata topic": create(topic("__cluster_metadata")),
    "create no partitions": create(topic(partitions=0)),
    "create negative partitions": create(topic(partitions=-2)),
    "create no replicas": create(topic(replicas=0)),
    "create negative replicas": create(topic(replicas=-2)),
    "create too many replicas": create(topic(replicas=3)),
    "create with a null config": create(topic(retention_ms=None)),
    "create with an unknown config": create(topic(no_such="1")),
    "create with a bad config": create(topic(retention_ms="soon")),
    "create with an assignment": create(assigned([1], [1])),
    "create with an empty assignment": create(assigned([])),
    "create with a repeated broker": create(assigned([1, 1])),
    "create on an unknown broker": create(assigned([9])),
    "create with uneven replicas": create(assigned([1], [1, 1])),
    "create with a hole": create(assigned([1], first=1)),
    "create a partition twice": create(
        CreatableTopic(
            name="new",
            num_partitions=-1,
            replication_factor=-1,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[1]) for _ in range(2)],
        )
    ),
    "create assigned with a count": create(
        CreatableTopic(name="new", num_partitions=1, replication_factor=-1, assignments=assigned([1]).assignments)
    ),
    "create assigned with a factor": create(
        CreatableTopic(name="new", num_partitions=-1, replication_factor=1, assignments=assigned([1]).assignments)
    ),
    "create too many partitions": create(topic(partitions=10_001)),
    "create far too many partitions": create(topic(partitions=2_000_000_000)),
    "create too many partitions in all": create(topic("a", partitions=6_000), topic("b", partitions=6_000)),
    "add too many partitions": add(10_003),
    "add far too many partitions": add(2_000_000_000),
    "create good and bad": create(topic("good"), topic("b/d")),
    "add partitions": add(4),
    "add partitions with an assignment": add(3, [1]),
    "add none": add(2),
    "add less": add(1),
    "add a negative count": add(-1),
    "add with too few assignments": add(4, [1]),
    "add on an unknown broker": add(3, [7]),
    "add with more replicas": add(3, [1, 1]),
    "add to an unknown topic": add(3, name="unknown"),
    "delete an unknown name": delete(("unknown", NO_ID)),
    "delete an unknown id": delete((None, UNKNOWN_ID)),
    "delete nothing in particular": delete((None, NO_ID)),
    "delete by name and id": delete(("a", UNKNOWN_ID)),
    "delete a name twice": delete(("unknown", NO_ID), ("unknown", NO_ID)),
    "delete an id twice": delete((None, UNKNOWN_ID), (None, UNKNOWN_ID)),
    "set a topic config": change(TOPIC, "existing.topic", ("retention.ms", SET, "5")),
    "set on an unknown topic": change(TOPIC, "unknown", ("retention.ms", SET, "5")),
    "set on no topic": change(TOPIC, "", ("retention.ms", SET, "5")),
    "set on a bad name": change(TOPIC, "a/b", ("retention.ms", SET, "5")),
    "set an unknown config": change(TOPIC, "existing.topic", ("no.such", SET, "5")),
    "set a bad value": change(TOPIC, "existing.topic", ("retention.ms", SET, "soon")),
    "set null": change(TOPIC, "existing.topic", ("retention.ms", SET, None)),
    "set twice": change(TOPIC, "existing.topic", ("retention.ms", SET, "1"), ("retention.ms", SET, "2")),
    "delete a config": change(TOPIC, "existing.topic", ("retention.ms", DELETE, None)),
    "append to a list": change(TOPIC, "existing.topic", ("cleanup.policy", APPEND, "compact")),
    "append to no list": change(TOPIC, "existing.topic", ("retention.ms", APPEND, "1")),
    "subtract from no list": change(TOPIC, "existing.topic", ("retention.ms", SUBTRACT, "1")),
    "append a bad element": change(TOPIC, "existing.topic", ("cleanup.policy", APPEND, "shred")),
    "set on another broker": change(BROKER, "7", ("log.retention.ms", SET, "5")),
    "set on a broker without a number": change(BROKER, "x", ("log.retention.ms", SET, "5")),
    "set on this broker": change(BROKER, "1", ("log.retention.ms", SET, "50000")),
    "set on all brokers": change(BROKER, "", ("log.retention.ms", SET, "50000")),
    "set a read-only config": change(BROKER, "1", ("process.roles", SET, "broker")),
    "set a bad broker config": change(BROKER, "1", ("log.retention.ms", SET, "soon")),
    "set on an unknown type": change(3, "x", ("a", SET, "b")),
    "set a logger of another broker": change(LOGGER, "7", ("root", SET, "INFO")),
    "set a logger of no broker": change(LOGGER, "x", ("root", SET, "INFO")),
    "set an unknown logger": change(LOGGER, "1", ("no.such.logger", SET, "INFO")),
    "append to a logger": change(LOGGER, "1", ("root", APPEND, "INFO")),
    "replace topic configs": replace(TOPIC, "existing.topic", retention_ms="5"),
    "replace with null": replace(TOPIC, "existing.topic", retention_ms=None),
    "replace on an unknown topic": replace(TOPIC, "unknown", retention_ms="5"),
    "replace a logger": replace(LOGGER, "1", root="INFO"),
    "replace an unknown type": replace(3, "1", a="b"),
    "describe a topic": describe(TOPIC, "existing.topic"),
    "describe an unknown topic": describe(TOPIC, "unknown"),
    "describe a bad name": describe(TOPIC, "a/b"),
    "describe another broker": describe(BROKER, "7"),
    "describe a broker without a number": describe(BROKER, "x"),
    "describe loggers of no broker": describe(LOGGER, ""),
    "describe loggers of another broker": describe(LOGGER, "7"),
    "list unknown resources": ListConfigResourcesRequest(resource_types=[3]),
    "describe controllers at a broker": DescribeClusterRequest(endpoint_type=2),
    "describe endpoints of no type": DescribeClusterRequest(endpoint_type=7),
    "describe the quorum": DescribeQuorumRequest(
        topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
    ),
    "describe the cluster": DescribeClusterRequest(),
    "describe loggers": DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=LOGGER, resource_name="1", configuration_keys=["root"])]
    ),
    "list topics with configs": ListConfigResourcesRequest(resource_types=[TOPIC]),
    "describe an unknown quorum": DescribeQuorumRequest(
        topics=[TopicData(topic_name="existing.topic", partitions=[PartitionData(partition_index=0)])]
    ),
    "describe partitions of an unknown topic": DescribeTopicPartitionsRequest(topics=[TopicRequest(name="unknown")]),
    "describe partitions of a bad name": DescribeTopicPartitionsRequest(topics=[TopicRequest(name="a/b")]),
    "describe partitions from a foreign cursor": DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="existing.topic")], cursor=Cursor(topic_name="a", partition_index=0)
    ),
    "describe partitions from a negative one": DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name="existing.topic")], cursor=Cursor(topic_name="existing.topic", partition_index=-1)
    ),
    "metadata of a topic": MetadataRequest(
        topics=[MetadataRequestTopic(name="existing.topic")], allow_auto_topic_creation=False
    ),
    "metadata of an unknown topic": MetadataRequest(
        topics=[MetadataRequestTopic(name="unknown")], allow_auto_topic_creation=False
    ),
    "metadata of a bad name": MetadataRequest(
        topics=[MetadataRequestTopic(name="a/b")], allow_auto_topic_creation=False
    ),
    "metadata of an unknown id": MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=UNKNOWN_ID)]),
}

OWN_SENTENCE = {
    "create with an unknown config",
    "create with a bad config",
    "set an unknown config",
    "set a bad value",
    "append a bad element",
    "set a read-only config",
    "set a bad broker config",
}
"""Where our sentence says more than Kafka's: the bounds, or the nearest known name."""

DIFFERENT_CODE: dict[str, str] = {
    "add too many partitions": "Kafka fails on its bounded list with UNKNOWN_SERVER_ERROR, we say POLICY_VIOLATION",
    "add far too many partitions": "the same",
}
"""Where even the code differs, and why."""


def errors_of(answer: Any) -> list[tuple[Any, ...]]:
    """Every error code in an answer, with its sentence and what it is about."""
    found = []
    if hasattr(answer, "error_code"):
        about = next(
            (getattr(answer, name) for name in ("name", "resource_name", "topic_name") if hasattr(answer, name)), ""
        )
        found.append((about, ErrorCode(answer.error_code).name, getattr(answer, "error_message", None)))
    for name in getattr(answer, "__slots__", ()):
        value = getattr(answer, name)
        for element in value if isinstance(value, list) else ():
            found += errors_of(element)
    return sorted(found, key=repr)


@contextmanager
def penstock_settings(directory: Path) -> Iterator[Settings]:
    directory.mkdir()
    disk = BlockingDisk(0, str(directory), durable=False)
    controller = VoterEndpoint("CONTROLLER", "127.0.0.1", 9093)
    request = FormatRequest(random_uuid(), 1, str(directory), standalone=True, controller=controller)
    format_directories({str(directory): disk}, request, Random(2), 1_800_000_000_000)
    disk.close()
    yield Settings.for_node(1, log_dirs=(str(directory),))


async def ask_all(bootstrap: str) -> dict[str, list[tuple[Any, ...]]]:
    """Sends the corpus and returns the errors of each answer."""
    async with Client(bootstrap) as client:
        existing = topic("existing.topic", partitions=2)
        await client.send(CreateTopicsRequest(topics=[existing], timeout_ms=10_000))
        await wait_for_topic(client, "existing.topic", expected=2)
        return {name: errors_of(await client.send(request)) for name, request in CORPUS.items()}


async def ask_penstock(settings: Settings) -> dict[str, list[tuple[Any, ...]]]:
    server = Server(settings, durable=False)
    await server.start()
    try:
        return await ask_all(server.addresses["PLAINTEXT"])
    finally:
        await server.stop()


def test_every_request_is_answered_as_kafka_answers_it(kafka_peer: KafkaPeer, tmp_path: Path) -> None:
    theirs = asyncio.run(ask_all(kafka_peer.bootstrap))
    with penstock_settings(tmp_path / "data") as settings:
        ours = asyncio.run(ask_penstock(settings))
    different = []
    for name in CORPUS:
        code_only = name in OWN_SENTENCE
        mine = [error[: 2 if code_only else 3] for error in ours[name]]
        its = [error[: 2 if code_only else 3] for error in theirs[name]]
        if (mine == its) is (name in DIFFERENT_CODE):
            different.append(f"{name}:\n  kafka    {its}\n  penstock {mine}")
    assert not different, "\n".join(different)
