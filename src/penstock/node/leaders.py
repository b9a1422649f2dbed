"""The leader that a client should ask instead: its id, epoch and address (KIP-951)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from penstock.metadata.image import MetadataImage

E = TypeVar("E")


def current_leader(image: MetadataImage, topic: str, index: int) -> tuple[int, int]:
    """(leader id, leader epoch) according to the image; (-1, -1) for an unknown partition."""
    registration = image.partition(topic, index)
    return (-1, -1) if registration is None else (registration.leader, registration.leader_epoch)


def endpoints_of(image: MetadataImage, broker_ids: Iterable[int], listener: str, kind: Callable[..., E]) -> list[E]:
    """The addresses of brokers on the listener that the client uses. `kind` is the response's own class."""
    found = []
    for broker_id in broker_ids:
        broker = image.brokers.get(broker_id)
        endpoint = broker.endpoint(listener) if broker is not None else None
        if broker is not None and endpoint is not None:
            found.append(kind(node_id=broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack))
    return found
