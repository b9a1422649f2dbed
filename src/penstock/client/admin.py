"""Administration of any Kafka cluster: topics, configs, offsets, log directories. One function for each API.

Each takes a connected `Client` and returns plain values; a refusal is raised as RequestError with the broker's own
message. Requests that change something go to any broker, which forwards them to the controller.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.client.client import Partition
from penstock.client.limits import CLIENT_RETRY_BACKOFF_MS
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.api import ApiKey

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.protocol.messages.metadata_response import MetadataResponseTopic

TIMEOUT_MS = 30_000
AUTO_CREATION_TIMEOUT_MS = 5_000
"""How long a cluster may take to make a topic that was asked for by name."""
BROKER_DEFAULT = -1
"""In place of a number of partitions or replicas: what the broker is configured with."""
TOPIC_IDS_FROM_VERSION = 6
"""DeleteTopics names its topics in another field from here on."""


class ResourceType(IntEnum):
    """The kinds of resources that have configs, numbered as in DescribeConfigs."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigOperation(IntEnum):
    """The operations of IncrementalAlterConfigs on a value."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """A resource that has configs. The name of a broker is its id; an empty name means the defaults of all brokers."""

    type: ResourceType
    name: str

    @property
    def node_id(self) -> int | None:
        """The broker that alone can answer for it; None: any can."""
        of_one_broker = self.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and self.name
        return int(self.name) if of_one_broker else None


@dataclass(frozen=True, slots=True)
class Config:
    """One entry of DescribeConfigs. `source` as in penstock.config.setting.Source; a secret's `value` is None."""

    name: str
    value: str | None
    source: int
    read_only: bool
    sensitive: bool
    documentation: str | None


@dataclass(frozen=True, slots=True)
class CreatedTopic:
    """A created topic; partitions and replicas are -1 if the caller is not allowed to see them."""

    name: str
    topic_id: UUID
    partitions: int
    replication_factor: int


@dataclass(frozen=True, slots=True)
class Change:
    """A change to one config."""

    name: str
    operation: ConfigOperation
    value: str | None


async def describe_topics(client: Client, names: Iterable[str] | None = None) -> list[MetadataResponseTopic]:
    """Topics by name (None: all) with their partitions, sorted. Raises RequestError for one that is unknown."""
    answer = await client.refresh(names)
    for topic in answer.topics:
        refused(topic.error_code, None, f"topic {topic.name}")
        topic.partitions.sort(key=lambda partition: partition.partition_index)
    return sorted(answer.topics, key=lambda topic: topic.name or "")


