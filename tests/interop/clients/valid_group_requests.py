"""Valid requests of groups, one for every API and version; `expected_errors` has the errors of those that name
nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
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
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.sync_group_request import SyncGroupRequest

GROUP = "every-version"


def find_coordinator(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    if version < 4:
        return FindCoordinatorRequest(key=GROUP)
    return FindCoordinatorRequest(coordinator_keys=[GROUP, new_name])


def join_group(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    """A group of its own. From version 5 on a static member, which needs no id first."""
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"any")]
    fields = {"group_instance_id": "the-one"} if version >= 5 else {}
    return JoinGroupRequest(
        group_id=new_name, session_timeout_ms=10_000, protocol_type="consumer", protocols=protocols, **fields
    )


def sync_group(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    fields = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
    return SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="nobody", **fields)


def heartbeat(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="nobody")


def leave_group(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    if version < 3:
        return LeaveGroupRequest(group_id=GROUP, member_id="nobody")
    return LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id="nobody")])


def offset_commit(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=2, committed_metadata="said")
    by_id = {"topic_id": topic_id} if version >= 10 else {"name": topic}
    return OffsetCommitRequest(group_id=GROUP, topics=[OffsetCommitRequestTopic(**by_id, partitions=[partition])])


def offset_fetch(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    if version < 8:
        return OffsetFetchRequest(group_id=GROUP, topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0])])
    by_id = {"topic_id": topic_id} if version >= 10 else {"name": topic}
    wanted = OffsetFetchRequestTopics(**by_id, partition_indexes=[0])
    groups = [
        OffsetFetchRequestGroup(group_id=GROUP, topics=[wanted]),
        OffsetFetchRequestGroup(group_id=GROUP, topics=None),
    ]
    return OffsetFetchRequest(groups=groups, require_stable=True)


def offset_delete(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    partition = OffsetDeleteRequestPartition(partition_index=0)
    return OffsetDeleteRequest(group_id=new_name, topics=[OffsetDeleteRequestTopic(name=topic, partitions=[partition])])


def delete_groups(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return DeleteGroupsRequest(groups_names=[new_name])


def list_groups(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return ListGroupsRequest(
        states_filter=["Stable"] if version >= 4 else [], types_filter=["classic"] if version >= 5 else []
    )


def describe_groups(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return DescribeGroupsRequest(groups=[new_name], include_authorized_operations=version >= 3)


def consumer_group_heartbeat(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return ConsumerGroupHeartbeatRequest(
        group_id=new_name,
        member_id="" if version == 0 else "AAAAAAAAAAAAAAAAAAAAAQ",
        member_epoch=0,
        rebalance_timeout_ms=5000,
        subscribed_topic_names=[topic],
        topic_partitions=[],
    )


def consumer_group_describe(topic: str, topic_id: UUID, version: int, new_name: str) -> Message:
    return ConsumerGroupDescribeRequest(group_ids=[new_name])


VALID_OF_GROUPS: Mapping[ApiKey, Callable[[str, UUID, int, str], Message]] = {
    ApiKey.FIND_COORDINATOR: find_coordinator,
    ApiKey.JOIN_GROUP: join_group,
    ApiKey.SYNC_GROUP: sync_group,
    ApiKey.HEARTBEAT: heartbeat,
    ApiKey.LEAVE_GROUP: leave_group,
    ApiKey.OFFSET_COMMIT: offset_commit,
    ApiKey.OFFSET_FETCH: offset_fetch,
    ApiKey.OFFSET_DELETE: offset_delete,
    ApiKey.DELETE_GROUPS: delete_groups,
    ApiKey.LIST_GROUPS: list_groups,
    ApiKey.DESCRIBE_GROUPS: describe_groups,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: consumer_group_heartbeat,
    ApiKey.CONSUMER_GROUP_DESCRIBE: consumer_group_describe,
}


def expected_errors(key: ApiKey, version: int) -> list[ErrorCode]:
    """The errors in the answer to a request above: it asks for a member or a group that is not there."""
    if key is ApiKey.JOIN_GROUP and version == 4:
        return [ErrorCode.MEMBER_ID_REQUIRED]
    if key is ApiKey.DESCRIBE_GROUPS and version < 6:
        return []
    return {
        ApiKey.SYNC_GROUP: [ErrorCode.UNKNOWN_MEMBER_ID],
        ApiKey.HEARTBEAT: [ErrorCode.UNKNOWN_MEMBER_ID],
        ApiKey.LEAVE_GROUP: [ErrorCode.UNKNOWN_MEMBER_ID],
        ApiKey.OFFSET_DELETE: [ErrorCode.GROUP_ID_NOT_FOUND],
        ApiKey.DELETE_GROUPS: [ErrorCode.GROUP_ID_NOT_FOUND],
        ApiKey.DESCRIBE_GROUPS: [ErrorCode.GROUP_ID_NOT_FOUND],
        ApiKey.CONSUMER_GROUP_DESCRIBE: [ErrorCode.GROUP_ID_NOT_FOUND],
    }.get(key, [])
