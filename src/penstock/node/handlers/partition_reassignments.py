"""AlterPartitionReassignments (key 45) and ListPartitionReassignments (key 46): partitions move to other replicas
(KIP-455).

Versions 0-1 and 0, all flexible. Version 1 of the first says whether the number of replicas may change (KIP-860). Null
replicas cancel a reassignment. The list contains what is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import reassignments
from penstock.metadata.image import TopicImage
from penstock.metadata.limits import PARTITIONS_PER_REQUEST_MAX
from penstock.metadata.reassignments import Reassignment
from penstock.metadata.result import ApiError, Result
from penstock.node.decisions import Change, by_topic, decided, parts_of
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from penstock.node.broker import Broker


Wanted = tuple[ReassignableTopic, ReassignablePartition]


def alter(node: Broker, request: Request[AlterPartitionReassignmentsRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    if not node.controller.active:
        return FORWARD
    if not body.topics:
        return AlterPartitionReassignmentsResponse()
    topics, allow = body.topics, body.allow_replication_factor_change
    most = PARTITIONS_PER_REQUEST_MAX
    if len(topics) > most or sum(len(topic.partitions) for topic in topics) > most:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {most} partitions in one request.")
    controller = node.controller.state

    def decide(part: list[Wanted]) -> Result[list[ApiError]]:
        wanted = [Reassignment(topic.name, each.partition_index, each.replicas) for topic, each in part]
        return reassignments.alter_reassignments(controller, wanted, allow_replication_factor_change=allow)

    def change_of(part: list[Wanted], errors: list[ApiError]) -> Change:
        each_alone = [ReassignableTopic(name=topic.name, partitions=[partition]) for topic, partition in part]
        answers = [(topic, [error]) for topic, error in zip(each_alone, errors, strict=True)]
        return AlterPartitionReassignmentsRequest(topics=each_alone), altered(answers, allow)

    parts = parts_of((topic, partition) for topic in topics for partition in topic.partitions)
    plan = yield from decided(node, request, parts, decide, change_of)
    return plan.outcome(altered((yield from by_topic(topics, plan.answers)), allow))


def altered(
    answers: Sequence[tuple[ReassignableTopic, list[ApiError]]], allow: bool
) -> AlterPartitionReassignmentsResponse:
    """The response, with the errors of each topic's partitions."""
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allow,
        error_message=None,
        responses=lazily(lambda each: topic_response(*each), answers),
    )


def topic_response(topic: ReassignableTopic, errors: list[ApiError]) -> ReassignableTopicResponse:
    each = list(zip((partition.partition_index for partition in topic.partitions), errors, strict=True))
    return ReassignableTopicResponse(name=topic.name, partitions=lazily(lambda pair: response_for(*pair), each))


def response_for(index: int, error: ApiError) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def refuse_alter(request: Request[AlterPartitionReassignmentsRequest], code: ErrorCode, message: str) -> Message:
    """The error at the top, and for each partition."""
    error = ApiError(code, message or None)
    topics = [] if request.body is None else request.body.topics

    def refused(topic: ReassignableTopic) -> ReassignableTopicResponse:
        partitions = lazily(lambda each: response_for(each.partition_index, error), topic.partitions)
        return ReassignableTopicResponse(name=topic.name, partitions=partitions)

    return AlterPartitionReassignmentsResponse(
        error_code=code, error_message=error.message, responses=lazily(refused, topics)
    )


def list_all(node: Broker, request: Request[ListPartitionReassignmentsRequest], now_ms: int) -> Stepped[Outcome]:
    if not node.controller.active:
        return FORWARD
    state, topics = node.controller.state, request.body.topics
    image, moving = state.committed_image, []
    if topics is None:
        moving = reassignments.list_reassignments(image, state.indexes, None)
    else:
        pace = Pace()
        for topic in topics:
            if pace.is_over():
                yield None
            named = [(topic.name, topic.partition_indexes)]
            moving += reassignments.list_reassignments(image, state.indexes, named)
    return ListPartitionReassignmentsResponse(error_message=None, topics=lazily(lambda each: ongoing(*each), moving))


def ongoing(topic: TopicImage, partitions: list[int]) -> OngoingTopicReassignment:
    def partition(index: int) -> OngoingPartitionReassignment:
        found = topic.partitions[index]
        return OngoingPartitionReassignment(
            partition_index=index,
            replicas=list(found.replicas),
            adding_replicas=list(found.adding_replicas),
            removing_replicas=list(found.removing_replicas),
        )

    return OngoingTopicReassignment(name=topic.name, partitions=lazily(partition, partitions))


HANDLERS = (
    Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, alter, refuse_alter),
    Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, list_all),
)
