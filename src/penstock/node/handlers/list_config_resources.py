"""ListConfigResources (key 74): which resources have configs (KIP-1142); in version 0 client metrics subscriptions
only.

Versions 0-1, flexible. No types means all of them. An unknown type is UNSUPPORTED_VERSION. Groups are listed if they
have configs of their own, and a subscription to client metrics is nothing but its configs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.image import ConfigResource as Kind
from penstock.node.request import Handler, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from penstock.protocol.messages.list_config_resources_response import ConfigResource, ListConfigResourcesResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


TYPES = {0: (Kind.CLIENT_METRICS,), 1: (Kind.TOPIC, Kind.BROKER, Kind.BROKER_LOGGER, Kind.CLIENT_METRICS, Kind.GROUP)}
"""The types that each version can list."""


def handle(node: Broker, request: Request[ListConfigResourcesRequest], now_ms: int) -> Message:
    known = TYPES[request.version]
    wanted = request.body.resource_types or known
    if any(kind not in known for kind in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    names: dict[int, list[str]] = {
        Kind.TOPIC: list(node.state.image.topics_by_name) if Kind.TOPIC in wanted else [],
        Kind.BROKER: [str(broker_id) for broker_id in node.state.image.brokers],
        Kind.BROKER_LOGGER: [str(broker_id) for broker_id in node.state.image.brokers],
        Kind.CLIENT_METRICS: [],
        Kind.GROUP: [],
    }
    for kind, name in node.state.image.configs:
        if kind in (Kind.CLIENT_METRICS, Kind.GROUP):
            names[kind].append(name)
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind) for kind in wanted for name in names.get(kind, ())
        ]
    )


HANDLERS = (Handler(ApiKey.LIST_CONFIG_RESOURCES, handle),)
