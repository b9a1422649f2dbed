"""Configs that name key and trust stores: the broker that is asked looks whether it could use them."""

from __future__ import annotations

import pytest
from support.broker import Node

from penstock.config.server import Settings
from penstock.errors import ConfigError, ErrorCode
from penstock.metadata.image import ConfigResource
from penstock.node.gate import Gate
from penstock.protocol.messages import alter_configs_request as legacy
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

LOCATION = "listener.name.plaintext.ssl.keystore.location"


class Stores:
    """Files that can be used, and which were looked at."""

    def __init__(self) -> None:
        self.looks = 0

    def check(self, settings: Settings) -> None:
        self.looks += 1
        location = settings.of_listener("PLAINTEXT").ssl_keystore_location
        if location not in (None, "/good.p12"):
            raise ConfigError(f"{location} cannot be read")


@pytest.fixture
def node() -> Node:
    return Node()


@pytest.fixture
def stores(node: Node) -> Stores:
    stores = Stores()
    node.broker.state.check_stores = stores.check
    return stores


def alter(node: Node, name: str, value: str | None, *, validate_only: bool = False) -> tuple[ErrorCode, str | None]:
    config = AlterableConfig(name=name, config_operation=0 if value is not None else 1, value=value)
    resource = AlterConfigsResource(
        resource_type=ConfigResource.BROKER, resource_name=str(node.broker.node_id), configs=[config]
    )
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer = node.connect().ask(request, 1).responses[0]
    node.settle()
    return ErrorCode(answer.error_code), answer.error_message


def configs(node: Node) -> dict[str, str]:
    return dict(node.broker.image.configs.get((ConfigResource.BROKER, str(node.broker.node_id))) or {})


@pytest.mark.parametrize("validate_only", [True, False])
def test_a_store_that_cannot_be_used_is_refused(node: Node, stores: Stores, validate_only: bool) -> None:
    refused = ErrorCode.INVALID_REQUEST, "/bad.p12 cannot be read"
    assert alter(node, LOCATION, "/bad.p12", validate_only=validate_only) == refused
    assert configs(node) == {}
    assert alter(node, LOCATION, "/good.p12", validate_only=validate_only) == (ErrorCode.NONE, None)
    assert configs(node) == ({} if validate_only else {LOCATION: "/good.p12"})


def test_what_is_set_already_counts_and_what_is_deleted_does_not(node: Node, stores: Stores) -> None:
    node.broker.state.check_stores = lambda settings: None
    assert alter(node, LOCATION, "/bad.p12")[0] is ErrorCode.NONE
    node.broker.state.check_stores = stores.check
    assert alter(node, "listener.name.plaintext.ssl.keystore.type", "PKCS12")[0] is ErrorCode.INVALID_REQUEST
    assert alter(node, LOCATION, None) == (ErrorCode.NONE, None)


def test_alter_configs_replaces_all(node: Node, stores: Stores) -> None:
    for location, code in (("/bad.p12", ErrorCode.INVALID_REQUEST), ("/good.p12", ErrorCode.NONE)):
        resource = legacy.AlterConfigsResource(
            resource_type=ConfigResource.BROKER,
            resource_name=str(node.broker.node_id),
            configs=[legacy.AlterableConfig(name=LOCATION, value=location)],
        )
        answer = node.connect().ask(legacy.AlterConfigsRequest(resources=[resource]), 2).responses[0]
        assert answer.error_code == code


def test_other_configs_read_no_stores(node: Node, stores: Stores) -> None:
    assert alter(node, "log.retention.ms", "1000000")[0] is ErrorCode.NONE
    assert stores.looks == 0


def test_nothing_is_read_for_who_may_not_change_configs(
    node: Node, stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Gate, "would_allow", lambda *_: False)
    assert alter(node, LOCATION, "/bad.p12")[0] is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert stores.looks == 0
