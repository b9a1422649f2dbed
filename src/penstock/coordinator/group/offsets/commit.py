"""OffsetCommit (key 8), versions 2-10: how far a group has come in its partitions.

A member commits with its generation (its member epoch, in a consumer group); a consumer that assigns its partitions
itself and a tool commit with generation -1, to a group that is empty or does not exist. A commit of a classic member
counts as a heartbeat. Up to version 4 the request may say how long to keep the offsets. Topics have names here, and
ids: the caller has looked up what the request lacks, and refused topics that do not exist.
"""

from __future__ import annotations

from operator import attrgetter

from penstock.coordinator.group.base import Group, PartitionCheck
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.rebalance import renew_session
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.offsets.run import OffsetRun, TopicOffsets, one_by_one
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
)
from penstock.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_NOT_FOUND_FROM = 9
NO_RETENTION = -1
TEXT = attrgetter("committed_metadata")


def commit_offsets(
    state: GroupState, context: Context, request: OffsetCommitRequest, now_ms: int
) -> Result[OffsetCommitResponse]:
    """OffsetCommit. Text that is too long refuses its partition alone.

    Raises RequestError, for all partitions: what `Group.check_commit` does; for a group that does not exist
    GROUP_ID_NOT_FOUND, before version 9 ILLEGAL_GENERATION.
    """
    group, check = group_of(state, context, request)
    if isinstance(group, ClassicGroup) and group.state in (State.STABLE, State.PREPARING_REBALANCE):
        renew_session(state, group, group.members[request.member_id], now_ms)
    wall_ms = state.wall.at(now_ms)
    limit = state.settings.broker().offset_metadata_max_bytes
    answers, written = [], []
    for topic in request.topics:
        kept = topic.partitions
        if check is not None:
            for each in kept:
                check(topic.name, topic.topic_id, each.partition_index)
        partitions = [OffsetCommitResponsePartition(partition_index=each.partition_index) for each in kept]
        if any(map(TEXT, kept)):
            kept = []
            for each, answer in zip(topic.partitions, partitions, strict=True):
                if is_too_long(each.committed_metadata or "", limit):
                    answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                else:
                    kept.append(each)
        answers.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        if kept:
            written.append(TopicOffsets(topic.name, topic.topic_id, kept))
    response = OffsetCommitResponse(topics=answers)
    if request.retention_time_ms == NO_RETENTION:
        return Result(response, OffsetRun(state, request.group_id, written, wall_ms))
    expire_timestamp_ms = wall_ms + request.retention_time_ms
    return Result(response, list(one_by_one(request.group_id, written, wall_ms, expire_timestamp_ms)))


def group_of(
    state: GroupState, context: Context, request: OffsetCommitRequest
) -> tuple[Group | None, PartitionCheck | None]:
    """The group, after checking that the member may commit. None means that the commit creates the group."""
    check = None
    generation_or_epoch = request.generation_id_or_member_epoch
    group = state.groups.find(request.group_id)
    if group is not None:
        check = group.check_commit(
            request.member_id, request.group_instance_id, generation_or_epoch, context.api_version, transactional=False
        )
    elif generation_or_epoch >= 0:
        if context.api_version >= GROUP_NOT_FOUND_FROM:
            raise RequestError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} not found.")
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    return group, check


def is_too_long(text: str, limit: int) -> bool:
    """Whether a text has more UTF-16 units than allowed: that is how Kafka counts `offset.metadata.max.bytes`."""
    if len(text) * 2 <= limit:
        return False
    return len(text) > limit or len(text.encode("utf-16-le", "surrogatepass")) // 2 > limit
