"""CreateTopics (key 19): new topics, each with its partitions placed by us or assigned by the request.

Versions 2-7, flexible from 5. -1 partitions or replicas mean this controller's defaults. From version 5 on the answer
has each topic's counts and effective configs, and from 7 on its id, unless the requester may not describe configs: then
TOPIC_AUTHORIZATION_FAILED in `topic_config_error_code`. A duplicate name and the metadata topic are INVALID_REQUEST.
`validate_only` does all but append.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.config.describe import describe_topic
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.names import METADATA_TOPIC
from penstock.metadata.result import ApiError
from penstock.metadata.topics import CreatedTopic, SoFar
from penstock.node.decisions import Change, decided, parts_of
from penstock.node.limits import TOPICS_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Stepped, in_steps, lazily
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from penstock.security.rights import CREATE_TOPIC, DESCRIBE_TOPIC_CONFIGS

if TYPE_CHECKING:
    from penstock.node.broker import Broker


STRICT_FROM = 6
"""From this version on a client is told when it must wait because of its quota (KIP-599)."""
Answer = CreatedTopic | ApiError


def handle(node: Broker, request: Request[CreateTopicsRequest], now_ms: int) -> Stepped[Outcome]:
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
    controller, so_far = node.controller.state, SoFar(mutated=quota.take)
    topic_control.check_request_size(topic_control.partitions_wanted(controller, topic) for topic in wanted)

    def size_of(topic: CreatableTopic) -> int:
        return max(1, topic_control.partitions_wanted(controller, topic)) + len(topic.configs)

    def respond(answers: Sequence[tuple[str, Answer]]) -> CreateTopicsResponse:
        results = lazily(lambda answer: result_of(node, request, *answer), answers)
        return CreateTopicsResponse(throttle_time_ms=quota.delay_ms, topics=results)

    def change_of(part: list[CreatableTopic], answers: Sequence[Answer]) -> Change:
        return CreateTopicsRequest(topics=part), respond(named(part, answers))

    plan = yield from decided(
        node,
        request,
        parts_of(wanted, size_of),
        lambda part: topic_control.create_topics(controller, part, so_far),
        change_of,
        validate_only=body.validate_only,
    )
    response = respond([*named(wanted, plan.answers), *refused.items()])
    return response if body.validate_only else plan.outcome(response)


def named(topics: Sequence[CreatableTopic], answers: Sequence[Answer]) -> list[tuple[str, Answer]]:
    return [(topic.name, answer) for topic, answer in zip(topics, answers, strict=True)]


def result_of(node: Broker, request: Request[CreateTopicsRequest], name: str, answer: Answer) -> CreatableTopicResult:
    """The response for one topic."""
    return created(node, request, answer) if isinstance(answer, CreatedTopic) else failed(name, answer)


def refusal(node: Broker, request: Request[CreateTopicsRequest], name: str, count: int) -> ApiError | None:
    """The error for a topic that is not passed to the controller; None if it is."""
    if count > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    may = node.gate.allows(request, CREATE_TOPIC, name)
    return None if may else ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def created(node: Broker, request: Request[CreateTopicsRequest], topic: CreatedTopic) -> CreatableTopicResult:
    """The response for a topic that will be created."""
    result = CreatableTopicResult(name=topic.name, topic_id=topic.id, error_message=None)
    if not node.gate.allows(request, DESCRIBE_TOPIC_CONFIGS, topic.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return result
    result.num_partitions = topic.partition_count
    result.replication_factor = topic.replication_factor
    result.configs = [
        CreatableTopicConfigs(
            name=config.name,
            value=config.value,
            read_only=config.read_only,
            config_source=config.source,
            is_sensitive=config.sensitive,
        )
        for config in sorted(describe_topic(node.controller.state.topic_settings, topic.configs))
    ]
    return result


def failed(name: str, error: ApiError) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=error.code, error_message=error.message)


def refuse(request: Request[CreateTopicsRequest], code: ErrorCode, message: str) -> Message:
    """Every topic answered with the error."""
    topics: list[CreatableTopic] = request.body.topics if request.body is not None else []
    error = ApiError(code, message or None)
    return CreateTopicsResponse(topics=lazily(lambda topic: failed(topic.name, error), topics))


HANDLERS = (Handler(ApiKey.CREATE_TOPICS, handle, refuse),)
