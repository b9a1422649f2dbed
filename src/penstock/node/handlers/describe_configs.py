"""DescribeConfigs (key 32): the configs of topics and brokers, where each value comes from, and what it means.

Versions 1-4, flexible from 4. A broker answers for itself: another id is INVALID_REQUEST; the empty name stands for the
dynamic configs of all brokers. Synonyms, types (from 3) and documentation (from 3) on request. Loggers have their
levels (KIP-412). A group has configs whether it exists or not, and so has a subscription to client metrics.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock.config.describe import (
    Described,
    describe_broker,
    describe_client_metrics,
    describe_cluster,
    describe_group,
    describe_topic,
)
from penstock.config.setting import Source
from penstock.errors import ErrorCode, PenstockError, RequestError
from penstock.metadata.image import ConfigResource
from penstock.metadata.names import check_topic_name
from penstock.node.handlers.broker_loggers import loggers
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from penstock.security.rights import DESCRIBE_CLUSTER_CONFIGS, DESCRIBE_GROUP_CONFIGS, DESCRIBE_TOPIC_CONFIGS

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[DescribeConfigsRequest], now_ms: int) -> Stepped[Message]:
    results = yield from in_steps(partial(describe, node, request), request.body.resources, Pace(1))
    return DescribeConfigsResponse(results=results)


def describe(
    node: Broker, request: Request[DescribeConfigsRequest], resource: DescribeConfigsResource
) -> DescribeConfigsResult:
    """One resource: its configs, or the error."""
    result = DescribeConfigsResult(resource_type=resource.resource_type, resource_name=resource.resource_name)
    try:
        check_allowed(node, request, resource)
        result.configs = configs_of(node, request.body, resource)
    except RequestError as error:
        result.error_code, result.error_message = error.code, error.message
    except PenstockError as error:
        result.error_code, result.error_message = error.code, str(error)
    return result


def check_allowed(node: Broker, request: Request[DescribeConfigsRequest], resource: DescribeConfigsResource) -> None:
    """Raises RequestError unless the requester may see the configs of the resource."""
    name = resource.resource_name
    match resource.resource_type:
        case ConfigResource.TOPIC:
            if not node.gate.allows(request, DESCRIBE_TOPIC_CONFIGS, name):
                raise RequestError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        case ConfigResource.GROUP:
            if not node.gate.allows(request, DESCRIBE_GROUP_CONFIGS, name):
                raise RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        case _:
            if not node.gate.allows(request, DESCRIBE_CLUSTER_CONFIGS):
                raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def configs_of(
    node: Broker, body: DescribeConfigsRequest, resource: DescribeConfigsResource
) -> list[DescribeConfigsResourceResult]:
    """The configs of a resource. Raises RequestError if it does not exist or belongs to another broker."""
    name = resource.resource_name
    keys = resource.configuration_keys or None
    match resource.resource_type:
        case ConfigResource.TOPIC:
            check_topic_name(name)
            if name not in node.state.image.topics_by_name:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "")
            described = describe_topic(node.state.settings, node.state.image.topic_configs(name), keys)
        case ConfigResource.BROKER:
            if name:
                check_own_id(node, name, " or empty string,")
            described = (
                describe_broker(node.state.settings, keys) if name else describe_cluster(node.state.settings, keys)
            )
        case ConfigResource.BROKER_LOGGER:
            if not name:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
            check_own_id(node, name, "")
            return [logger_level(each, level) for each, level in loggers().items() if not keys or each in keys]
        case ConfigResource.GROUP | ConfigResource.CLIENT_METRICS as kind:
            described = described_by_name(node, kind, name, keys)
        case kind:
            raise RequestError(ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}")
    return [entry(each, body) for each in described]


def described_by_name(node: Broker, kind: int, name: str, keys: list[str] | None) -> list[Described]:
    """The configs of a group or a subscription to client metrics, whether it has any or not. Raises RequestError."""
    what = "Group" if kind == ConfigResource.GROUP else "Client metrics subscription"
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"{what} name must not be empty")
    overrides = node.state.image.configs.get((kind, name)) or {}
    if kind == ConfigResource.GROUP:
        return describe_group(node.state.settings, overrides, keys)
    return describe_client_metrics(overrides, keys)


def check_own_id(node: Broker, name: str, also: str) -> None:
    """Raises RequestError unless `name` is this broker's id."""
    if not name.removeprefix("-").isdecimal():
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}")
    if int(name) != node.state.node_id:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node.state.node_id}{also} but received {name}"
        )


def entry(described: Described, body: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    """A config in the form of the response."""
    return DescribeConfigsResourceResult(
        name=described.name,
        value=described.value,
        read_only=described.read_only,
        config_source=described.source,
        is_sensitive=described.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (described.synonyms if body.include_synonyms else ())
        ],
        config_type=described.type_id,
        documentation=described.doc if body.include_documentation else None,
    )


def logger_level(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=name, value=level, config_source=Source.DYNAMIC_BROKER_LOGGER_CONFIG, documentation=None
    )


def refuse(request: Request[DescribeConfigsRequest], code: ErrorCode, message: str) -> Message:
    """Every resource answered with the error."""
    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                error_code=code,
                error_message=message or None,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in (request.body.resources if request.body is not None else ())
        ]
    )


HANDLERS = (Handler(ApiKey.DESCRIBE_CONFIGS, handle, refuse),)
