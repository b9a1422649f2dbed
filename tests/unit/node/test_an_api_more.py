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
from penstock.protocol.messages.describe_producers_request import DescribeProducersRequest, TopicRequest
from penstock.protocol.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    TopicResponse,
)
from penstock.security.rights import READ_TOPIC, ROWS, each

KEY = ApiKey.DESCRIBE_PRODUCERS


def handle(node: Any, request: Request[DescribeProducersRequest], now_ms: int) -> DescribeProducersResponse:
    """Says of each partition that it knows whether it may be read."""
    answer = DescribeProducersResponse()
    for topic in request.body.topics:
        code = ErrorCode.NONE if node.gate.allows(request, READ_TOPIC, topic.name) else ErrorCode.UNKNOWN_SERVER_ERROR
        partitions = [PartitionResponse(partition_index=index, error_code=code) for index in topic.partition_indexes]
        answer.topics.append(TopicResponse(name=topic.name, partitions=partitions))
    return answer


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module of handlers among the others."""
    monkeypatch.setitem(ROWS, KEY, each(READ_TOPIC))  # type: ignore[arg-type]
    module = ModuleType("penstock.node.handlers.describe_producers")
    module.HANDLERS = (Handler(KEY, handle),)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(handlers, "FAMILIES", (*handlers.FAMILIES, "describe_producers"))
    handlers.registry.cache_clear()
    yield module.__name__
    handlers.registry.cache_clear()


def advertised(node: Node) -> set[int]:
    answer = node.connect().ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {each.api_key for each in answer.api_keys}


def test_an_api_without_a_handler_does_not_exist() -> None:
    assert KEY not in advertised(Node())


def test_an_api_without_rights_cannot_be_served() -> None:
    with pytest.raises(KeyError, match="DESCRIBE_PRODUCERS"):
        Handler(KEY, handle)


def test_an_api_more_is_told_of_and_answers(family: str) -> None:
    node = Node()
    assert KEY in advertised(node)
    request = DescribeProducersRequest(topics=[TopicRequest(name="clicks", partition_indexes=[0, 1])])
    answer = node.connect().ask(request, 0)
    assert [(topic.name, [each.error_code for each in topic.partitions]) for topic in answer.topics] == [
        ("clicks", [ErrorCode.NONE, ErrorCode.NONE])
    ]
