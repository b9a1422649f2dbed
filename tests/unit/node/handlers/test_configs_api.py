"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources, over the wire."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker import Node

from penstock.errors import ErrorCode
from penstock.metadata.configs import APPEND, DELETE, SET
from penstock.metadata.image import ConfigResource
from penstock.protocol.messages import alter_configs_request as legacy
from penstock.protocol.messages import incremental_alter_configs_request as incremental
from penstock.protocol.messages.alter_configs_request import AlterConfigsRequest
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest

TOPIC, BROKER, LOGGER = ConfigResource.TOPIC, ConfigResource.BROKER, ConfigResource.BROKER_LOGGER
METRICS = ConfigResource.CLIENT_METRICS


@pytest.fixture
def node() -> Node:
    node = Node()
    node.create_topic("clicks")
    return node


@pytest.fixture
def some_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("penstock.tests.levels")
    before = logger.level
    yield logger
    logger.setLevel(before)


def described(node: Node, kind: int, name: str, *keys: str, version: int = 4, **flags: bool) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=list(keys) or None)
    answer = node.connect().ask(DescribeConfigsRequest(resources=[resource], **flags), version)
    [result] = answer.results
    assert result.error_code == 0, result.error_message
    return {config.name: config for config in result.configs}


def change(kind: int, name: str, *configs: tuple[str, int, str | None], validate_only: bool = False) -> Any:
    changes = [
        incremental.AlterableConfig(name=key, config_operation=operation, value=value)
        for key, operation, value in configs
    ]
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    return IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)


def codes(answer: Any) -> list[int]:
    return [response.error_code for response in answer.responses]


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_a_topic(node: Node, version: int) -> None:
    configs = described(node, TOPIC, "clicks", version=version)
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("604800000", 5)
    assert configs["cleanup.policy"].value == "delete"
    assert len(configs) > 25
    assert list(described(node, TOPIC, "clicks", "retention.ms", version=version)) == ["retention.ms"]


def test_a_changed_config_names_its_source_and_synonyms(node: Node) -> None:
    client = node.connect()
    assert codes(client.ask(change(TOPIC, "clicks", ("segment.bytes", SET, "2000000")), 1)) == [0]
    found = described(node, TOPIC, "clicks", "segment.bytes", include_synonyms=True, include_documentation=True)
    config = found["segment.bytes"]
    assert (config.value, config.config_source, config.config_type) == ("2000000", 1, 3)
    assert [(each.name, each.source) for each in config.synonyms] == [("segment.bytes", 1), ("log.segment.bytes", 5)]
    assert config.documentation
    assert described(node, TOPIC, "clicks", "segment.bytes")["segment.bytes"].documentation is None


def test_a_broker_describes_itself_and_the_cluster(node: Node) -> None:
    assert described(node, BROKER, "1", "num.partitions")["num.partitions"].value == "1"
    assert described(node, BROKER, "") == {}
    client = node.connect()
    assert codes(client.ask(change(BROKER, "", ("log.retention.ms", SET, "50000")), 1)) == [0]
    assert described(node, BROKER, "")["log.retention.ms"].value == "50000"
    found = described(node, BROKER, "1", "log.retention.ms")["log.retention.ms"]
    assert (found.value, found.config_source) == ("50000", 3)
    assert described(node, TOPIC, "clicks", "retention.ms")["retention.ms"].value == "50000"


def test_changes_are_in_force_when_they_are_answered(node: Node) -> None:
    client = node.connect()
    assert codes(client.ask(change(TOPIC, "clicks", ("retention.ms", SET, "7")), 1)) == [0]
    assert node.broker.state.topic_config("clicks").retention_ms == 7
    assert codes(client.ask(change(TOPIC, "clicks", ("retention.ms", DELETE, None)), 1)) == [0]
    assert node.broker.state.topic_config("clicks").retention_ms == 604_800_000


def test_validate_only_changes_nothing(node: Node) -> None:
    client = node.connect()
    request = change(TOPIC, "clicks", ("retention.ms", SET, "7"), validate_only=True)
    assert codes(client.ask(request, 1)) == [0]
    bad = change(TOPIC, "clicks", ("retention.ms", SET, "x"), validate_only=True)
    assert codes(client.ask(bad, 1)) == [ErrorCode.INVALID_CONFIG]
    assert node.broker.image.topic_configs("clicks") == {}


@pytest.mark.parametrize("version", range(3))
def test_the_older_api_replaces_all_configs(node: Node, version: int) -> None:
    client = node.connect()
    client.ask(change(TOPIC, "clicks", ("retention.ms", SET, "7"), ("segment.ms", SET, "8")), 1)
    configs = [legacy.AlterableConfig(name="segment.ms", value="9")]
    resource = legacy.AlterConfigsResource(resource_type=TOPIC, resource_name="clicks", configs=configs)
    assert codes(client.ask(AlterConfigsRequest(resources=[resource]), version)) == [0]
    assert node.broker.image.topic_configs("clicks") == {"segment.ms": "9"}


