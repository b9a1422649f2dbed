"""CreateTopics (key 19): new topics, each with its partitions placed by us or assigned by the request.

Versions 2-7, flexible from 5. -1 partitions or replicas mean this controller's defaults. The answer has each topic's
id, counts and effective configs (from 5 on), unless who asks may not describe configs: then
TOPIC_AUTHORIZATION_FAILED in `topic_config_error_code`. A name given twice is INVALID_REQUEST, and so is the metadata
topic. `validate_only` does all but append.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from penstock.config.describe import describe_topic
from penstock.config.limits import TOPICS_PER_REQUEST_MAX
from penstock.errors import ErrorCode, RequestError
from penstock.metadata import topics as topic_control
from penstock.metadata.names import METADATA_TOPIC
from penstock.metadata.result import ApiError
from penstock.metadata.topics import CreatedTopic
from penstock.node.handlers.authorization import allowed
from penstock.node.request import FORWARD, Append, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.create_topics_response import (
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsResponse,
)
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.CREATE, ResourceType.TOPIC)
"""CREATE on the cluster does as well."""


def handle(node: Broker, request: Request[CreateTopicsRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        return FORWARD
    if len(body.topics) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.POLICY_VIOLATION, f"At most {TOPICS_PER_REQUEST_MAX} topics in one request.")
    counts = Counter(topic.name for topic in body.topics)
    refused = {name: error for name in counts if (error := refusal(node, request, name, counts[name])) is not None}
    wanted = [topic for topic in body.topics if topic.name not in refused]
    result = topic_control.create_topics(node.controller.state, wanted)
    results = [
        created(node, request, answer) if isinstance(answer, CreatedTopic) else failed(topic.name, answer)
        for topic, answer in zip(wanted, result.response, strict=True)
    ]
    results += [failed(name, error) for name, error in refused.items()]
    response = CreateTopicsResponse(topics=results)
    return response if body.validate_only else Append(result.records, response)


def refusal(node: Broker, request: Request[CreateTopicsRequest], name: str, count: int) -> ApiError | None:
    """Why a name is not even handed to the controller."""
    if count > 1:
        return ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    if name == METADATA_TOPIC:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {METADATA_TOPIC} is prohibited.")
    may = allowed(node, request, Operation.CREATE, ResourceType.CLUSTER) or allowed(
        node, request, Operation.CREATE, ResourceType.TOPIC, name
    )
    return None if may else ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")


def created(node: Broker, request: Request[CreateTopicsRequest], topic: CreatedTopic) -> CreatableTopicResult:
    """The answer for a topic that is as good as created."""
    result = CreatableTopicResult(name=topic.name, topic_id=topic.id, error_message=None)
    if not allowed(node, request, Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, topic.name):
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
    return CreateTopicsResponse(topics=[failed(topic.name, ApiError(code, message or None)) for topic in topics])


HANDLERS = (Handler(ApiKey.CREATE_TOPICS, handle, AUTHORIZE, refuse),)
