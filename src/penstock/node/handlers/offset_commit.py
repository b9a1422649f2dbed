"""OffsetCommit (key 8): a group's positions, by a member or by anybody when the group has no members.

Versions 2-10, flexible from 8; topics by id from 10 on. Topics and partitions that are not there are refused here, the
rest goes to the group's coordinator (`coordinator.group.offsets.commit`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.coordinator.group.offsets.commit import commit_offsets
from penstock.errors import ErrorCode
from penstock.node.handlers.authorization import allowed
from penstock.node.handlers.group_coordinator import check_group, context_of, write
from penstock.node.request import Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.READ, ResourceType.GROUP)

TOPIC_IDS_FROM = 10


def handle(node: Broker, request: Request[OffsetCommitRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request)
    check_group(node, request, Operation.READ, body.group_id)
    by_id = request.version >= TOPIC_IDS_FROM
    refused: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    for topic in body.topics:
        sort_out(node, request, topic, accepted, refused)
    if not accepted:
        return OffsetCommitResponse(topics=merged(refused, by_id=by_id))
    wanted = OffsetCommitRequest(
        group_id=body.group_id,
        generation_id_or_member_epoch=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        retention_time_ms=body.retention_time_ms,
        topics=accepted,
    )

    def respond(response: OffsetCommitResponse) -> Message:
        return OffsetCommitResponse(topics=merged(chain(refused, response.topics), by_id=by_id))

    return write(
        node,
        request,
        body.group_id,
        lambda shard: commit_offsets(shard, context, wanted, now_ms),
        now_ms,
        respond=respond,
    )


def sort_out(
    node: Broker,
    request: Request[OffsetCommitRequest],
    topic: OffsetCommitRequestTopic,
    accepted: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
) -> None:
    """Puts the partitions of a topic among those that go to the coordinator, with name and id, or are refused."""
    image = node.image
    by_id = request.version >= TOPIC_IDS_FROM
    found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
    name = topic.name if found is None else found.name
    if by_id and found is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif not allowed(node, request, Operation.READ, ResourceType.TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    count = 0 if found is None or code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else len(found.partitions)
    good: list[OffsetCommitRequestPartition] = []
    bad: list[OffsetCommitRequestPartition] = []
    for partition in topic.partitions:
        (good if 0 <= partition.partition_index < count else bad).append(partition)
    if good and found is not None:
        accepted.append(OffsetCommitRequestTopic(name=name, topic_id=found.id, partitions=good))
    if bad:
        refused.append(response_topic(topic, bad, code))


def response_topic(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], code: ErrorCode
) -> OffsetCommitResponseTopic:
    """Partitions of a topic answered with the error."""
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=code) for each in partitions
        ],
    )


def merged(topics: Iterable[OffsetCommitResponseTopic], *, by_id: bool) -> list[OffsetCommitResponseTopic]:
    """The parts of an answer, a topic once."""
    whole: dict[str | UUID, OffsetCommitResponseTopic] = {}
    for topic in topics:
        known = whole.setdefault(topic.topic_id if by_id else topic.name, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)
    return list(whole.values())


def refuse(request: Request[OffsetCommitRequest], code: ErrorCode, message: str) -> Message:
    """Every partition answered with the error."""
    topics = [] if request.body is None else request.body.topics
    return OffsetCommitResponse(topics=[response_topic(topic, topic.partitions, code) for topic in topics])


HANDLERS = (Handler(ApiKey.OFFSET_COMMIT, handle, AUTHORIZE, refuse),)