async def create_topic(
    client: Client,
    name: str,
    *,
    partitions: int = BROKER_DEFAULT,
    replication_factor: int = BROKER_DEFAULT,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> CreatedTopic:
    """Creates a topic. `assignment` has the broker ids of each partition and replaces the two numbers."""
    from penstock.protocol.messages.create_topics_request import (
        CreatableReplicaAssignment,
        CreatableTopic,
        CreatableTopicConfig,
        CreateTopicsRequest,
    )

    topic = CreatableTopic(
        name=name,
        num_partitions=BROKER_DEFAULT if assignment else partitions,
        replication_factor=BROKER_DEFAULT if assignment else replication_factor,
        assignments=[
            CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in enumerate(assignment)
        ],
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in (configs or {}).items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    got = (await client.send(request)).topics[0]
    refused(got.error_code, got.error_message, f"topic {name}")
    return CreatedTopic(name, got.topic_id, got.num_partitions, got.replication_factor)


async def delete_topics(client: Client, names: Sequence[str]) -> dict[str, RequestError | None]:
    """Deletes topics; by name, why it could not be, or None when it was."""
    from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

    version = (await client.connection(None)).version_for(ApiKey.DELETE_TOPICS)
    request = DeleteTopicsRequest(timeout_ms=TIMEOUT_MS)
    if version >= TOPIC_IDS_FROM_VERSION:
        request.topics = [DeleteTopicState(name=name) for name in names]
    else:
        request.topic_names = list(names)
    outcome: dict[str, RequestError | None] = {}
    for got in (await client.send(request)).responses:
        try:
            refused(got.error_code, got.error_message, f"topic {got.name}")
            outcome[got.name] = None
        except RequestError as error:
            outcome[got.name] = error
    return outcome


async def create_partitions(
    client: Client, name: str, count: int, *, assignment: Sequence[Sequence[int]] = (), validate_only: bool = False
) -> None:
    """Raises the number of a topic's partitions to `count`; `assignment` has the broker ids of each new one."""
    from penstock.protocol.messages.create_partitions_request import (
        CreatePartitionsAssignment,
        CreatePartitionsRequest,
        CreatePartitionsTopic,
    )

    new = [CreatePartitionsAssignment(broker_ids=list(brokers)) for brokers in assignment]
    topic = CreatePartitionsTopic(name=name, count=count, assignments=new or None)
    request = CreatePartitionsRequest(topics=[topic], timeout_ms=TIMEOUT_MS, validate_only=validate_only)
    got = (await client.send(request)).results[0]
    refused(got.error_code, got.error_message, f"topic {name}")


async def describe_configs(
    client: Client, resource: Resource, names: Sequence[str] | None = None, *, documentation: bool = False
) -> list[Config]:
    """Configs of a resource (None: all), sorted by name."""
    from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

    wanted = DescribeConfigsResource(
        resource_type=resource.type, resource_name=resource.name, configuration_keys=None if names is None else [*names]
    )
    request = DescribeConfigsRequest(resources=[wanted], include_documentation=documentation)
    got = (await client.send(request, node_id=resource.node_id)).results[0]
    refused(got.error_code, got.error_message, described(resource))
    found = [
        Config(each.name, each.value, each.config_source, each.read_only, each.is_sensitive, each.documentation)
        for each in got.configs
    ]
    return sorted(found, key=lambda config: config.name)


async def alter_configs(
    client: Client, resource: Resource, changes: Sequence[Change], *, validate_only: bool = False
) -> None:
    """Changes configs of a resource, all or none; the others stay."""
    from penstock.protocol.messages.incremental_alter_configs_request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    configs = [AlterableConfig(name=each.name, config_operation=each.operation, value=each.value) for each in changes]
    altered = AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[altered], validate_only=validate_only)
    got = (await client.send(request, node_id=resource.node_id)).responses[0]
    refused(got.error_code, got.error_message, described(resource))


async def partition_sizes(client: Client, node_ids: Iterable[int]) -> dict[Partition, int]:
    """Bytes on disk of each partition, all its replicas on these brokers added up."""
    from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

    sizes: dict[Partition, int] = {}
    answers = await asyncio.gather(
        *(client.send(DescribeLogDirsRequest(topics=None), node_id=node) for node in node_ids)
    )
    for answer in answers:
        refused(answer.error_code, None, "log directories")
        for directory in answer.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    key = (topic.name, each.partition_index)
                    sizes[key] = sizes.get(key, 0) + each.partition_size
    return sizes


async def wait_for_topic(
    client: Client,
    name: str,
    *,
    create: bool = False,
    expected: int = 0,
    partition: int | None = None,
    timeout_ms: int = TIMEOUT_MS,
) -> int:
    """Waits until every partition of a topic, or the one given, has a leader; returns how many it has.

    With `create`, a missing topic is made if the cluster makes topics by itself. With `expected`, of a topic that was
    just created or extended, it waits until the broker has heard of so many partitions. Raises RequestError.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        topic = (await client.refresh([name], create=create)).topics[0]
        error = ErrorCode(topic.error_code)
        wanted = [each for each in topic.partitions if partition in (None, each.partition_index)]
        leaderless = any(each.leader_id < 0 for each in wanted)
        if error is ErrorCode.NONE and not leaderless and len(topic.partitions) >= expected:
            return len(topic.partitions)
        missing = error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if not (error is ErrorCode.NONE or error.retriable) or (missing and not create and not expected):
            refused(error, None, f"topic {name}")
        waited_ms = (loop.time() - began) * 1000
        if missing and waited_ms > AUTO_CREATION_TIMEOUT_MS:
            why = "there is no such topic, and the cluster makes none by itself: `penstock topics create` does"
            raise RequestError(error, f"topic {name}: {why}")
        if waited_ms > timeout_ms:
            lacking = (
                "not every partition has a leader" if partition is None else f"partition {partition} has no leader"
            )
            raise RequestError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name}: {lacking}")
        await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)


def refused(code: int, message: str | None, subject: str) -> None:
    """Raises RequestError in a sentence about `subject` if the code is an error."""
    if code == ErrorCode.NONE:
        return
    error = ErrorCode(code)
    message = None if message in (error.name, *SAYS_NO_MORE_THAN_THE_CODE) else message
    sentence = message or SENTENCES.get(error, error.name)
    name = re.escape(subject.rpartition(" ")[2])
    named = message and re.search(rf"(?<![\w.-]){name}(?![\w-])", message)  # the broker says itself what it speaks of
    raise RequestError(error, sentence if named else f"{subject}: {sentence}")


SAYS_NO_MORE_THAN_THE_CODE = (
    "This server does not host this topic-partition.",
    "This server does not host this topic ID.",
    "Authorization failed.",
    "Cluster authorization failed.",
    "Group authorization failed.",
    "Topic authorization failed.",
    "Transactional Id authorization failed.",
)
"""Kafka's own sentences of some codes, which name nothing; ours are clearer."""
SENTENCES = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "it has no coordinator: the brokers with its part of __consumer_offsets (for "
    "transactions, __transaction_state) are gone, or the topic could not be made, which takes as many brokers as "
    "offsets.topic.replication.factor (transaction.state.log.replication.factor) says; the brokers' logs tell more "
    "(COORDINATOR_NOT_AVAILABLE)",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "there is no such topic (UNKNOWN_TOPIC_OR_PARTITION)",
    ErrorCode.UNKNOWN_TOPIC_ID: "there is no topic with this id (UNKNOWN_TOPIC_ID)",
    ErrorCode.INVALID_TOPIC_EXCEPTION: "the name is not valid: letters, digits, '.', '_' and '-', at most 249"
    " (INVALID_TOPIC_EXCEPTION)",
    ErrorCode.TOPIC_ALREADY_EXISTS: "it exists already (TOPIC_ALREADY_EXISTS)",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "not allowed (TOPIC_AUTHORIZATION_FAILED)",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "not allowed (GROUP_AUTHORIZATION_FAILED)",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "not allowed (CLUSTER_AUTHORIZATION_FAILED)",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "not allowed (TRANSACTIONAL_ID_AUTHORIZATION_FAILED)",
}
"""What brokers say with a code alone, in words."""


def described(resource: Resource) -> str:
    """A resource in words."""
    kind = resource.type.name.lower().replace("_", " ")
    return f"{kind} {resource.name}" if resource.name else f"the default of all {kind}s"
