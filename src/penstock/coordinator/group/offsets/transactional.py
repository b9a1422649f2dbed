"""TxnOffsetCommit (key 28), versions 0-5: how far a group has come, as part of a producer's transaction (KIP-98).

The offsets count when the transaction commits. From version 3 on the request names the member and its generation (its
member epoch, in a consumer group), so a producer of an earlier generation is fenced (KIP-447); one that names nothing
is from before that, and is believed. The state of the group does not matter then, and no session is renewed. The caller
has had the transaction verified, and the records are written in its name.

A client of this API knows generations only: an epoch that is over is ILLEGAL_GENERATION, too. Records have no topic id,
as in Kafka.
"""

from __future__ import annotations

from penstock.coordinator.group.base import PartitionCheck
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.offsets.commit import TEXT, is_too_long
from penstock.coordinator.group.offsets.run import OffsetRun, TopicOffsets
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequest, TxnOffsetCommitRequestTopic
from penstock.protocol.messages.txn_offset_commit_response import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def commit_transactional_offsets(
    state: GroupState, context: Context, request: TxnOffsetCommitRequest, now_ms: int
) -> Result[TxnOffsetCommitResponse]:
    """TxnOffsetCommit. Text that is too long refuses its partition alone.

    Raises RequestError, for all partitions: INVALID_GROUP_ID; ILLEGAL_GENERATION; and what `Group.check_commit` does:
    UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to commit offsets")
    try:
        check = check_of(state, context, request)
        answers, written = [], []
        for topic in request.topics:
            answer, accepted = sort_out(state, topic, check)
            answers.append(answer)
            if accepted.partitions:
                written.append(accepted)
    except RequestError as error:
        if error.code is ErrorCode.STALE_MEMBER_EPOCH:
            raise RequestError(ErrorCode.ILLEGAL_GENERATION, error.message) from None
        raise
    response = TxnOffsetCommitResponse(topics=answers)
    wall_ms = state.wall.at(now_ms)
    return Result(response, OffsetRun(state, request.group_id, written, wall_ms, request.producer_id))


def check_of(state: GroupState, context: Context, request: TxnOffsetCommitRequest) -> PartitionCheck | None:
    """Raises RequestError unless the member may commit; returns what else to check for each partition, if anything. A
    group that does not exist is created by the commit.
    """
    group = state.groups.find(request.group_id)
    if group is not None:
        return group.check_commit(
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            context.api_version,
            transactional=True,
        )
    if request.generation_id >= 0:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION, f"Group {request.group_id} not found.")
    return None


def sort_out(
    state: GroupState, topic: TxnOffsetCommitRequestTopic, check: PartitionCheck | None
) -> tuple[TxnOffsetCommitResponseTopic, TopicOffsets]:
    """The answer for a topic, and its offsets that are accepted. Raises RequestError as `check` does."""
    limit = state.settings.broker().offset_metadata_max_bytes
    known = state.image.topics_by_name.get(topic.name)
    if known is None and check is not None:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION, f"nobody is assigned {topic.name}, which does not exist")
    answers = [TxnOffsetCommitResponsePartition(partition_index=each.partition_index) for each in topic.partitions]
    accepted = topic.partitions
    if (known is not None and check is not None) or any(map(TEXT, accepted)):
        accepted = []
        for each, answer in zip(topic.partitions, answers, strict=True):
            if is_too_long(each.committed_metadata or "", limit):
                answer.error_code = ErrorCode.OFFSET_METADATA_TOO_LARGE
                continue
            if known is not None and check is not None:
                check(topic.name, known.id, each.partition_index)
            accepted.append(each)
    whole = TxnOffsetCommitResponseTopic(name=topic.name, partitions=answers)
    return whole, TopicOffsets(topic.name, ZERO_UUID, accepted)
