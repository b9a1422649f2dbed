"""An API is a module with its handler and a row of rights: with these two, and nothing else, clients reach it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.node import handlers
from penstock.node.request import Handler, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.delete_share_group_offsets_request import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from penstock.protocol.messages.delete_share_group_offsets_response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from penstock.security.rights import READ_TOPIC, ROWS, each

KEY = ApiKey.DELETE_SHARE_GROUP_OFFSETS


def handle(node: Any, request: Request[DeleteShareGroupOffsetsRequest], now_ms: int) -> DeleteShareGroupOffsetsResponse:
    """Says of each topic that it knows whether it may be read."""
    answer = DeleteShareGroupOffsetsResponse(responses=[])
    for topic in request.body.topics:
        name = topic.topic_name
        code = ErrorCode.NONE if node.gate.allows(request, READ_TOPIC, name) else ErrorCode.UNKNOWN_SERVER_ERROR
        answer.responses.append(DeleteShareGroupOffsetsResponseTopic(topic_name=name, error_code=code))
    return answer


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of handlers among the others."""
    monkeypatch.setitem(ROWS, KEY, each(READ_TOPIC))  # type: ignore[arg-type]
    module = ModuleType("penstock.node.handlers.delete_share_group_offsets")
    module.HANDLERS = (Handler(KEY, handle),)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(handlers, "FAMILIES", (*handlers.FAMILIES, "delete_share_group_offsets"))
    handlers.registry.cache_clear()
    yield module.__name__
    handlers.registry.cache_clear()


def advertised(node: Node) -> set[int]:
    answer = node.connect().ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {each.api_key for each in answer.api_keys}


def test_an_api_without_a_handler_does_not_exist() -> None:
    assert KEY not in advertised(Node())


def test_an_api_without_rights_cannot_be_served() -> None:
    with pytest.raises(KeyError, match="DELETE_SHARE_GROUP_OFFSETS"):
        Handler(KEY, handle)


def test_an_api_more_is_told_of_and_answers(family: str) -> None:
    node = Node()
    assert KEY in advertised(node)
    names = ["clicks", "orders"]
    request = DeleteShareGroupOffsetsRequest(
        group_id="g", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    )
    answer = node.connect().ask(request, 0)
    assert [(each.topic_name, each.error_code) for each in answer.responses] == [(name, 0) for name in names]
