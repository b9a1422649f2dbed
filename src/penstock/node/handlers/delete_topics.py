"""DeleteTopics (key 20): deletes topics by name or, from version 6 on, by id.

Versions 1-6, flexible from 4. TOPIC_DELETION_DISABLED if delete.topic.enable is off (INVALID_REQUEST below version 3).
A duplicate name or id, a name and an id for one topic, and neither, are INVALID_REQUEST. The partitions' files are
removed after file.delete.delay.ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.result import ApiError
from penstock.node.decisions import decided, parts_of
from penstock.node.limits import TOPICS_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Stepped, in_steps, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import ZERO_UUID, Message
from penstock.protocol.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from penstock.security.rights import DELETE_TOPIC, SEE_TOPIC_TO_DELETE

if TYPE_CHECKING:
    from penstock.node.broker import Broker

STRICT_FROM = 5
"""From this version on a client is told when it must wait because of its quota (KIP-599)."""

Deleted = tuple[UUID, ApiError]
UNKNOWN_NAME = "This server does not host this topic-partition."
UNKNOWN_ID = "This server does not host this topic ID."


def handle(node: Broker, request: Request[DeleteTopicsRequest], now_ms: int) -> Stepped[Outcome]:
    if not node.state.settings.delete_topic_enable:
        if request.version < 3:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Topic deletion is disabled.")
        raise RequestError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if not node.controller.active:
        return FORWARD
    body = request.body
    if len(body.topics) + len(body.topic_names) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    answers, names, ids = sorted_out(body)
    found = yield from resolved(node, request, names, ids, answers)
    controller = node.controller.state

    def size_of(topic_id: UUID) -> int:
        topic = controller.image.topics_by_id.get(topic_id)
        return 1 if topic is None else len(topic.partitions)

    def respond(deleted: Iterable[Deleted]) -> list[DeletableTopicResult]:
        return [answer(found[topic_id], topic_id, error) for topic_id, error in deleted]

    quota = node.quotas.mutations(request, strict=request.version >= STRICT_FROM, now_ms=now_ms)
    so_far = topic_control.SoFar(mutated=quota.take)
    plan = yield from decided(
        node,
        request,
        parts_of(found, size_of),
        lambda part: topic_control.delete_topics(controller, part, so_far),
        lambda part, deleted: (body, DeleteTopicsResponse(responses=respond(deleted))),
    )
    response = DeleteTopicsResponse(throttle_time_ms=quota.delay_ms, responses=answers + respond(plan.answers))
    return plan.outcome(response)


def sorted_out(body: DeleteTopicsRequest) -> tuple[list[DeletableTopicResult], list[str], list[UUID]]:
    """Answers for invalid entries, and the names and ids of the valid ones."""
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
) -> Stepped[dict[UUID, str]]:
    """The topics to delete, id to name; adds an answer for every one that is unknown or not allowed."""
    image = node.controller.state.image
    found: dict[UUID, str] = {}
    given = frozenset(ids)

    def by_id(topic_id: UUID) -> None:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            answers.append(answer(None, topic_id, ApiError(ErrorCode.UNKNOWN_TOPIC_ID, UNKNOWN_ID)))
        elif node.gate.allows(request, DELETE_TOPIC, topic.name):
            found[topic_id] = topic.name
        else:
            visible = topic.name if node.gate.allows(request, SEE_TOPIC_TO_DELETE, topic.name) else None
            answers.append(forbidden(visible, topic_id))

    def by_name(name: str) -> None:
        topic = image.topics_by_name.get(name)
        if not node.gate.allows(request, SEE_TOPIC_TO_DELETE, name):
            answers.append(forbidden(name, ZERO_UUID))
        elif topic is None:
            answers.append(answer(name, ZERO_UUID, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_NAME)))
        elif not node.gate.allows(request, DELETE_TOPIC, name):
            answers.append(forbidden(name, ZERO_UUID))
        elif topic.id in given:
            found.pop(topic.id, None)
            answers.append(invalid(name, topic.id, "The provided topic name maps to an ID that was already supplied."))
        else:
            found[topic.id] = name

    yield from in_steps(by_id, ids)
    yield from in_steps(by_name, names)
    return found


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
    named = [DeleteTopicState(name=name) for name in body.topic_names] + body.topics
    return DeleteTopicsResponse(responses=lazily(lambda topic: answer(topic.name, topic.topic_id, error), named))


HANDLERS = (Handler(ApiKey.DELETE_TOPICS, handle, refuse),)
