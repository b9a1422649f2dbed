"""What the tests of isolation share: errors that are planted where one API is served, and who may be hurt by them."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.node.bugs import PLACES
from penstock.node.handlers import registry
from penstock.node.request import BoundHandler, Handler
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from support.broker import Client, Node

HANDLERS = registry()
APIS = pytest.mark.parametrize("handler", HANDLERS.values(), ids=[key.name for key in HANDLERS])


class PlantedError(Exception):
    """What no code expects."""


def broken(*_: Any, **__: Any) -> Any:
    """What is planted."""
    raise PlantedError


class Unencodable:
    """An answer that no version can say."""


def versions(handler: Handler[Any]) -> range:
    """All that are advertised and served."""
    return range(handler.min_version, handler.max_version + 1)


def client_of(node: Node, handler: Handler[Any]) -> Client:
    """A connection to a listener that has the API."""
    return node.connect("PLAINTEXT" if "broker" in handler.api.listeners else "CONTROLLER")


def check_only_sender_hurt(node: Node, client: Client, *, place: str, closed: bool | None = None) -> None:
    """One error, reported once; its sender has an answer or no connection, and others are served."""
    assert [type(bug) for bug in node.bugs] == [PlantedError], node.bugs
    assert {name: count for name, count in node.broker.bugs.counts.items() if count} == {place: 1}
    if client.closed is None:
        assert not closed
        assert client.answers, "neither refused nor closed"
        client.receive()
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0, "and it is served on"
    else:
        assert closed is not False
    assert node.broker.failure is None
    other = node.connect()
    assert other.ask(ApiVersionsRequest(), 0).error_code == 0
    assert other.ask(MetadataRequest(topics=[]), 8).brokers
    node.bugs.clear()
    node.broker.bugs.counts[place] = 0


def served(node: Node, client: Client, handler: Handler[Any]) -> BoundHandler:
    """An API as a node serves it to a client."""
    return node.broker.dispatcher.served[node.broker.connections[client.number].listener][handler.number]


def ask(node: Node, handler: Handler[Any], version: int, **planted: Any) -> Client:
    """Sends the plainest request of an API over a connection of its own, with other functions in its handler."""
    client = client_of(node, handler)
    with pytest.MonkeyPatch.context() as plant:
        for name, function in planted.items():
            plant.setattr(served(node, client, handler), name, function)
        client.send(handler.api.request_class(), version)
    return client


def running_node() -> Node:
    """A node that may meet bugs."""
    node = Node()
    node.bugs_expected = True
    return node


def forget_bugs(node: Node) -> Node:
    """None has been met yet."""
    node.bugs.clear()
    node.broker.bugs.counts.update(dict.fromkeys(PLACES, 0))
    return node
