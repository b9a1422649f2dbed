"""Whom a client should ask instead: the current leader of a partition and how its broker is reached (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from penstock.protocol.messages.fetch_response import NodeEndpoint

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def current_leader(node: Broker, topic: str, index: int) -> tuple[int, int]:
    """(leader id, leader epoch) as the image has them; (-1, -1) for an unknown partition."""
    registration = node.image.partition(topic, index)
    return (-1, -1) if registration is None else (registration.leader, registration.leader_epoch)


def endpoints_of(node: Broker, broker_ids: Iterable[int], listener: str, kind: Any = NodeEndpoint) -> list[Any]:
    """The addresses of brokers on the listener that the client came in on. `kind` is the response's own class."""
    found = []
    for broker_id in broker_ids:
        broker = node.image.brokers.get(broker_id)
        endpoint = broker.endpoint(listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            found.append(kind(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack))
    return found
