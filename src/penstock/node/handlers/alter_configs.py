"""AlterConfigs (key 33) and IncrementalAlterConfigs (key 44): changing the configs of topics and brokers.

AlterConfigs, versions 0-2, replaces all configs of a resource; IncrementalAlterConfigs, versions 0-1, sets, deletes,
appends to and subtracts from single ones. A resource is changed as a whole or not at all, and the answers come in the
order of the request. A resource or key given twice, a null value, another broker's id, and a value that cannot be are
refused with Kafka's codes and sentences. Log levels (BROKER_LOGGER) are changed on the spot. Whether a broker is asked
about itself it says before it forwards: the controller, to whom the request of any broker comes, does not ask.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.configs import DELETE, ConfigChange, Resource, alter_configs, replace_configs
from penstock.metadata.image import ConfigResource
from penstock.metadata.result import ApiError, Result
from penstock.node.handlers.authorization import allowed
from penstock.node.handlers.broker_loggers import LevelChange, change_levels
from penstock.node.request import FORWARD, Append, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages import alter_configs_response, incremental_alter_configs_response
from penstock.protocol.messages.alter_configs_request import AlterConfigsRequest
from penstock.protocol.messages.alter_configs_response import AlterConfigsResponse
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.ALTER_CONFIGS, ResourceType.TOPIC)
"""For groups, ALTER_CONFIGS on the group; for brokers and loggers, on the cluster."""

KNOWN_TYPES = (
    ConfigResource.TOPIC,
    ConfigResource.BROKER,
    ConfigResource.BROKER_LOGGER,
    ConfigResource.CLIENT_METRICS,
    ConfigResource.GROUP,
)
Answers = dict[Resource, ApiError]
CORDONS = "cordoned.log.dirs"


def handle_incremental(node: Broker, request: Request[IncrementalAlterConfigsRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active and any(
        resource.resource_type != ConfigResource.BROKER_LOGGER for resource in body.resources
    ):
        strange = of_other_brokers(node, body.resources)
        return incremental_response(body.resources, strange) if strange else FORWARD  # loggers are this process's own
    answers = refused(node, request, body.resources, incremental=True)
    changes: dict[Resource, list[ConfigChange]] = {}
    for resource in body.resources:
        key = (resource.resource_type, resource.resource_name)
        if key in answers:
            continue
        if resource.resource_type == ConfigResource.BROKER_LOGGER:
            levels = [LevelChange(config.name, config.config_operation, config.value) for config in resource.configs]
            answers[key] = changed_levels(levels, validate_only=body.validate_only)
        else:
            changes[key] = [
                ConfigChange(config.name, config.config_operation, config.value) for config in resource.configs
            ]
    result = alter_configs(node.controller.state, changes) if changes else Result({})
    response = incremental_response(body.resources, {**answers, **result.response})
    return response if body.validate_only else Append(result.records, response)


def handle_legacy(node: Broker, request: Request[AlterConfigsRequest], now_ms: int) -> Outcome:
    body = request.body
    if not node.controller.active:
        strange = of_other_brokers(node, body.resources)
        return legacy_response(body.resources, strange) if strange else FORWARD
    answers = refused(node, request, body.resources, incremental=False)
    wanted = {
        key: {config.name: config.value or "" for config in resource.configs}
        for resource in body.resources
        if (key := (resource.resource_type, resource.resource_name)) not in answers
    }
    result = replace_configs(node.controller.state, wanted)
    response = legacy_response(body.resources, {**answers, **result.response})
    return response if body.validate_only else Append(result.records, response)


def refused(node: Broker, request: Request[Any], resources: Sequence[Any], *, incremental: bool) -> Answers:
    """The resources that are not even handed to the controller, and why."""
    counts = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    answers: Answers = {}
    for resource in resources:
        key = (resource.resource_type, resource.resource_name)
        try:
            if counts[key] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_resource(node, request, resource, incremental=incremental)
        except RequestError as error:
            answers[key] = ApiError.of(error)
    return answers


def check_resource(node: Broker, request: Request[Any], resource: Any, *, incremental: bool) -> None:
    """Raises RequestError for a resource that cannot be changed whatever its configs are."""
    kind, name = resource.resource_type, resource.resource_name
    names = [config.name for config in resource.configs]
    if len(set(names)) != len(names):
        raise RequestError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")
    nulls = [
        config.name
        for config in resource.configs
        if config.value is None and not (incremental and config.config_operation == DELETE)
    ]
    if nulls:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {', '.join(nulls)}")
    if kind not in KNOWN_TYPES or (kind == ConfigResource.BROKER_LOGGER and not incremental):
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {kind}")
    check_allowed(node, request, kind, name)
    forwarded = request.listener in node.settings.controller_listener_names
    if kind == ConfigResource.BROKER_LOGGER or (kind == ConfigResource.BROKER and name and not forwarded):
        check_own_id(node, name, is_broker=kind == ConfigResource.BROKER)
        if kind == ConfigResource.BROKER:
            check_cordons(node, resource.configs)


def check_allowed(node: Broker, request: Request[Any], kind: int, name: str) -> None:
    """Raises RequestError unless the configs of the resource may be changed."""
    if kind == ConfigResource.TOPIC:
        if not allowed(node, request, Operation.ALTER_CONFIGS, ResourceType.TOPIC, name):
            raise RequestError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif kind == ConfigResource.GROUP:
        if not allowed(node, request, Operation.ALTER_CONFIGS, ResourceType.GROUP, name):
            raise RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not allowed(node, request, Operation.ALTER_CONFIGS, ResourceType.CLUSTER):
        raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def of_other_brokers(node: Broker, resources: Sequence[Any]) -> Answers:
    """Answers for a request that names a broker other than this one, empty if it does not. All of it is refused then:
    the rest would have to be forwarded alone."""
    answers: Answers = {}
    for resource in resources:
        if resource.resource_type == ConfigResource.BROKER and resource.resource_name:
            try:
                check_own_id(node, resource.resource_name, is_broker=True)
                check_cordons(node, resource.configs)
            except RequestError as error:
                answers[resource.resource_type, resource.resource_name] = ApiError.of(error)
    if not answers:
        return answers
    rest = ApiError(ErrorCode.INVALID_REQUEST, "Nothing was changed: the request names another broker, too.")
    return {(each.resource_type, each.resource_name): rest for each in resources} | answers


def check_cordons(node: Broker, configs: Sequence[Any]) -> None:
    """Only this broker knows its log directories: a cordon of another one is refused here."""
    for config in configs:
        if config.name == CORDONS and config.value:
            unknown = set(config.value.split(",")) - {"*", *node.settings.directories}
            if unknown:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"Invalid entry in {CORDONS}: {min(unknown)}. All cordoned log dirs must be entries of log.dirs or "
                    "log.dir.",
                )


def check_own_id(node: Broker, name: str, *, is_broker: bool) -> None:
    if not name.removeprefix("-").isdecimal():
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node.node_id:
        what = f"broker id, expected {node.node_id}," if is_broker else f"node id. Expected {node.node_id},"
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unexpected {what} but received {name}")


def changed_levels(changes: list[LevelChange], *, validate_only: bool) -> ApiError:
    try:
        change_levels(changes, validate_only=validate_only)
    except RequestError as error:
        return ApiError.of(error)
    return ApiError()


def incremental_response(resources: Sequence[Any], answers: Answers) -> IncrementalAlterConfigsResponse:
    """The answers in the order of the request."""
    kind = incremental_alter_configs_response.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(responses=in_order(kind, resources, answers))


def legacy_response(resources: Sequence[Any], answers: Answers) -> AlterConfigsResponse:
    """The answers in the order of the request."""
    kind = alter_configs_response.AlterConfigsResourceResponse
    return AlterConfigsResponse(responses=in_order(kind, resources, answers))


def in_order(kind: Any, resources: Sequence[Any], answers: Answers) -> list[Any]:
    return [
        kind(
            error_code=answers[resource.resource_type, resource.resource_name].code,
            error_message=answers[resource.resource_type, resource.resource_name].message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        for resource in resources
    ]


def refuse(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """Every resource answered with the error."""
    resources = request.body.resources if request.body is not None else ()
    answers = {
        (resource.resource_type, resource.resource_name): ApiError(code, message or None) for resource in resources
    }
    make = legacy_response if request.api.key is ApiKey.ALTER_CONFIGS else incremental_response
    return cast(Message, make(resources, answers))


HANDLERS = (
    Handler(ApiKey.ALTER_CONFIGS, handle_legacy, AUTHORIZE, refuse),
    Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, handle_incremental, AUTHORIZE, refuse),
)
