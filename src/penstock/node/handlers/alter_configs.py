"""AlterConfigs (key 33) and IncrementalAlterConfigs (key 44): changing the configs of topics, brokers, groups and
subscriptions to client metrics.

AlterConfigs, versions 0-2, replaces all configs of a resource; IncrementalAlterConfigs, versions 0-1, sets, deletes,
appends to and subtracts from single ones. A resource is changed as a whole or not at all; answers come in the order of
the request. Duplicate resources or keys, null values, another broker's id and invalid values are refused with Kafka's
codes and messages. Log levels (BROKER_LOGGER) are changed at once. A broker checks before forwarding whether it is
asked about itself, and whether it could use the key and trust stores; the controller, which gets the requests of all
brokers, does not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, RequestError
from penstock.metadata.configs import DELETE, SET, ConfigChange, Resource, alter_configs, replace_configs
from penstock.metadata.image import ConfigResource
from penstock.metadata.limits import CONFIGS_PER_RESOURCE_MAX
from penstock.metadata.result import ApiError, Result
from penstock.node.decisions import Change, decided, parts_of
from penstock.node.handlers.broker_loggers import LevelChange, change_levels
from penstock.node.limits import RESOURCES_PER_REQUEST_MAX
from penstock.node.request import FORWARD, Handler, Outcome, Request
from penstock.node.steps import Stepped, lazily
from penstock.node.store_checks import StoresUnread, names_stores
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_configs_response, incremental_alter_configs_response
from penstock.protocol.messages.alter_configs_request import AlterConfigsRequest
from penstock.protocol.messages.alter_configs_response import AlterConfigsResponse
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.incremental_alter_configs_response import IncrementalAlterConfigsResponse
from penstock.security.rights import ALTER_CLUSTER_CONFIGS, ALTER_GROUP_CONFIGS, ALTER_TOPIC_CONFIGS

if TYPE_CHECKING:
    from penstock.node.broker import Broker


KNOWN_TYPES = (
    ConfigResource.TOPIC,
    ConfigResource.BROKER,
    ConfigResource.BROKER_LOGGER,
    ConfigResource.CLIENT_METRICS,
    ConfigResource.GROUP,
)
Resources = Sequence[Any]
"""As a request names them."""
Answered = tuple[Resource, ApiError]
Answers = dict[Resource, ApiError]
Respond = Callable[[Resources, Mapping[Resource, ApiError]], Message]
CORDONS = "cordoned.log.dirs"


def handle_incremental(node: Broker, request: Request[IncrementalAlterConfigsRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    check_count(body.resources)
    unusable = yield from unusable_stores(node, request, incremental=True)
    if not node.controller.active and any(
        resource.resource_type != ConfigResource.BROKER_LOGGER for resource in body.resources
    ):
        strange = of_other_brokers(node, body.resources, unusable)
        return incremental_response(body.resources, strange) if strange else FORWARD  # loggers are this process's own
    counts = counted(body.resources)

    def decide(part: Resources) -> Result[list[Answered]]:
        answers = unusable_of(part, unusable) | refused(node, request, part, counts, incremental=True)
        changes: dict[Resource, list[ConfigChange]] = {}
        for resource in part:
            key = key_of(resource)
            if key in answers:
                continue
            if resource.resource_type == ConfigResource.BROKER_LOGGER:
                levels = [LevelChange(each.name, each.config_operation, each.value) for each in resource.configs]
                answers[key] = changed_levels(levels, validate_only=body.validate_only)
            else:
                changes[key] = [ConfigChange(each.name, each.config_operation, each.value) for each in resource.configs]
        return with_answers(answers, alter_configs(node.controller.state, changes) if changes else Result({}))

    return (yield from changed(node, request, decide, incremental_response))


def handle_legacy(node: Broker, request: Request[AlterConfigsRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    check_count(body.resources)
    unusable = yield from unusable_stores(node, request, incremental=False)
    if not node.controller.active:
        strange = of_other_brokers(node, body.resources, unusable)
        return legacy_response(body.resources, strange) if strange else FORWARD
    counts = counted(body.resources)

    def decide(part: Resources) -> Result[list[Answered]]:
        answers = unusable_of(part, unusable) | refused(node, request, part, counts, incremental=False)
        wanted = {
            key: {config.name: config.value or "" for config in resource.configs}
            for resource in part
            if (key := key_of(resource)) not in answers
        }
        return with_answers(answers, replace_configs(node.controller.state, wanted))

    return (yield from changed(node, request, decide, legacy_response))


def changed(
    node: Broker, request: Request[Any], decide: Callable[[Resources], Result[list[Answered]]], respond: Respond
) -> Stepped[Outcome]:
    """Decides on all resources, part by part, and answers with `respond`."""
    body = request.body

    def change_of(part: Resources, answers: list[Answered]) -> Change:
        return type(body)(resources=part), respond(part, dict(answers))

    parts = parts_of(body.resources, lambda resource: 1 + len(resource.configs))
    if node.controller.active:
        plan = yield from decided(node, request, parts, decide, change_of, validate_only=body.validate_only)
        response = respond(body.resources, dict(plan.answers))
        return response if body.validate_only else plan.outcome(response)
    answers: Answers = {}  # of log levels alone
    for part in parts:
        yield from (None,) if answers else ()
        answers.update(decide(part).response)
    return respond(body.resources, answers)


def check_count(resources: Resources) -> None:
    if len(resources) > RESOURCES_PER_REQUEST_MAX:
        sentence = f"At most {RESOURCES_PER_REQUEST_MAX} resources in one request."
        raise RequestError(ErrorCode.POLICY_VIOLATION, sentence)


def key_of(resource: Any) -> Resource:
    return resource.resource_type, resource.resource_name


def counted(resources: Resources) -> Counter[Resource]:
    """How often each resource occurs in the request."""
    return Counter(map(key_of, resources))


def with_answers(answers: Answers, result: Result[Answers]) -> Result[list[Answered]]:
    """The result with the answers that were made earlier."""
    return Result([*answers.items(), *result.response.items()], result.records)


def refused(
    node: Broker, request: Request[Any], resources: Resources, counts: Counter[Resource], *, incremental: bool
) -> Answers:
    """The resources that are not passed to the controller, with the reason."""
    answers: Answers = {}
    for resource in resources:
        key = key_of(resource)
        try:
            if counts[key] > 1:
                raise RequestError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")
            check_resource(node, request, resource, incremental=incremental)
        except RequestError as error:
            answers[key] = ApiError.of(error)
    return answers


def check_resource(node: Broker, request: Request[Any], resource: Any, *, incremental: bool) -> None:
    """Raises RequestError for a resource that cannot be changed, whatever its configs are."""
    kind, name = key_of(resource)
    if len(resource.configs) > CONFIGS_PER_RESOURCE_MAX:
        sentence = f"At most {CONFIGS_PER_RESOURCE_MAX} configs of one resource."
        raise RequestError(ErrorCode.INVALID_REQUEST, sentence)
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
    forwarded = request.listener in node.state.settings.controller_listener_names
    if kind == ConfigResource.BROKER_LOGGER or (kind == ConfigResource.BROKER and name and not forwarded):
        check_own_id(node, name, is_broker=kind == ConfigResource.BROKER)
        if kind == ConfigResource.BROKER:
            check_cordons(node, resource.configs)


def check_allowed(node: Broker, request: Request[Any], kind: int, name: str) -> None:
    """Raises RequestError unless the configs of the resource may be changed."""
    if kind == ConfigResource.TOPIC:
        if not node.gate.allows(request, ALTER_TOPIC_CONFIGS, name):
            raise RequestError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    elif kind == ConfigResource.GROUP:
        if not node.gate.allows(request, ALTER_GROUP_CONFIGS, name):
            raise RequestError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    elif not node.gate.allows(request, ALTER_CLUSTER_CONFIGS):
        raise RequestError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)


def unusable_stores(node: Broker, request: Request[Any], *, incremental: bool) -> Stepped[Answers]:
    """The answer for this broker's own configs if they would name key or trust stores that it cannot use; else empty.

    Nothing is read for a request that is refused anyway, or that another broker has forwarded.
    """
    state = node.state
    answers: Answers = {}
    own = ConfigResource.BROKER, str(state.node_id)
    if request.listener in state.settings.controller_listener_names:
        return answers
    for resource in request.body.resources:
        if key_of(resource) != own or not any(names_stores(config.name) for config in resource.configs):
            continue
        if answers or not node.gate.would_allow(request, ALTER_CLUSTER_CONFIGS):
            break
        overrides = dict(state.image.configs.get(own) or {}) if incremental else {}
        for config in resource.configs:
            if incremental and config.config_operation == DELETE:
                overrides.pop(config.name, None)
            elif not incremental or config.config_operation == SET:
                overrides[config.name] = config.value or ""
        of_all = state.image.configs.get((ConfigResource.BROKER, "")) or {}
        looked = StoresUnread(state.metadata_directory, state.check_stores, state.settings, (of_all, overrides))
        yield looked
        if looked.problem is not None:
            answers[own] = ApiError(ErrorCode.INVALID_REQUEST, looked.problem)
    return answers


def unusable_of(resources: Resources, unusable: Answers) -> Answers:
    """The answers for those of the resources that would name stores that cannot be used."""
    return {key: unusable[key] for each in resources if (key := key_of(each)) in unusable}


def of_other_brokers(node: Broker, resources: Resources, unusable: Answers) -> Answers:
    """Answers that refuse the whole request if it names another broker, an unknown directory to cordon, or stores that
    cannot be used; else empty. The other resources would have to be forwarded without that one.
    """
    answers: Answers = dict(unusable)
    for resource in resources:
        if resource.resource_type == ConfigResource.BROKER and resource.resource_name:
            try:
                check_own_id(node, resource.resource_name, is_broker=True)
                check_cordons(node, resource.configs)
            except RequestError as error:
                answers[resource.resource_type, resource.resource_name] = ApiError.of(error)
    if not answers:
        return answers
    what = "has a part that is refused" if unusable else "names another broker, too"
    rest = ApiError(ErrorCode.INVALID_REQUEST, f"Nothing was changed: the request {what}.")
    return {(each.resource_type, each.resource_name): rest for each in resources} | answers


def check_cordons(node: Broker, configs: Sequence[Any]) -> None:
    """Raises RequestError for an unknown directory to cordon: only this broker knows its directories."""
    for config in configs:
        if config.name == CORDONS and config.value:
            unknown = set(config.value.split(",")) - {"*", *node.state.settings.directories}
            if unknown:
                raise RequestError(
                    ErrorCode.INVALID_REQUEST,
                    f"Invalid entry in {CORDONS}: {min(unknown)}. All cordoned log dirs must be entries of log.dirs or "
                    "log.dir.",
                )


def check_own_id(node: Broker, name: str, *, is_broker: bool) -> None:
    if not name.removeprefix("-").isdecimal():
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node.state.node_id:
        what = f"broker id, expected {node.state.node_id}," if is_broker else f"node id. Expected {node.state.node_id},"
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unexpected {what} but received {name}")


def changed_levels(changes: list[LevelChange], *, validate_only: bool) -> ApiError:
    try:
        change_levels(changes, validate_only=validate_only)
    except RequestError as error:
        return ApiError.of(error)
    return ApiError()


def incremental_response(resources: Resources, answers: Mapping[Resource, ApiError]) -> IncrementalAlterConfigsResponse:
    """The answers in the order of the request."""
    kind = incremental_alter_configs_response.AlterConfigsResourceResponse
    return IncrementalAlterConfigsResponse(responses=in_order(kind, resources, answers))


def legacy_response(resources: Resources, answers: Mapping[Resource, ApiError]) -> AlterConfigsResponse:
    """The answers in the order of the request."""
    kind = alter_configs_response.AlterConfigsResourceResponse
    return AlterConfigsResponse(responses=in_order(kind, resources, answers))


def in_order(kind: Any, resources: Resources, answers: Mapping[Resource, ApiError]) -> list[Any]:
    def answer(resource: Any) -> Any:
        resource_type, name = key_of(resource)
        error = answers[resource_type, name]
        return kind(error_code=error.code, error_message=error.message, resource_type=resource_type, resource_name=name)

    return lazily(answer, resources)


def refuse(request: Request[Any], code: ErrorCode, message: str) -> Message:
    """Every resource answered with the error."""
    resources = request.body.resources if request.body is not None else ()
    error = ApiError(code, message or None)
    make = legacy_response if request.api.key is ApiKey.ALTER_CONFIGS else incremental_response
    return make(resources, defaultdict(lambda: error))


HANDLERS = (
    Handler(ApiKey.ALTER_CONFIGS, handle_legacy, refuse),
    Handler(ApiKey.INCREMENTAL_ALTER_CONFIGS, handle_incremental, refuse),
)
