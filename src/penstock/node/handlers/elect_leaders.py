"""ElectLeaders (key 43): preferred leaders, or any live replica where nobody leads (KIP-183, KIP-460).

Versions 0-2, flexible from 2; the election type is named from 1 on, before it is always the preferred. No topics (null)
stand for all, and then partitions that need no election are not in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.config.limits import TOPICS_PER_REQUEST_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import leadership
from penstock.metadata.result import ApiError
from penstock.node.request import FORWARD, Append, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.elect_leaders_response import (
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.ALTER, ResourceType.CLUSTER)


def handle(node: Broker, request: Request[ElectLeadersRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return FORWARD
    topics = body.topic_partitions
    if topics is not None and len(topics) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    wanted = None if topics is None else [(topic.topic, topic.partitions) for topic in topics]
    result = leadership.elect_leaders(node.controller.state, body.election_type, wanted)
    results = [
        ReplicaElectionResult(topic=name, partition_result=[answer(index, error) for index, error in partitions])
        for name, partitions in result.response
    ]
    return Append(result.records, ElectLeadersResponse(replica_election_results=results), atomic=result.atomic)


def answer(index: int, error: ApiError) -> PartitionResult:
    return PartitionResult(partition_id=index, error_code=error.code, error_message=error.message)


def refuse(request: Request[ElectLeadersRequest], code: ErrorCode, message: str) -> Message:
    """Every partition that is named answered with the error."""
    topics = [] if request.body is None else request.body.topic_partitions or []
    error = ApiError(code, message or None)
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=topic.topic, partition_result=[answer(index, error) for index in topic.partitions]
            )
            for topic in topics
        ],
    )


HANDLERS = (Handler(ApiKey.ELECT_LEADERS, handle, AUTHORIZE, refuse),)