def test_answers_come_in_the_order_of_the_request_and_a_resource_only_once(node: Node) -> None:
    request = change(TOPIC, "unknown", ("retention.ms", SET, "7"))
    request.resources += change(TOPIC, "clicks", ("retention.ms", SET, "7")).resources
    request.resources += change(TOPIC, "unknown", ("retention.ms", SET, "7")).resources
    answer = node.connect().ask(request, 1)
    assert [(each.resource_name, each.error_code) for each in answer.responses] == [
        ("unknown", ErrorCode.INVALID_REQUEST),
        ("clicks", 0),
        ("unknown", ErrorCode.INVALID_REQUEST),
    ]


def test_log_levels(node: Node, some_logger: logging.Logger) -> None:
    client = node.connect()
    assert codes(client.ask(change(LOGGER, "1", (some_logger.name, SET, "DEBUG")), 1)) == [0]
    assert some_logger.level == logging.DEBUG
    found = described(node, LOGGER, "1")
    assert (found[some_logger.name].value, found[some_logger.name].config_source) == ("DEBUG", 6)
    assert "root" in found
    assert codes(client.ask(change(LOGGER, "1", (some_logger.name, SET, "LOUD")), 1)) == [ErrorCode.INVALID_CONFIG]
    assert codes(client.ask(change(LOGGER, "1", (some_logger.name, DELETE, None)), 1)) == [0]
    assert some_logger.level == logging.NOTSET
    assert codes(client.ask(change(LOGGER, "1", ("root", DELETE, None)), 1)) == [ErrorCode.INVALID_REQUEST]


def test_resources_that_have_configs(node: Node) -> None:
    client = node.connect()
    answer = client.ask(ListConfigResourcesRequest(), 1)
    found = {(each.resource_type, each.resource_name) for each in answer.config_resources}
    assert found == {(TOPIC, "clicks"), (BROKER, "1"), (LOGGER, "1")}
    only = client.ask(ListConfigResourcesRequest(resource_types=[TOPIC]), 1)
    assert [each.resource_name for each in only.config_resources] == ["clicks"]
    assert client.ask(ListConfigResourcesRequest(), 0).config_resources == []
    assert client.ask(ListConfigResourcesRequest(resource_types=[5]), 1).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_subscriptions_to_client_metrics_come_are_listed_and_go(node: Node) -> None:
    client = node.connect()
    configs = ("metrics", SET, "a.,b."), ("match", SET, "client_id=x")
    assert codes(client.ask(change(METRICS, "s", *configs), 1)) == [0]
    assert {name: config.value for name, config in described(node, METRICS, "s").items()} == {
        "metrics": "a.,b.",
        "interval.ms": "300000",
        "match": "client_id=x",
    }
    assert [each.resource_name for each in client.ask(ListConfigResourcesRequest(), 0).config_resources] == ["s"]
    listed = client.ask(ListConfigResourcesRequest(), 1).config_resources
    assert [each.resource_name for each in listed if each.resource_type == METRICS] == ["s"]
    assert codes(client.ask(change(METRICS, "s", *((name, DELETE, None) for name, _, _ in configs)), 1)) == [0]
    assert client.ask(ListConfigResourcesRequest(), 0).config_resources == []


@pytest.mark.parametrize(
    ("name", "configs", "code"),
    [
        ("", [("metrics", SET, "a")], ErrorCode.INVALID_REQUEST),
        ("s", [("metric", SET, "a")], ErrorCode.INVALID_REQUEST),
        ("s", [("interval.ms", SET, "99")], ErrorCode.INVALID_REQUEST),
        ("s", [("interval.ms", SET, "x")], ErrorCode.INVALID_CONFIG),
        ("s", [("match", SET, "client_id")], ErrorCode.INVALID_CONFIG),
        ("s", [("metrics", APPEND, "a")], ErrorCode.INVALID_CONFIG),
    ],
)
def test_subscriptions_that_cannot_be(
    node: Node, name: str, configs: list[tuple[str, int, str]], code: ErrorCode
) -> None:
    assert codes(node.connect().ask(change(METRICS, name, *configs), 1)) == [code]


def test_a_subscription_without_a_name_is_not_described(node: Node) -> None:
    resource = DescribeConfigsResource(resource_type=METRICS, resource_name="", configuration_keys=None)
    [result] = node.connect().ask(DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert result.error_message == "Client metrics subscription name must not be empty"
