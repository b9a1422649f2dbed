"""Changing configs: the controller's side of AlterConfigs and IncrementalAlterConfigs.

Topic configs are validated by `penstock.config.topic`, with the overrides that would result, group configs by
`penstock.config.group`, subscriptions to client metrics by `penstock.config.client_metrics`; broker configs by the
settings that may change at run time. A resource is changed as a whole or not at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.config.client_metrics import ClientMetricsConfigs
from penstock.config.dynamic import check_dynamic
from penstock.config.group import GROUP_SETTINGS, GroupConfigs
from penstock.config.server import SETTINGS
from penstock.config.setting import Setting
from penstock.config.topic import TOPIC_SETTINGS, TopicConfig
from penstock.errors import ConfigError, ErrorCode, RequestError
from penstock.metadata.eligible import ALL_TOPICS, minimum_changed
from penstock.metadata.image import ConfigResource, Configs
from penstock.metadata.names import check_topic_name
from penstock.metadata.result import ApiError, Result
from penstock.protocol.messages.metadata.config_record import ConfigRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

SET, DELETE, APPEND, SUBTRACT = range(4)
MIN_INSYNC_REPLICAS = "min.insync.replicas"
OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}

Resource = tuple[int, str]
"""Kafka's resource type id and the resource's name."""


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """One config of a resource; `operation` is SET, DELETE, APPEND or SUBTRACT."""

    name: str
    operation: int
    value: str | None


def alter_configs(
    controller: Controller, changes: Mapping[Resource, Sequence[ConfigChange]]
) -> Result[dict[Resource, ApiError]]:
    """Changes the configs of several resources, each as a whole or not at all."""
    answers: dict[Resource, ApiError] = {}
    records: list[ConfigRecord] = []
    for resource, of_resource in changes.items():
        try:
            records.extend(alter(controller, resource, of_resource))
        except RequestError as error:
            answers[resource] = ApiError.of(error)
        else:
            answers[resource] = ApiError()
    changed = [record for record in records if record.name == MIN_INSYNC_REPLICAS]
    if not controller.elr_enabled or not changed:
        return Result(answers, records)
    topics = [each.resource_name if each.resource_type == ConfigResource.TOPIC else ALL_TOPICS for each in changed]
    return Result(answers, [*records, *minimum_changed(controller, list(dict.fromkeys(topics)))])


def replace_configs(
    controller: Controller, wanted: Mapping[Resource, Mapping[str, str]]
) -> Result[dict[Resource, ApiError]]:
    """Replaces all configs of each resource; those that are not given return to their defaults."""
    return alter_configs(
        controller,
        {
            resource: [
                *(ConfigChange(name, SET, value) for name, value in configs.items()),
                *(
                    ConfigChange(name, DELETE, None)
                    for name in controller.image.configs.get(resource) or ()
                    if name not in configs
                ),
            ]
            for resource, configs in wanted.items()
        },
    )


def alter(
    controller: Controller, resource: Resource, changes: Sequence[ConfigChange], *, is_new: bool = False
) -> list[ConfigRecord]:
    """The records of changes to one resource. `is_new`: the resource is created by the same request.

    Raises RequestError: INVALID_CONFIG for a name or value that cannot be, UNKNOWN_TOPIC_OR_PARTITION for a missing
    topic.
    """
    kind, name = resource
    current = controller.image.configs.get(resource) or {}
    overrides = dict(current)
    records = []
    for change in changes:
        value = changed_value(controller, kind, change, overrides.get(change.name))
        if value != current.get(change.name) or kind == ConfigResource.BROKER:
            records.append(ConfigRecord(resource_type=kind, resource_name=name, name=change.name, value=value))
        if value is None:
            overrides.pop(change.name, None)
        else:
            overrides[change.name] = value
    check_resource(controller, resource, overrides, [change.name for change in changes], is_new=is_new)
    return records


def changed_value(controller: Controller, kind: int, change: ConfigChange, current: str | None) -> str | None:
    """The text that a config has after a change; None when the override is gone."""
    if change.operation == SET:
        return change.value
    if change.operation == DELETE:
        return None
    if change.operation not in OPERATIONS:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Unknown operations type {change.operation}")
    setting = setting_of(kind, change.name)
    if setting is None or setting.type.name != "LIST":
        raise RequestError(
            ErrorCode.INVALID_CONFIG,
            f"Can't {OPERATIONS[change.operation]} to key {change.name} because its type is not LIST.",
        )
    if current is None:
        current = default_text(controller, kind, setting)
    elements = [element for element in current.split(",") if element]
    named = (change.value or "").split(",")
    if change.operation == APPEND:
        elements += [element for element in dict.fromkeys(named) if element not in elements]
    else:
        elements = [element for element in elements if element not in named]
    return ",".join(elements)


def setting_of(kind: int, name: str) -> Setting[object] | None:
    """The declaration of a config of a resource of this kind."""
    if kind == ConfigResource.TOPIC:
        return TOPIC_SETTINGS.get(name)
    if kind == ConfigResource.GROUP:
        return GROUP_SETTINGS.get(name)
    return SETTINGS.get(name) if kind == ConfigResource.BROKER else None


def default_text(controller: Controller, kind: int, setting: Setting[object]) -> str:
    """The value of a list config that was never changed."""
    source = controller.topic_settings.topic_defaults if kind == ConfigResource.TOPIC else controller.settings
    return setting.type.print(getattr(source, setting.attribute)) or ""


def check_resource(
    controller: Controller, resource: Resource, overrides: Configs, changed: Sequence[str], *, is_new: bool
) -> None:
    """Raises RequestError when a resource cannot have these overrides, or does not exist."""
    kind, name = resource
    if kind == ConfigResource.TOPIC:
        check_topic(controller, name, overrides, is_new=is_new)
    elif kind == ConfigResource.BROKER:
        check_broker_name(controller, name)
        check_broker_configs(controller, name, overrides, changed)
    elif kind == ConfigResource.GROUP:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
        try:
            of_group = GroupConfigs.resolve(controller.topic_settings, overrides)
            of_group.check(controller.topic_settings, overrides)
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
    elif kind == ConfigResource.CLIENT_METRICS:
        if not name:
            raise RequestError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
        try:
            ClientMetricsConfigs.resolve(overrides)
        except ConfigError as error:
            raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
    else:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"Configs of resource type {kind} are not supported yet")


def check_topic(controller: Controller, name: str, overrides: Configs, *, is_new: bool) -> None:
    """Raises RequestError when a topic cannot have these overrides, or does not exist."""
    if not name:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)
    try:
        config = TopicConfig.resolve(controller.topic_settings, overrides)
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_CONFIG, str(error)) from None
    if config.remote_storage_enable:
        raise RequestError(
            ErrorCode.INVALID_CONFIG, "remote.storage.enable = true is not possible: there is no remote storage"
        )
    if not is_new and name not in controller.image.topics_by_name:
        raise RequestError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def check_broker_name(controller: Controller, name: str) -> None:
    """Raises RequestError unless the name of a broker resource is a broker's id, or empty for all brokers."""
    if not name:
        return
    if not name.removeprefix("-").isdecimal():
        raise RequestError(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if int(name) < 0:
        raise RequestError(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
    if int(name) not in controller.image.brokers:
        raise RequestError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")


def check_broker_configs(controller: Controller, name: str, overrides: Configs, changed: Sequence[str]) -> None:
    """Raises RequestError for a change of a setting that may not change, or one that makes the settings invalid."""
    if controller.elr_enabled and MIN_INSYNC_REPLICAS in changed:
        if name:
            sentence = "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
            raise RequestError(ErrorCode.INVALID_CONFIG, sentence)
        if MIN_INSYNC_REPLICAS not in overrides:
            sentence = "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
            raise RequestError(ErrorCode.INVALID_CONFIG, sentence)
    try:
        check_dynamic({each: overrides[each] for each in changed if each in overrides}, per_broker=bool(name))
        if name:
            controller.settings.with_dynamic(controller.cluster_configs, overrides)
        else:
            controller.settings.with_dynamic(overrides, {})
    except ConfigError as error:
        raise RequestError(ErrorCode.INVALID_REQUEST, str(error)) from None
