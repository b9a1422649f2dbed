"""Consumer groups as an operator sees them: lists, members, committed offsets with their lag, resets, deletions.

    async with Client("127.0.0.1:9092") as client:
        for group in await list_groups(client): ...
        lag = await lags(client, "reports")

A group's coordinator is asked; it is looked up again when it has moved. Works with classic and consumer groups
(KIP-848), of Penstock and of Apache Kafka alike.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.client.admin import refused
from penstock.client.client import EARLIEST, LATEST, Client, OffsetAt, Partition
from penstock.client.coordinators import MOVED, ask, ask_all
from penstock.errors import ErrorCode, ProtocolError, RequestError, UnsupportedVersionError
from penstock.protocol.api import ApiKey
from penstock.protocol.consumer_protocol import decode_assignment
from penstock.protocol.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from penstock.protocol.messages.delete_groups_request import DeleteGroupsRequest
from penstock.protocol.messages.describe_groups_request import DescribeGroupsRequest
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
from penstock.protocol.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup

GROUPS_OF_FETCH_FROM = 8
NAMES_UP_TO = 9
"""Versions of OffsetCommit and OffsetFetch above this name topics by id."""
NO_CONSUMER_GROUP = frozenset({ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.UNSUPPORTED_VERSION})
"""Errors that say that a group is none of KIP-848, or that the cluster has no such groups."""


@dataclass(frozen=True, slots=True)
class ListedGroup:
    """A group as its coordinator lists it. `type` is `classic` or `consumer`."""

    group_id: str
    protocol_type: str
    state: str
    type: str
    coordinator: int


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member. `epoch` is -1 in a classic group; `target` is its target assignment, if the broker reports it."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    epoch: int
    partitions: tuple[Partition, ...]
    target: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group with its members. `epoch` is the generation or group epoch, -1 where the broker does not tell."""

    group_id: str
    type: str
    state: str
    assignor: str
    epoch: int
    coordinator: int
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset. `metadata` is the committer's."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is in a partition. `committed` is -1 without a commit; `lag` is -1 then, or without an end."""

    partition: Partition
    committed: int
    start: int
    end: int
    member: GroupMember | None = field(default=None, compare=False)

    @property
    def lag(self) -> int:
        return max(0, self.end - self.committed) if self.committed >= 0 and self.end >= 0 else -1


async def list_groups(client: Client, *, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[ListedGroup]:
    """All groups of the cluster, by name: every broker is asked for those that it coordinates."""
    request = ListGroupsRequest(states_filter=list(states), types_filter=list(types))
    found = [
        ListedGroup(each.group_id, each.protocol_type, each.group_state, each.group_type.lower() or "classic", node_id)
        for node_id, answer in (await ask_all(client, request, "groups")).items()
        for each in answer.groups
    ]
    return sorted(found, key=lambda group: group.group_id)


async def describe_group(client: Client, group_id: str) -> GroupState:
    """A group of either type. Raises RequestError(GROUP_ID_NOT_FOUND)."""
    try:
        request = ConsumerGroupDescribeRequest(group_ids=[group_id])
        answer, node_id = await ask(client, group_id, request, lambda got: int(got.groups[0].error_code))
        got = answer.groups[0]
        if got.error_code not in NO_CONSUMER_GROUP:
            refused(got.error_code, got.error_message, f"group {group_id}")
            return consumer_group(got, node_id)
    except UnsupportedVersionError:
        pass  # a cluster without consumer groups
    answer, node_id = await ask(
        client, group_id, DescribeGroupsRequest(groups=[group_id]), lambda got: int(got.groups[0].error_code)
    )
    got = answer.groups[0]
    if got.group_state == "Dead" or got.error_code == ErrorCode.GROUP_ID_NOT_FOUND:
        raise RequestError(
            ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {group_id}; `penstock groups list` names those that are"
        )
    refused(got.error_code, got.error_message, f"group {group_id}")
    members = tuple(
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host.lstrip("/"),
            -1,
            assigned(bytes(each.member_assignment)),
            (),
        )
        for each in got.members
    )
    return GroupState(group_id, "classic", got.group_state, got.protocol_data, -1, node_id, members)


def consumer_group(got: Any, node_id: int) -> GroupState:
    """A consumer group from the response to ConsumerGroupDescribe."""

    def places(assignment: Any) -> tuple[Partition, ...]:
        return tuple(
            sorted((topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)
        )

    members = tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host.lstrip("/"),
            each.member_epoch,
            places(each.assignment),
            places(each.target_assignment),
        )
        for each in got.members
    )
    return GroupState(got.group_id, "consumer", got.group_state, got.assignor_name, got.group_epoch, node_id, members)


