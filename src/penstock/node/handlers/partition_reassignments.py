"""AlterPartitionReassignments (key 45) and ListPartitionReassignments (key 46): partitions move to other replicas
(KIP-455).

Versions 0-1 and 0, all flexible. Version 1 of the first says whether the number of replicas may change (KIP-860). No
replicas (null) cancel what is in progress. The list is of what is committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.limits import PARTITIONS_PER_REQUEST_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import reassignments
from penstock.metadata.image import TopicImage
from penstock.metadata.reassignments import Reassignment
from penstock.metadata.result import ApiError
from penstock.node.request import FORWARD, Append, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
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
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE_ALTER = Authorize(Operation.ALTER, ResourceType.CLUSTER)
AUTHORIZE_LIST = Authorize(Operation.DESCRIBE, ResourceType.CLUSTER)


def alter(node: Broker, request: Request[AlterPartitionReassignmentsRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return FORWARD
    if not body.topics:
        return AlterPartitionReassignmentsResponse()
    wanted = [
        Reassignment(topic.name, partition.partition_index, partition.replicas)
        for topic in body.topics
        for partition in topic.partitions
    ]
    if len(wanted) > PARTITIONS_PER_REQUEST_MAX:
        sentence = f"At most {PARTITIONS_PER_REQUEST_MAX} partitions in one request."
        raise RequestError(ErrorCode.POLICY_VIOLATION, sentence)
    allow = body.allow_replication_factor_change
    result = reassignments.alter_reassignments(node.controller.state, wanted, allow_replication_factor_change=allow)
    return Append(result.records, altered(request, result.response, allow))


def altered(
    request: Request[AlterPartitionReassignmentsRequest], errors: list[ApiError], allow: bool
) -> AlterPartitionReassignmentsResponse:
    """The answer; `errors` has one for each partition of the request."""
    error = iter(errors)
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allow,
        error_message=None,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[response_for(partition.partition_index, next(error)) for partition in topic.partitions],
            )
            for topic in request.body.topics
        ],
    )


def response_for(index: int, error: ApiError) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)


def refuse_alter(request: Request[AlterPartitionReassignmentsRequest], code: ErrorCode, message: str) -> Message:
    """The error at the top, and for each partition."""
    error = ApiError(code, message or None)
    topics = [] if request.body is None else request.body.topics
    return AlterPartitionReassignmentsResponse(
        error_code=code,
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name, partitions=[response_for(each.partition_index, error) for each in topic.partitions]
            )
            for topic in topics
        ],
    )


def list_all(node: Broker, request: Request[ListPartitionReassignmentsRequest], now_ms: int) -> Outcome:
    if not node.controller.active:
        return FORWARD
    topics = request.body.topics
    wanted = None if topics is None else [(topic.name, topic.partition_indexes) for topic in topics]
    state = node.controller.state
    moving = reassignments.list_reassignments(state.committed_image, state.indexes, wanted)
    return ListPartitionReassignmentsResponse(
        error_message=None, topics=[ongoing(topic, partitions) for topic, partitions in moving]
    )


def ongoing(topic: TopicImage, partitions: list[int]) -> OngoingTopicReassignment:
    return OngoingTopicReassignment(
        name=topic.name,
        partitions=[
            OngoingPartitionReassignment(
                partition_index=index,
                replicas=list(topic.partitions[index].replicas),
                adding_replicas=list(topic.partitions[index].adding_replicas),
                removing_replicas=list(topic.partitions[index].removing_replicas),
            )
            for index in partitions
        ],
    )


HANDLERS = (
    Handler(ApiKey.ALTER_PARTITION_REASSIGNMENTS, alter, AUTHORIZE_ALTER, refuse_alter),
    Handler(ApiKey.LIST_PARTITION_REASSIGNMENTS, list_all, AUTHORIZE_LIST),
)
