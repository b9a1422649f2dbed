"""Subscriptions to client metrics, and clients that push, against the broker without a shell of `support.broker`."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from penstock.metadata.configs import DELETE, SET
from penstock.metadata.image import ConfigResource
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from support.broker import Client, Node

NO_ID = UUID(int=0)
SOFTWARE = ("apache-kafka-java", "4.3.1")


def subscribe(node: Node, name: str, **configs: str | None) -> Any:
    """Sets configs of a subscription, `interval_ms` for `interval.ms`; None deletes one. The answer."""
    changes = [
        AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
        for key, value in configs.items()
    ]
    resource = AlterConfigsResource(resource_type=ConfigResource.CLIENT_METRICS, resource_name=name, configs=changes)
    [answer] = node.connect().ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return answer


def connect(node: Node, software: tuple[str, str] = SOFTWARE) -> Client:
    """A client that has said what it is."""
    client = node.connect()
    name, version = software
    client.ask(ApiVersionsRequest(client_software_name=name, client_software_version=version), 3)
    return client


def ask(client: Client, instance_id: UUID = NO_ID, client_id: str | None = "orders") -> Any:
    """GetTelemetrySubscriptions."""
    return client.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0, client_id)


def push(client: Client, told: Any, metrics: bytes = b"", **fields: Any) -> int:
    """PushTelemetry for what a client was told. The error code."""
    request = PushTelemetryRequest(
        client_instance_id=fields.pop("client_instance_id", told.client_instance_id),
        subscription_id=fields.pop("subscription_id", told.subscription_id),
        metrics=metrics,
        **fields,
    )
    code: int = client.ask(request, 0, "orders").error_code
    return code


def samples(node: Node, prefix: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The samples with such names, by name and labels."""
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for each in node.broker.metrics()
        if each.name.startswith(prefix)
    }


def value_of(node: Node, name: str, **labels: str) -> float:
    """The value of the one sample with that name and those labels, whatever others it has."""
    [found] = [
        value for (each, has), value in samples(node, name).items() if each == name and labels.items() <= set(has)
    ]
    return found
