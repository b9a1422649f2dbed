"""Subscriptions on three nodes: made at any of them, in force on all, also after a node has been away.

A client that asks one broker is understood by the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from interop.client_metrics.scraped import scrape
from interop.clients.wire import Wire
from support.otlp import gauge, metrics_data
from support.processes import Cluster, free_ports, wait_until

from penstock.errors import ErrorCode
from penstock.metadata.image import ConfigResource
from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest
from penstock.protocol.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from penstock.protocol.messages.push_telemetry_request import PushTelemetryRequest

pytestmark = pytest.mark.slow

NODES = (1, 2, 3)
NOBODY = UUID(int=0)
SERIES = "kafka_client_producer_request_latency_avg"
METRICS = metrics_data([gauge("org.apache.kafka.producer.request.latency.avg", 2.5)])


def test_any_node_makes_a_subscription_and_every_node_goes_by_it(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    scraped = dict(zip(NODES, free_ports(len(NODES)), strict=True))
    for id_, port in scraped.items():
        with cluster.file(id_).open("a") as file:
            file.write(f"penstock.metrics.listener=127.0.0.1:{port}\n")
    with cluster:
        addresses = {id_: f"127.0.0.1:{cluster.ports[id_]}" for id_ in NODES}
        for maker in NODES:
            metrics = f"org.apache.kafka.producer.,m{maker}."
            subscribe(addresses[maker], metrics)
            for id_ in NODES:
                wait_until(lambda id_=id_, metrics=metrics: asked(addresses[id_], metrics), f"node {id_} knows it")
        with Wire(addresses[1]) as first, Wire(addresses[2]) as second:
            told = told_by(first, NOBODY)
            pushed = PushTelemetryRequest(
                client_instance_id=told.client_instance_id, subscription_id=told.subscription_id, metrics=METRICS
            )
            assert second.ask(pushed, 0).error_code == ErrorCode.NONE, "the other broker has the same subscription id"
            assert told_by(second, told.client_instance_id).error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        found = {id_: [each for each in scrape(f"127.0.0.1:{scraped[id_]}") if each.name == SERIES] for id_ in NODES}
        assert [len(found[id_]) for id_ in NODES] == [0, 1, 0], "it is at the broker that it was pushed to"
        cluster.stop(3)
        subscribe(addresses[1], "after.")
        cluster.start(3)
        cluster.wait_ready(3)
        wait_until(lambda: asked(addresses[3], "after."), "the node that was away knows it")


def subscribe(address: str, metrics: str) -> None:
    wanted = {"metrics": metrics, "interval.ms": "9000"}
    configs = [AlterableConfig(name=name, value=value) for name, value in wanted.items()]
    kind = ConfigResource.CLIENT_METRICS
    resource = AlterConfigsResource(resource_type=kind, resource_name="producers", configs=configs)
    with Wire(address) as wire:
        [answer] = wire.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    assert answer.error_code == ErrorCode.NONE, answer.error_message


def told_by(wire: Wire, instance_id: UUID) -> Any:
    return wire.ask(GetTelemetrySubscriptionsRequest(client_instance_id=instance_id), 0)


def asked(address: str, metrics: str) -> bool:
    """Whether that broker asks a new client for these metrics."""
    with Wire(address) as wire:
        return sorted(told_by(wire, NOBODY).requested_metrics) == sorted(metrics.split(","))
