"""CreatePartitions (key 37): more partitions for topics that exist.

Versions 0-3, flexible from 2. `count` is the total that is wanted. A name given twice is INVALID_REQUEST.
`validate_only` does all but append.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.config.limits import TOPICS_PER_REQUEST_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.result import ApiError
from penstock.node.handlers.authorization import allowed
from penstock.node.request import FORWARD, Append, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_partitions_request import CreatePartitionsRequest
from penstock.protocol.messages.create_partitions_response import (
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.ALTER, ResourceType.TOPIC)


def handle(node: Broker, request: Request[CreatePartitionsRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return FORWARD
    if len(body.topics) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    counts = Counter(topic.name for topic in body.topics)
    results, wanted = [], []
    for name, count in counts.items():
        if count > 1:
            results.append(answer(name, ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")))
        elif not allowed(node, request, Operation.ALTER, ResourceType.TOPIC, name):
            results.append(answer(name, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)))
    refused = {result.name for result in results}
    wanted = [topic for topic in body.topics if topic.name not in refused]
    result = topic_control.create_partitions(node.controller.state, wanted)
    results += [answer(topic.name, error) for topic, error in zip(wanted, result.response, strict=True)]
    response = CreatePartitionsResponse(results=results)
    return response if body.validate_only else Append(result.records, response)


def answer(name: str, error: ApiError) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error.code, error_message=error.message or None)


def refuse(request: Request[CreatePartitionsRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    topics = request.body.topics if request.body is not None else []
    return CreatePartitionsResponse(results=[answer(topic.name, ApiError(code, message or None)) for topic in topics])


HANDLERS = (Handler(ApiKey.CREATE_PARTITIONS, handle, AUTHORIZE, refuse),)
