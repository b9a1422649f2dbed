"""CreatePartitions (key 37): more partitions for topics that exist.

Versions 0-3, flexible from 2. `count` is the total that is wanted. A name given twice is INVALID_REQUEST.
`validate_only` does all but append. Over the client's quota of mutations, a topic is THROTTLING_QUOTA_EXCEEDED.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.result import ApiError
from penstock.node.decisions import Change, decided, parts_of
from penstock.node.limits import TOPICS_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Stepped, in_steps, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from penstock.protocol.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from penstock.security.rights import ALTER_TOPIC

if TYPE_CHECKING:
    from penstock.node.broker import Broker

STRICT_FROM = 3
"""From this version on a client is told when it must wait because of its quota (KIP-599)."""


def handle(node: Broker, request: Request[CreatePartitionsRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    if not node.controller.active:
        return FORWARD
    if len(body.topics) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    counts = Counter(topic.name for topic in body.topics)
    errors = yield from in_steps(lambda name: refusal(node, request, name, counts[name]), counts)
    refused = {name: error for name, error in zip(counts, errors, strict=True) if error is not None}
    wanted = [topic for topic in body.topics if topic.name not in refused]
    quota = node.quotas.mutations(request, strict=request.version >= STRICT_FROM, now_ms=now_ms)
    controller, so_far = node.controller.state, topic_control.SoFar(mutated=quota.take)

    def change_of(part: list[CreatePartitionsTopic], answers: Sequence[ApiError]) -> Change:
        return CreatePartitionsRequest(topics=part), response_of(named(part, answers))

    plan = yield from decided(
        node,
        request,
        parts_of(wanted, partial(topic_control.partitions_added, controller)),
        lambda part: topic_control.create_partitions(controller, part, so_far),
        change_of,
        validate_only=body.validate_only,
    )
    response = response_of([*refused.items(), *named(wanted, plan.answers)])
    response.throttle_time_ms = quota.delay_ms
    return response if body.validate_only else plan.outcome(response)


def refusal(node: Broker, request: Request[CreatePartitionsRequest], name: str, count: int) -> ApiError | None:
    """The error for a topic that is not passed to the controller; None if it is."""
    if count > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    may = node.gate.allows(request, ALTER_TOPIC, name)
    return None if may else ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def named(topics: Sequence[CreatePartitionsTopic], answers: Sequence[ApiError]) -> list[tuple[str, ApiError]]:
    return [(topic.name, error) for topic, error in zip(topics, answers, strict=True)]


def response_of(answers: Sequence[tuple[str, ApiError]]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(results=lazily(lambda each: answer(*each), answers))


def answer(name: str, error: ApiError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message or None)


def refuse(request: Request[CreatePartitionsRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    topics = request.body.topics if request.body is not None else []
    error = ApiError(code, message or None)
    return CreatePartitionsResponse(results=lazily(lambda topic: answer(topic.name, error), topics))


HANDLERS = (Handler(ApiKey.CREATE_PARTITIONS, handle, refuse),)
