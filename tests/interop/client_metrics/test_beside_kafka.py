"""One client with Penstock and with Apache Kafka: what it is told, when it comes too early, and when it
may go on.

Two subscriptions make that independent of how fast the machine is: one client has an interval of an hour, within which
all of it happens, the other one of 100 ms, and waits for longer.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from interop.client_metrics.taking_peer import TakingPeer
from interop.clients.wire import Wire
from support.otlp import gauge, metrics_data

from penstock.errors import ErrorCode
from penstock.metadata.configs import DELETE, SET
from penstock.metadata.image import ConfigResource
from penstock.node.client_metrics.instances import text_of
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.list_config_resources_request import ListConfigResourcesRequest
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.java

METRICS = metrics_data([gauge("org.apache.kafka.producer.request.latency.avg", 1.0)])
SLOW = UUID(int=0x714 << 64 | 1)
FAST = UUID(int=0x714 << 64 | 2)
NOBODY = UUID(int=0x714 << 64 | 3)
PAUSE_S = 0.15
DEADLINE_S = 30.0


class Teller:
    """One client of one broker; `told` is what it was told, step by step."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.told: list[Any] = []
        self.subscription_ids: dict[UUID, int] = {}

    def get(self, instance_id: UUID) -> None:
        answer = self.wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)
        self.subscription_ids[instance_id] = answer.subscription_id or self.subscription_ids.get(instance_id, 0)
        self.told.append(
            (
                ErrorCode(answer.error_code).name,
                answer.client_instance_id,
                answer.subscription_id,
                answer.push_interval_ms,
                answer.requested_metrics,
                answer.accepted_compression_types,
                answer.telemetry_max_bytes,
                answer.delta_temporality,
            )
        )

    def push(self, instance_id: UUID, metrics: bytes = METRICS, **fields: Any) -> None:
        known = {"subscription_id": self.subscription_ids.get(instance_id, 1), **fields}
        request = PushTelemetryRequest(client_instance_id=instance_id, metrics=metrics, **known)
        self.told.append(ErrorCode(self.wire.ask(request, 0).error_code).name)

    def alter(self, name: str, **configs: str | None) -> None:
        changes = [
            AlterableConfig(name=key.replace("_", "."), config_operation=DELETE if value is None else SET, value=value)
            for key, value in configs.items()
        ]
        resource = AlterConfigsResource(
            resource_type=ConfigResource.CLIENT_METRICS, resource_name=name, configs=changes
        )
        [answer] = self.wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        assert answer.error_code == 0
        self.until_known(name, {key.replace("_", "."): value for key, value in configs.items()})

    def until_known(self, name: str, configs: dict[str, str | None]) -> None:
        """A broker may know a change a moment after the answer."""
        resource = DescribeConfigsResource(
            resource_type=ConfigResource.CLIENT_METRICS, resource_name=name, configuration_keys=list(configs)
        )
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            [found] = self.wire.ask(DescribeConfigsRequest(resources=[resource]), 4).results
            if all(configs[each.name] in (each.value, None) for each in found.configs):
                return
        raise AssertionError(f"{name} is not {configs}")

    def list(self) -> None:
        found = self.wire.ask(ListConfigResourcesRequest(resource_types=[ConfigResource.CLIENT_METRICS]), 1)
        self.told.append(sorted(each.resource_name for each in found.config_resources))


def history(wire: Wire) -> list[Any]:
    """One client's whole life."""
    one = Teller(wire)
    one.get(SLOW)
    one.get(SLOW)
    one.alter("slow", metrics="b.,a.,c.", interval_ms="3600000", match=f"client_instance_id={text_of(SLOW)}")
    one.alter("fast", metrics="*", interval_ms="100", match=f"client_instance_id={text_of(FAST)}")
    one.list()
    one.get(SLOW)
    one.get(SLOW)
    one.push(SLOW)
    one.push(SLOW)
    one.get(SLOW)
    one.push(SLOW, terminating=True)
    one.push(SLOW)
    one.get(SLOW)
    one.get(FAST)
    one.push(FAST, subscription_id=7)
    one.get(FAST)
    pause()
    one.push(FAST, compression_type=9)
    one.get(FAST)
    pause()
    one.push(FAST, b"\xff")
    pause()
    one.push(FAST)
    one.alter("fast", interval_ms="200")
    one.push(FAST)
    one.get(FAST)
    pause()
    pause()
    one.push(FAST)
    one.push(FAST, b"", terminating=True)
    one.alter("fast", interval_ms="3600000")
    one.push(FAST, subscription_id=7)
    one.get(FAST)
    one.alter("fast", metrics=None, interval_ms=None, match=None)
    one.alter("slow", metrics=None, interval_ms=None, match=None)
    one.list()
    one.get(FAST)
    one.push(NOBODY, subscription_id=0)
    one.get(NOBODY)
    return one.told


def pause() -> None:
    time.sleep(PAUSE_S)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    with LocalBroker() as broker, TakingPeer() as kafka:
        yield broker.bootstrap, kafka.bootstrap


def test_a_client_is_told_the_same(brokers: tuple[str, str]) -> None:
    told = []
    for bootstrap in brokers:
        with Wire(bootstrap) as wire:
            told.append(history(wire))
    ours, kafkas = told
    assert [(number, *pair) for number, pair in enumerate(zip(ours, kafkas, strict=True)) if pair[0] != pair[1]] == []
    names = {each if isinstance(each, str) else each[0] for each in ours if each}
    assert names >= {
        *("NONE", "THROTTLING_QUOTA_EXCEEDED", "UNKNOWN_SUBSCRIPTION_ID", "UNSUPPORTED_COMPRESSION_TYPE"),
        *("INVALID_RECORD", "INVALID_REQUEST"),
    }
