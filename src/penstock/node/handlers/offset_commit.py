"""OffsetCommit (key 8): a group's offsets, committed by a member, or by anybody while the group has no members.

Versions 2-10, flexible from 8; topics by id from 10 on. Unknown topics and partitions are refused here, the others go
to the group's coordinator (`coordinator.group.offsets.commit`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.coordinator.group.offsets.commit import commit_offsets
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.errors import ErrorCode, RequestError
from penstock.node.groups import OFFSETS_TOPIC
from penstock.node.handlers.group_coordinator import context_of, write
from penstock.node.request import Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped
from penstock.protocol.api import ApiKey
from penstock.protocol.limits import ELEMENTS_PER_STEP
from penstock.protocol.message import Message
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
from penstock.security.rights import READ_GROUP, READ_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker


TOPIC_IDS_FROM = 10
INDEX = attrgetter("partition_index")
Merged = dict[str | UUID, OffsetCommitResponseTopic]
LEAST_RECORD_BYTES = 32
"""What the record of an offset takes at least, beside the names of its group and its topic."""
BOUNDED_FROM_BYTES = 64 * 1024
"""A commit of less is refused by the log if it is too large for that, which costs little then."""


def handle(node: Broker, request: Request[OffsetCommitRequest], now_ms: int) -> Stepped[Outcome]:
    body, context = request.body, context_of(request)
    node.gate.check(request, READ_GROUP, body.group_id)
    by_id = request.version >= TOPIC_IDS_FROM
    refused: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    pace = Pace()
    for topic in body.topics:
        yield from sort_out(node, request, topic, accepted, refused, pace=pace)
    whole: Merged = {}
    for start in range(0, len(refused), ELEMENTS_PER_STEP):
        merge(whole, refused[start : start + ELEMENTS_PER_STEP], by_id=by_id)
        yield from (None,) if start else ()
    if not accepted:
        return OffsetCommitResponse(topics=list(whole.values()))
    size_bytes = least_bytes(body.group_id, accepted)
    if size_bytes > BOUNDED_FROM_BYTES and size_bytes > node.state.topic_config(OFFSETS_TOPIC).max_message_bytes:
        raise RequestError(coordinator_error(ErrorCode.RECORD_LIST_TOO_LARGE))  # before each has become a record
    wanted = OffsetCommitRequest(
        group_id=body.group_id,
        generation_id_or_member_epoch=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        group_instance_id=body.group_instance_id,
        retention_time_ms=body.retention_time_ms,
        topics=accepted,
    )

    def respond(response: OffsetCommitResponse) -> Message:
        merge(whole, response.topics, by_id=by_id)
        return OffsetCommitResponse(topics=list(whole.values()))

    return write(
        node,
        request,
        body.group_id,
        lambda machine: commit_offsets(machine.state, context, wanted, now_ms),
        now_ms,
        respond=respond,
    )


def sort_out(
    node: Broker,
    request: Request[OffsetCommitRequest],
    topic: OffsetCommitRequestTopic,
    accepted: list[OffsetCommitRequestTopic],
    refused: list[OffsetCommitResponseTopic],
    *,
    pace: Pace,
) -> Stepped[None]:
    """Adds the partitions of a topic, with name and id, to those for the coordinator, or refuses them."""
    image = node.state.image
    by_id = request.version >= TOPIC_IDS_FROM
    found = image.topics_by_id.get(topic.topic_id) if by_id else image.topics_by_name.get(topic.name)
    name = topic.name if found is None else found.name
    if by_id and found is None:
        code = ErrorCode.UNKNOWN_TOPIC_ID
    elif not node.gate.allows(request, READ_TOPIC, name):
        code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    else:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    count = 0 if found is None or code is ErrorCode.TOPIC_AUTHORIZATION_FAILED else len(found.partitions)
    good: list[OffsetCommitRequestPartition] = []
    bad: list[OffsetCommitRequestPartition] = []
    for some in pace.pieces(topic.partitions):
        if some is None:
            yield None
            continue
        indexes = list(map(INDEX, some))
        if min(indexes) >= 0 and max(indexes) < count:
            good += some
        else:
            good += [each for each in some if 0 <= each.partition_index < count]
            bad += [each for each in some if not 0 <= each.partition_index < count]
    if good and found is not None:
        accepted.append(OffsetCommitRequestTopic(name=name, topic_id=found.id, partitions=good))
    for start in range(0, len(bad), ELEMENTS_PER_STEP):
        refused.append(response_topic(topic, bad[start : start + ELEMENTS_PER_STEP], code))
        if start:
            yield None


def least_bytes(group_id: str, topics: Sequence[OffsetCommitRequestTopic]) -> int:
    """A lower bound for the size of a commit's records, which have to fit into one batch."""
    fixed_bytes = LEAST_RECORD_BYTES + len(group_id)
    return sum(len(topic.partitions) * (fixed_bytes + len(topic.name)) for topic in topics)


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


def merge(whole: Merged, topics: Iterable[OffsetCommitResponseTopic], *, by_id: bool) -> None:
    """Adds the topics of a part to the whole answer, each topic once."""
    for topic in topics:
        known = whole.setdefault(topic.topic_id if by_id else topic.name, topic)
        if known is not topic:
            known.partitions.extend(topic.partitions)


def refuse(request: Request[OffsetCommitRequest], code: ErrorCode, message: str) -> Message:
    """Every partition answered with the error."""
    topics = [] if request.body is None else request.body.topics
    return OffsetCommitResponse(topics=[response_topic(topic, topic.partitions, code) for topic in topics])


HANDLERS = (Handler(ApiKey.OFFSET_COMMIT, handle, refuse),)
