"""DeleteTopics (key 20): topics go, by name or (from version 6) by id.

Versions 1-6, flexible from 4. TOPIC_DELETION_DISABLED where delete.topic.enable is off (INVALID_REQUEST below version
3). A name or id given twice, a name and an id for one topic, and neither, are INVALID_REQUEST. The partitions' files
are removed after file.delete.delay.ms.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.config.limits import TOPICS_PER_REQUEST_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.result import ApiError
from penstock.node.handlers.authorization import allowed
from penstock.node.request import FORWARD, Append, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest
from penstock.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DELETE, ResourceType.TOPIC)
"""DELETE on the cluster does as well."""

UNKNOWN_NAME = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."


def handle(node: Broker, request: Request[DeleteTopicsRequest], now_ms: int) -> Outcome:
    if not node.settings.delete_topic_enable:
        if request.version < 3:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if not node.controller.active:
        return FORWARD
    body = request.body
    if len(body.topics) + len(body.topic_names) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    answers, names, ids = sorted_out(body)
    found = resolved(node, request, names, ids, answers)
    result = topic_control.delete_topics(node.controller.state, found)
    answers += [answer(found[topic_id], topic_id, error) for topic_id, error in result.response.items()]
    return Append(result.records, DeleteTopicsResponse(responses=answers))


def sorted_out(body: DeleteTopicsRequest) -> tuple[list[DeletableTopicResult], list[str], list[UUID]]:
    """Answers for what makes no sense by itself; and the names and the ids that are given once."""
    names, ids = Counter(body.topic_names), Counter[UUID]()
    answers = []
    for topic in body.topics:
        if topic.name is None and topic.topic_id == ZERO_UUID:
            answers.append(invalid(None, ZERO_UUID, "Neither topic name nor id were specified."))
        elif topic.name is not None and topic.topic_id != ZERO_UUID:
            answers.append(invalid(topic.name, topic.topic_id, "You may not specify both topic name and topic id."))
        elif topic.name is not None:
            names[topic.name] += 1
        else:
            ids[topic.topic_id] += 1
    answers += [invalid(name, ZERO_UUID, "Duplicate topic name.") for name, count in names.items() if count > 1]
    answers += [invalid(None, topic_id, "Duplicate topic id.") for topic_id, count in ids.items() if count > 1]
    return (
        answers,
        [name for name, count in names.items() if count == 1],
        [topic_id for topic_id, count in ids.items() if count == 1],
    )


def resolved(
    node: Broker,
    request: Request[DeleteTopicsRequest],
    names: list[str],
    ids: list[UUID],
    answers: list[DeletableTopicResult],
) -> dict[UUID, str]:
    """The topics to delete, id to name; what is unknown or not allowed gets its answer."""
    image = node.controller.state.image
    found: dict[UUID, str] = {}
    for topic_id in ids:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            answers.append(answer(None, topic_id, ApiError(ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_ID)))
        elif may(node, request, Operation.DELETE, topic.name):
            found[topic_id] = topic.name
        else:
            visible = topic.name if may(node, request, Operation.DESCRIBE, topic.name) else None
            answers.append(forbidden(visible, topic_id))
    for name in names:
        topic = image.topics_by_name.get(name)
        if not may(node, request, Operation.DESCRIBE, name):
            answers.append(forbidden(name, ZERO_UUID))
        elif topic is None:
            answers.append(answer(name, ZERO_UUID, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_NAME)))
        elif not may(node, request, Operation.DELETE, name):
            answers.append(forbidden(name, ZERO_UUID))
        elif topic.id in ids:
            found.pop(topic.id, None)
            sentence = "The provided topic name maps to an ID that was already supplied."
            answers.append(invalid(name, topic.id, sentence))
        else:
            found[topic.id] = name
    return found


def may(node: Broker, request: Request[DeleteTopicsRequest], operation: Operation, name: str) -> bool:
    return allowed(node, request, Operation.DELETE, ResourceType.CLUSTER) or allowed(
        node, request, operation, ResourceType.TOPIC, name
    )


def answer(name: str | None, topic_id: UUID, error: ApiError) -> DeletableTopicResult:
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=error.code, error_message=error.message)


def invalid(name: str | None, topic_id: UUID, sentence: str) -> DeletableTopicResult:
    return answer(name, topic_id, ApiError(ErrorCode.INVALID_REQUEST, sentence))


def forbidden(name: str | None, topic_id: UUID) -> DeletableTopicResult:
    return answer(name, topic_id, ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed."))


def refuse(request: Request[DeleteTopicsRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    body = request.body if request.body is not None else DeleteTopicsRequest()
    error = ApiError(code, message or None)
    results = [answer(name, ZERO_UUID, error) for name in body.topic_names]
    results += [answer(topic.name, topic.topic_id, error) for topic in body.topics]
    return DeleteTopicsResponse(responses=results)


HANDLERS = (Handler(ApiKey.DELETE_TOPICS, handle, AUTHORIZE, refuse),)