def assigned(data: bytes) -> tuple[Partition, ...]:
    """The partitions in a classic member's assignment; none for one that is not of the consumer protocol."""
    try:
        found = decode_assignment(data)
    except ProtocolError:
        return ()
    return tuple(sorted((topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions))


async def committed(client: Client, group_id: str) -> dict[Partition, Committed]:
    """Every offset that the group has committed."""
    version = min(NAMES_UP_TO, (await client.connection(None)).version_for(ApiKey.OFFSET_FETCH))
    in_batches = version >= GROUPS_OF_FETCH_FROM
    if in_batches:
        request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)])
    else:
        request = OffsetFetchRequest(group_id=group_id, topics=None)

    def of_group(answer: Any) -> Any:
        return answer.groups[0] if in_batches else answer

    answer, _ = await ask(client, group_id, request, lambda got: int(of_group(got).error_code), at_most=NAMES_UP_TO)
    got = of_group(answer)
    refused(got.error_code, None, f"group {group_id}")
    return {
        (topic.name, each.partition_index): Committed(
            each.committed_offset, each.committed_leader_epoch, each.metadata or ""
        )
        for topic in got.topics
        for each in topic.partitions
        if each.committed_offset >= 0
    }


async def lags(client: Client, state: GroupState) -> list[Lag]:
    """The lag of a group in every partition that it has committed or been assigned, sorted."""
    offsets = await committed(client, state.group_id)
    owners = {partition: member for member in state.members for partition in member.partitions}
    partitions = sorted({*offsets, *owners})
    start, end = await ends(client, partitions)
    return [
        Lag(
            partition,
            offsets[partition].offset if partition in offsets else -1,
            start.get(partition, OffsetAt(-1, -1, -1)).offset,
            end.get(partition, OffsetAt(-1, -1, -1)).offset,
            owners.get(partition),
        )
        for partition in partitions
    ]


async def ends(
    client: Client, partitions: Sequence[Partition]
) -> tuple[dict[Partition, OffsetAt], dict[Partition, OffsetAt]]:
    """First and next offsets of those partitions that still exist."""
    names = sorted({name for name, _ in partitions})
    answer = await client.refresh(names) if names else None
    counts = {topic.name: len(topic.partitions) for topic in answer.topics if not topic.error_code} if answer else {}
    present = [(name, index) for name, index in partitions if index < counts.get(name, 0)]
    if not present:
        return {}, {}
    return await client.offsets(present, EARLIEST), await client.offsets(present, LATEST)


async def alter_offsets(client: Client, group_id: str, offsets: Mapping[Partition, int]) -> dict[Partition, ErrorCode]:
    """Commits offsets for a group that has no members; returns the result for each partition.

    Raises RequestError for the group as a whole: UNKNOWN_MEMBER_ID when it has members.
    """
    request = commit_request(group_id, {place: Committed(offset) for place, offset in offsets.items()})
    answer, _ = await ask(client, group_id, request, commit_error, at_most=NAMES_UP_TO)
    found = {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }
    if ErrorCode.UNKNOWN_MEMBER_ID in found.values():
        raise RequestError(
            ErrorCode.UNKNOWN_MEMBER_ID, f"group {group_id} has members: stop them before its offsets are changed"
        )
    return found


def commit_request(
    group_id: str,
    offsets: Mapping[Partition, Committed],
    *,
    member_id: str = "",
    epoch: int = -1,
    instance_id: str | None = None,
) -> OffsetCommitRequest:
    """An OffsetCommit by a member in its epoch or generation; by default, not by a member."""
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (name, index), at in offsets.items():
        place = OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=at.offset,
            committed_leader_epoch=at.leader_epoch,
            committed_metadata=at.metadata,
        )
        topics.setdefault(name, []).append(place)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=epoch,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()],
    )


def commit_error(answer: Any) -> int:
    """The error of an OffsetCommit, or 0: that of the coordinator, if some partitions have others."""
    codes = [int(each.error_code) for topic in answer.topics for each in topic.partitions if each.error_code]
    return next((code for code in codes if code in MOVED), codes[0] if codes else 0)


async def delete_offsets(client: Client, group_id: str, partitions: Iterable[Partition]) -> dict[Partition, ErrorCode]:
    """Deletes committed offsets of topics that no member subscribes to."""
    topics: dict[str, list[OffsetDeleteRequestPartition]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(OffsetDeleteRequestPartition(partition_index=index))
    request = OffsetDeleteRequest(
        group_id=group_id,
        topics=[OffsetDeleteRequestTopic(name=name, partitions=some) for name, some in topics.items()],
    )
    answer, _ = await ask(client, group_id, request, lambda got: int(got.error_code))
    refused(answer.error_code, None, f"group {group_id}")
    return {
        (topic.name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.topics
        for each in topic.partitions
    }


async def delete_groups(client: Client, group_ids: Sequence[str]) -> dict[str, ErrorCode]:
    """Deletes groups without members; returns the result for each."""

    async def delete(group_id: str) -> ErrorCode:
        request = DeleteGroupsRequest(groups_names=[group_id])
        answer, _ = await ask(client, group_id, request, lambda got: int(got.results[0].error_code))
        return ErrorCode(answer.results[0].error_code)

    codes: Awaitable[list[ErrorCode]] = asyncio.gather(*map(delete, group_ids))
    return dict(zip(group_ids, await codes, strict=True))
