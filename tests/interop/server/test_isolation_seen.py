"""What an operator sees of an error that ended one request: one entry with its cause, and a count by its place."""

from __future__ import annotations

import logging
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.hostile_node import HANDLERS, HostileClient, framed

from penstock.protocol.api import ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.server.server import Server
from penstock.testing.broker import LocalBroker

TIMES = 5
PLANTED = "what no code expects"


def raising(kind: type[Exception]) -> Callable[..., Any]:
    def broken(*_: Any) -> Any:
        raise kind(PLANTED)

    return broken


def server_of(broker: LocalBroker) -> Server:
    assert broker._embedded is not None
    assert broker._embedded.server is not None
    return broker._embedded.server


@pytest.fixture(scope="module")
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({"penstock.metrics.listener": "127.0.0.1:0"}) as broker:
        yield broker


def bugs(broker: LocalBroker, place: str) -> int:
    address = server_of(broker).http_address
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    (found,) = (line for line in lines if line.startswith(f'penstock_node_bugs_total{{place="{place}"}}'))
    return int(float(found.rpartition(" ")[2]))


@pytest.mark.parametrize(
    ("key", "kind", "place", "answers"),
    [
        (ApiKey.HEARTBEAT, LookupError, "request", TIMES),
        (ApiKey.LIST_GROUPS, ArithmeticError, "request", TIMES),
        (ApiKey.DESCRIBE_CLUSTER, BufferError, "answer", 0),
    ],
)
def test_an_error_is_logged_once_with_its_cause_and_counted_each_time(
    broker: LocalBroker,
    *,
    key: ApiKey,
    kind: type[Exception],
    place: str,
    answers: int,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    handler, before = HANDLERS[key], bugs(broker, place)
    running = server_of(broker).broker.dispatcher.served.broker[key]
    caplog.set_level(logging.ERROR)
    with monkeypatch.context() as plant:
        if place == "request":
            plant.setattr(running, "handle", raising(kind))
        else:
            plant.setattr("penstock.node.exit.encode_response", raising(kind))
        heard = 0
        for number in range(TIMES):
            request = framed(handler, handler.max_version, handler.api.request_class(), number)
            with HostileClient(broker.port) as client:
                heard += len(client.ask([request]))
    assert heard == answers
    (told,) = (record for record in caplog.records if record.name == "penstock.node.bugs")
    assert key.name in told.getMessage()
    assert f"{kind.__name__}: {PLANTED}" in caplog.text
    assert "Traceback" in caplog.text
    assert bugs(broker, place) == before + TIMES
    with HostileClient(broker.port) as other:
        plain = HANDLERS[ApiKey.API_VERSIONS]
        assert other.ask([framed(plain, 0, ApiVersionsRequest(), 1)])
