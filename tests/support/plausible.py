"""A request of each API that does what it is for, as far as a node alone can: on the topic and groups of `world`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from penstock.metadata.image import ConfigResource
from penstock.node.request import Handler
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from support import hostile
from support.broker import Node
from support.requests import batch, produce

GROUP = "committed"
"""A group with an offset and without members."""


def world() -> tuple[Node, UUID]:
    """A node with a topic of one record and a group. And the topic's id."""
    node = Node(offsets_topic_replication_factor=1, offsets_topic_num_partitions=1)
    topic_id = node.create_topic(hostile.NAME)
    client = node.connect()
    client.ask(produce(hostile.NAME, batch()), 9)
    client.ask(FindCoordinatorRequest(key=GROUP), 1)
    node.advance(100)
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
    topic = OffsetCommitRequestTopic(name=hostile.NAME, partitions=[partition])
    answer = client.ask(OffsetCommitRequest(group_id=GROUP, topics=[topic]), 8)
    assert answer.topics[0].partitions[0].error_code == 0
    return node, topic_id


def plausible(handler: Handler, topic_id: UUID, version: int | None = None) -> Message:
    """The request, in the API's newest version or the one given."""
    name = handler.api.request_class.__name__
    version = handler.max_version if version is None else version
    request = hostile.build(name, version, text=hostile.NAME, number=0, topic_id=topic_id)
    CHANGES.get(handler.key, lambda plain: None)(request)
    return request


def _produce(request: Any) -> None:
    request.acks, request.timeout_ms, request.transactional_id = -1, 100, None
    request.topic_data[0].partition_data[0].records = batch()


def _fetch(request: Any) -> None:
    request.replica_id = request.replica_state.replica_id = -1
    request.max_bytes = request.topics[0].partitions[0].partition_max_bytes = 1000
    request.forgotten_topics_data = []


def _describe_quota_usage(request: Any) -> None:
    request.components, request.max_usages = [], 10


def _join_group(request: Any) -> None:
    request.member_id, request.group_instance_id = "", None
    request.session_timeout_ms, request.rebalance_timeout_ms = 10_000, 1_000


def _heartbeat(request: Any) -> None:
    request.rebalance_timeout_ms = 1_000
    request.instance_id = request.server_assignor = request.subscribed_topic_regex = None
    request.topic_partitions = []


def _create_topics(request: Any) -> None:
    (topic,) = request.topics
    topic.name, topic.num_partitions, topic.replication_factor = "new", 1, 1
    topic.assignments, topic.configs = [], []


def _create_partitions(request: Any) -> None:
    request.topics[0].count, request.topics[0].assignments = 2, None


def _delete_topics(request: Any) -> None:
    for topic in request.topics:
        topic.name = None
    request.topic_names = [hostile.NAME]


def _describe_acls(request: Any) -> None:
    request.resource_type_filter = request.pattern_type_filter = request.operation = request.permission_type = 1


def _create_acls(request: Any) -> None:
    (each,) = request.creations
    each.resource_type, each.resource_pattern_type, each.operation, each.permission_type = 2, 3, 3, 3


def _delete_acls(request: Any) -> None:
    _describe_acls(request.filters[0])


def _alter_configs(request: Any) -> None:
    (resource,) = request.resources
    resource.resource_type = ConfigResource.TOPIC
    resource.configs[0].name, resource.configs[0].value = "retention.ms", "5000"


def _offset_commit(request: Any) -> None:
    request.generation_id_or_member_epoch, request.member_id, request.group_instance_id = -1, "", None


def _txn_offset_commit(request: Any) -> None:
    request.generation_id, request.member_id, request.group_instance_id = -1, "", None


def _offset_fetch(request: Any) -> None:
    if not request.groups:
        request.group_id = GROUP
    for group in request.groups:
        group.group_id, group.member_id, group.member_epoch = GROUP, None, -1


def _delete_groups(request: Any) -> None:
    request.groups_names = [GROUP]


def _offset_delete(request: Any) -> None:
    request.group_id = GROUP


def _init_producer_id(request: Any) -> None:
    request.transactional_id = None


CHANGES: Mapping[ApiKey, Callable[[Any], None]] = {
    ApiKey.DESCRIBE_ACLS: _describe_acls,
    ApiKey.CREATE_ACLS: _create_acls,
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.PRODUCE: _produce,
    ApiKey.FETCH: _fetch,
    ApiKey.DESCRIBE_QUOTA_USAGE: _describe_quota_usage,
    ApiKey.JOIN_GROUP: _join_group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _heartbeat,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.CREATE_PARTITIONS: _create_partitions,
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.ALTER_CONFIGS: _alter_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.OFFSET_COMMIT: _offset_commit,
    ApiKey.TXN_OFFSET_COMMIT: _txn_offset_commit,
    ApiKey.OFFSET_FETCH: _offset_fetch,
    ApiKey.DELETE_GROUPS: _delete_groups,
    ApiKey.OFFSET_DELETE: _offset_delete,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}
"""Where the request that the schema gives is refused at once: what makes it one that is not."""
