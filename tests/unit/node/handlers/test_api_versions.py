"""ApiVersions: what is advertised is what is served."""

from __future__ import annotations

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.node.handlers import registry
from penstock.protocol import frames
from penstock.protocol.api import APIS, SOFTWARE_NAME, ApiKey
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest


@pytest.fixture(scope="module")
def node() -> Node:
    return Node()


@pytest.mark.parametrize("version", range(5))
def test_every_version_lists_what_is_in_the_registry(version: int, node: Node) -> None:
    client = node.connect()
    for _ in range(2):  # the second answer comes from the cache
        answer = client.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1.0"), version)
        assert answer.error_code == 0
        ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
        expected = {
            int(key): (handler.advertised_min_version, handler.max_version)
            for key, handler in registry().items()
            if "broker" in handler.api.listeners and not handler.api.own
        }
        assert ranges == expected
    assert ranges[ApiKey.PRODUCE] == (0, 13)
    assert ranges[ApiKey.INIT_PRODUCER_ID] == (0, 5), "version 6 is a draft"


def listed(node: Node, software: str, version: int, listener: str = "PLAINTEXT") -> set[int]:
    request = ApiVersionsRequest(client_software_name=software, client_software_version="1")
    return {api.api_key for api in node.connect(listener).ask(request, version).api_keys}


def test_our_own_apis_are_named_only_to_who_says_that_its_software_is_ours(node: Node) -> None:
    own = {int(key) for key, handler in registry().items() if handler.api.own}
    assert own
    for version in (3, 4):
        ours, others = (listed(node, software, version) for software in (SOFTWARE_NAME, "librdkafka"))
        assert ours - others == own, "and the other answer does not come out of the cache"
        assert listed(node, SOFTWARE_NAME.upper(), version) == others
    assert not listed(node, SOFTWARE_NAME, 2) & own, "nobody says what its software is in version 2"
    assert not listed(node, SOFTWARE_NAME, 4, "CONTROLLER") & own


def test_finalized_features(node: Node) -> None:
    answer = node.connect().ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
    assert finalized == {
        "group.version": 1,
        "kraft.version": 1,
        "metadata.version": 30,
        "transaction.version": 2,
    }
    supported = {feature.name for feature in answer.supported_features}
    assert supported == {
        "eligible.leader.replicas.version",
        "group.version",
        "kraft.version",
        "metadata.version",
        "transaction.version",
    }
    older = node.connect().ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3)
    assert {feature.name for feature in older.supported_features} == {"metadata.version"}


@pytest.mark.parametrize("version", [5, 99])
def test_an_unknown_version_is_answered_in_version_0(version: int, node: Node) -> None:
    client = node.connect()
    client.send_bytes(b"\x00\x12" + version.to_bytes(2, "big") + b"\x00\x00\x00\x2a" + b"\x00\x01x" + b"\x00" + b"??")
    correlation_id, answer = frames.decode_response(APIS[ApiKey.API_VERSIONS], 0, memoryview(client.answers.popleft()))
    assert correlation_id == 42
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]
    assert client.closed is None


@pytest.mark.parametrize("name", ["", "-x", "a b", "x" * 5 + "_"])
def test_malformed_software_names_are_invalid(name: str, node: Node) -> None:
    client = node.connect()
    answer = client.ask(ApiVersionsRequest(client_software_name=name, client_software_version="1"), 3)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


def test_a_controller_listener_serves_the_controllers_apis(node: Node) -> None:
    client = node.connect("CONTROLLER")
    answer = client.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4)
    keys = {api.api_key for api in answer.api_keys}
    assert ApiKey.API_VERSIONS in keys
    assert ApiKey.PRODUCE not in keys
