"""Whatever leaves is counted and says how long its client is to wait, however it was made."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.node.handlers import registry
from penstock.node.limits import METADATA_ANSWER_KEPT_TOPICS_MAX
from penstock.node.samples import samples_of
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.list_groups_request import ListGroupsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic

NAMED = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
WIDE = MetadataRequest(
    topics=[MetadataRequestTopic(name=f"t{number}") for number in range(METADATA_ANSWER_KEPT_TOPICS_MAX + 1)],
    allow_auto_topic_creation=False,
)
VERSIONS = ApiVersionsRequest(client_software_name="a", client_software_version="1")
WAYS = {
    "kept, in a flexible frame": (NAMED, 12),
    "kept, in a plain frame": (NAMED, 4),
    "kept, with a header of its own": (VERSIONS, 3),
    "refused by its handler": (HeartbeatRequest(group_id="g", member_id="m"), 4),
    "given later": (ListGroupsRequest(), 4),
    "encoded in steps": (WIDE, 12),
}


def throttle(monkeypatch: pytest.MonkeyPatch, key: ApiKey, time_ms: int) -> None:
    """Has each request of an API throttled."""
    handler = registry()[key]
    handle = handler.handle

    def throttled(node: Any, request: Any, now_ms: int) -> Any:
        request.throttle_time_ms = time_ms
        return handle(node, request, now_ms)

    monkeypatch.setattr(handler, "handle", throttled)


@pytest.mark.parametrize("way", WAYS)
def test_every_answer_says_how_long_to_wait(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    message, version = WAYS[way]
    node = Node()
    node.create_topic("t")
    client = node.connect()
    before = client.ask(message, version)
    assert before.throttle_time_ms == 0
    with monkeypatch.context() as patched:
        throttle(patched, ApiKey(message.KEY), 70)
        throttled = client.ask(message, version)
    assert throttled.throttle_time_ms == 70
    throttled.throttle_time_ms = 0
    assert throttled == before
    assert client.ask(message, version) == before, "what is kept is as it was"


def test_an_answer_without_a_place_for_it_leaves_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    throttle(monkeypatch, ApiKey.API_VERSIONS, 70)
    assert not Node().connect().ask(ApiVersionsRequest(), 0).error_code


@pytest.mark.parametrize("way", WAYS)
def test_every_answer_is_counted(way: str) -> None:
    message, version = WAYS[way]
    node = Node()
    client = node.connect()
    counters = node.broker.dispatcher.exit.counters[message.KEY]
    before = counters.requests
    for _ in range(3):
        client.ask(message, version)
    assert counters.requests == before + 3


def test_refusals_are_counted_by_their_error() -> None:
    node = Node()
    client = node.connect()
    refused: Message = HeartbeatRequest(group_id="g", member_id="m")
    code = ErrorCode(client.ask(refused, 4).error_code)
    client.ask(refused, 4)
    client.ask(VERSIONS, 3)
    found = {
        (each.labels["request"], each.labels["error"]): each.value
        for each in samples_of(node.broker)
        if each is not None and each.name == "kafka_network_requestmetrics_errors_total"
    }
    assert found == {("Heartbeat", code.name): 2}
