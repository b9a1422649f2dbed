"""Requests of groups as tests send them to a `support.broker.Node`, and what tests do to the coordinator's partitions.

node = Node(group_initial_rebalance_delay_ms=0, offsets_topic_num_partitions=1)
coordinate(node)
joined = join_new(node.connect())
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.log.disk import Operation
from penstock.node.groups import OFFSETS_TOPIC
from penstock.protocol import codec
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_delete_request import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from support.broker import Client, Node

GROUP = "g"
SESSION_MS = 10_000
ALONE: dict[str, Any] = {
    "group_initial_rebalance_delay_ms": 0,
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
}
"""Settings of a node that is alone, and lets groups begin at once."""


def find(*keys: str, kind: int = 0) -> FindCoordinatorRequest:
    """Who coordinates these. For versions from 4 on."""
    return FindCoordinatorRequest(key_type=kind, coordinator_keys=list(keys or (GROUP,)))


def subscription(*topics: str) -> bytes:
    """The metadata of a consumer, version 1."""
    return b"\0\1" + codec.encode_bytes(ConsumerProtocolSubscription(topics=list(topics)), 1)


def join(member_id: str = "", group: str = GROUP, *topics: str, **fields: Any) -> JoinGroupRequest:
    """A consumer joins with the range assignor."""
    values: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "rebalance_timeout_ms": SESSION_MS,
        "protocol_type": "consumer",
        "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(*(topics or ("t",))))],
    }
    return JoinGroupRequest(group_id=group, member_id=member_id, **{**values, **fields})


def sync(joined: JoinGroupResponse, assignments: Mapping[str, bytes] | None = None, group: str = GROUP) -> Message:
    """The leader brings assignments by member id."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=data) for each, data in (assignments or {}).items()
        ],
    )


def heartbeat(member_id: str, generation_id: int = 1, group: str = GROUP) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group, generation_id=generation_id, member_id=member_id)


def leave(*member_ids: str, group: str = GROUP) -> LeaveGroupRequest:
    return LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=each) for each in member_ids])


def commit(
    offsets: Mapping[tuple[str | UUID, int], int],
    group: str = GROUP,
    member_id: str = "",
    generation_id: int = -1,
    **fields: Any,
) -> OffsetCommitRequest:
    """Offsets by topic (name or id) and partition."""
    topics: dict[str | UUID, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in offsets.items():
        wanted = OffsetCommitRequestPartition(partition_index=partition, committed_offset=offset, **fields)
        topics.setdefault(topic, []).append(wanted)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        topics=[
            OffsetCommitRequestTopic(name=name_of(topic), topic_id=id_of(topic), partitions=partitions)
            for topic, partitions in topics.items()
        ],
    )


def fetch_offsets(
    wanted: Mapping[str | UUID, Iterable[int]] | None = None, *groups: str, require_stable: bool = False
) -> OffsetFetchRequest:
    """Offsets of groups, of these partitions by topic (name or id); None: of all. For versions from 8 on."""
    topics = None
    if wanted is not None:
        topics = [
            OffsetFetchRequestTopics(name=name_of(topic), topic_id=id_of(topic), partition_indexes=list(partitions))
            for topic, partitions in wanted.items()
        ]
    return OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id=group, topics=topics) for group in groups or (GROUP,)],
        require_stable=require_stable,
    )


def delete_offsets(topic: str, *partitions: int, group: str = GROUP) -> OffsetDeleteRequest:
    wanted = [OffsetDeleteRequestPartition(partition_index=each) for each in partitions]
    return OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic, partitions=wanted)])


def delete_groups(*groups: str) -> DeleteGroupsRequest:
    return DeleteGroupsRequest(groups_names=list(groups or (GROUP,)))


def describe(*groups: str, **fields: Any) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=list(groups or (GROUP,)), **fields)


def describe_consumers(*groups: str, **fields: Any) -> ConsumerGroupDescribeRequest:
    return ConsumerGroupDescribeRequest(group_ids=list(groups or (GROUP,)), **fields)


def consumer_heartbeat(member_id: str, epoch: int = 0, *topics: str, **fields: Any) -> ConsumerGroupHeartbeatRequest:
    """A member of a consumer group; with epoch 0 it joins, subscribes to topics (t unless told), and has nothing."""
    values: dict[str, Any] = {"group_id": GROUP, "member_id": member_id, "member_epoch": epoch}
    if epoch == 0:
        values |= {
            "rebalance_timeout_ms": SESSION_MS,
            "subscribed_topic_names": list(topics or ("t",)),
            "topic_partitions": [],
        }
    return ConsumerGroupHeartbeatRequest(**{**values, **fields})


def name_of(topic: str | UUID) -> str:
    return topic if isinstance(topic, str) else ""


def id_of(topic: str | UUID) -> UUID:
    return topic if isinstance(topic, UUID) else ZERO_UUID


# What is done with them


def coordinate(node: Node) -> None:
    """Has the topic of the coordinators made, by asking for one."""
    (found,) = node.connect().ask(find(), 4).coordinators
    assert found.error_code == ErrorCode.NONE
    node.settle()


def join_new(client: Client, group: str = GROUP, *topics: str) -> JoinGroupResponse:
    """A member gets its id and joins with it; the group must be empty, and must not wait for more."""
    told: JoinGroupResponse = client.ask(join("", group, *topics), 9)
    assert told.error_code == ErrorCode.MEMBER_ID_REQUIRED
    joined: JoinGroupResponse = client.ask(join(told.member_id, group, *topics), 9)
    assert joined.error_code == ErrorCode.NONE
    return joined


def stable_member(client: Client, group: str = GROUP) -> JoinGroupResponse:
    """The only member of a stable group, assigned `b"all"`."""
    joined = join_new(client, group)
    assert client.ask(sync(joined, {joined.member_id: b"all"}, group), 5).assignment == b"all"
    return joined


def committed(client: Client, group: str = GROUP) -> dict[tuple[str, int], int]:
    """All offsets of a group."""
    (found,) = client.ask(fetch_offsets(None, group), 8).groups
    assert found.error_code == ErrorCode.NONE
    return {
        (topic.name, each.partition_index): each.committed_offset for topic in found.topics for each in topic.partitions
    }


# What is done to the coordinator


def change_partition(node: Node, index: int = 0, name: str = OFFSETS_TOPIC, **changes: Any) -> None:
    """The controller changes a partition of a coordinator's topic: leader, isr, replicas ..."""
    topic = node.broker.image.topics_by_name[name]
    node.change([PartitionChangeRecord(topic_id=topic.id, partition_id=index, **changes)])


def loads(operation: Operation) -> bool:
    """Whether an operation reads the log of a coordinator. For `node.held`."""
    return operation.order.startswith(f"load {OFFSETS_TOPIC}")


def appends(operation: Operation) -> bool:
    """Whether an operation writes to the log of a coordinator. For `node.held`."""
    return not loads(operation) and OFFSETS_TOPIC in operation.order
