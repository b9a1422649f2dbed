"""Kafka's tools find nothing strange in a cluster of both, whichever broker they ask."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from interop.clients.wire import Wire
from interop.mixed_cluster.nodes import BROKERS, CONTROLLER, PENSTOCKS, MixedCluster
from interop.tools.toolbox import (
    API_VERSIONS,
    CLIENT_METRICS,
    CLUSTER,
    CONFIGS,
    FEATURES,
    LEADER_ELECTION,
    LOG_DIRS,
    QUORUM,
    REASSIGN,
    TOPICS,
    Toolbox,
)
from support.heard import until_heard

from penstock.protocol.messages.get_telemetry_subscriptions_request import GetTelemetrySubscriptionsRequest

pytestmark = [pytest.mark.java, pytest.mark.slow]

Everywhere = Callable[..., str]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    with MixedCluster(tmp_path_factory.mktemp("mixed"), controllers=("kafka",), log_directories=2) as running:
        yield running


@pytest.fixture(scope="module")
def everywhere(cluster: MixedCluster) -> Iterator[Everywhere]:
    """Runs a tool with each broker as its bootstrap server, when all have heard of all; gives what all of them said."""
    with Toolbox() as tools:

        def run(tool: str, *arguments: object) -> str:
            until_heard(cluster.bootstrap)
            outcomes = [tools.run(tool, cluster.address(broker), *arguments) for broker in BROKERS]
            said = {(masked(outcome.out), masked(outcome.error), outcome.status) for outcome in outcomes}
            assert len(said) == 1, "\n---\n".join(map(str, sorted(said)))
            return said.pop()[0]

        yield run


def masked(text: str) -> str:
    """Without times, the metadata log's end, which moves by itself, and orders that are anybody's: of an ISR, and of
    brokers where their APIs are listed, which the tool keeps by their hash.
    """
    text = "".join(sorted(re.split(r"^(?=\S+:\d+ \(id: )", text, flags=re.MULTILINE)))
    text = re.sub(r"^\tat .*\n", "", text, flags=re.MULTILINE)
    text = re.sub(r"Isr: ([\d,]+)", lambda found: "Isr: " + ",".join(sorted(found[1].split(","))), text)
    text = re.sub(r"(?<=HighWatermark:)( +)\d+", r"\1(moves)", text)
    return re.sub(r"\[\d{4}-\d\d-\d\d[^\]]*\]", "", text)


def test_topics_with_all_filters(cluster: MixedCluster, everywhere: Everywhere) -> None:
    cluster.create_topic("seen", [[1, 2, 3], [2, 3, 1], [3, 1, 2]], min_insync_replicas=3, through=2)
    cluster.wait_until_in_sync("seen")
    assert everywhere(TOPICS, "--describe", "--topic", "seen").count("Leader: ") == 3
    assert everywhere(TOPICS, "--describe", "--under-replicated-partitions") == ""
    assert "seen" in everywhere(TOPICS, "--describe", "--at-min-isr-partitions")
    for broker in (3, 1):  # one of ours, and Kafka's
        cluster.stop_node(broker)
        others = [each for each in BROKERS if each != broker]
        cluster.wait_until(
            lambda: all(
                found.leader_id in others and len(found.isr_nodes) == 2  # noqa: B023
                for other in others  # noqa: B023
                for found in cluster.partitions("seen", through=other).values()
            ),
            f"broker {broker} is in no ISR",
        )
        cluster.start_node(broker)
        cluster.wait_until_in_sync("seen")


def test_a_reassignment_and_an_election(cluster: MixedCluster, everywhere: Everywhere, tmp_path: Path) -> None:
    cluster.create_topic("moving", [[1, 2], [2, 3]])
    cluster.wait_until_in_sync("moving")
    plan = tmp_path / "plan.json"
    entries = [
        {"topic": "moving", "partition": 0, "replicas": [3, 2]},
        {"topic": "moving", "partition": 1, "replicas": [1]},
    ]
    plan.write_text(json.dumps({"version": 1, "partitions": entries}))
    with Toolbox() as tools:
        execute = (REASSIGN, cluster.address(3), "--execute", "--reassignment-json-file", plan, "--throttle", 1_000_000)
        assert "Successfully started partition reassignments" in tools.run(*execute).out
        cluster.wait_until_in_sync("moving", {0: [3, 2], 1: [1]})
        verified = tools.run(REASSIGN, cluster.address(2), "--verify", "--reassignment-json-file", plan).out
        elect = (LEADER_ELECTION, cluster.address(2), "--election-type", "preferred", "--all-topic-partitions")
        assert tools.run(*elect).status == 0
    assert "Clearing broker-level throttles on brokers 1,2,3" in verified
    assert verified.count("is completed") == 2
    assert "throttled" not in everywhere(CONFIGS, "--describe", "--entity-type", "brokers")
    cluster.wait_until_in_sync("moving", leaders={0: 3, 1: 1})
    assert "No partition reassignments found" in everywhere(REASSIGN, "--list")


def test_the_quorum_and_the_levels(everywhere: Everywhere) -> None:
    status = everywhere(QUORUM, "describe", "--status")
    assert f"LeaderId:               {CONTROLLER}" in status
    endpoints = everywhere(CLUSTER, "list-endpoints")
    assert len(endpoints.splitlines()) == 1 + len(BROKERS)
    versions = everywhere(API_VERSIONS)
    assert versions.count("id: ") == len(BROKERS)


def test_the_finalized_levels_are_the_same_everywhere(cluster: MixedCluster) -> None:
    """What each supports is its own affair: one that it supports and that is not finalized stands there with 0."""
    with Toolbox() as tools:
        told = [tools.run(FEATURES, address, "describe").out for address in map(cluster.address, BROKERS)]
    rows = [re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\S+)", each) for each in told]
    finalized = [{name: level for name, level in row if level != "0"} for row in rows]
    assert finalized == [{"group.version": "1", "metadata.version": "4.3-IV0", "transaction.version": "2"}] * len(
        BROKERS
    )


def test_the_log_directories_of_all_brokers(cluster: MixedCluster, everywhere: Everywhere) -> None:
    cluster.create_topic("placed", [[1, 2, 3]] * 4)
    cluster.wait_until(
        lambda: all(
            cluster.partition_dir(broker, "placed", index).exists() for broker in BROKERS for index in range(4)
        ),
        "every replica has its directory",
    )
    said = everywhere(LOG_DIRS, "--describe", "--topic-list", "placed", "--broker-list", "1,2,3")
    brokers = {each["broker"]: each["logDirs"] for each in json.loads(said.splitlines()[-1])["brokers"]}
    assert {broker: len(found) for broker, found in brokers.items()} == {1: 1, 2: 2, 3: 2}
    for directories in brokers.values():
        assert all(each["error"] is None for each in directories)
        assert sum(len(each["partitions"]) for each in directories) == 4
        assert all(each["partitions"] for each in directories), "each directory has its share"


def test_client_metrics_subscriptions(cluster: MixedCluster, everywhere: Everywhere) -> None:
    """Kafka's controller keeps them, and our brokers ask clients for what they say."""
    everywhere(CLIENT_METRICS, "--alter", "--name", "latencies", "--metrics", "a.,b.", "--interval", 5000)
    assert everywhere(CLIENT_METRICS, "--list").split() == ["latencies"]
    assert "metrics=a.,b." in everywhere(CLIENT_METRICS, "--describe", "--name", "latencies")
    assert "interval.ms=5000" in everywhere(CONFIGS, "--describe", "--entity-type", "client-metrics")
    for broker in PENSTOCKS:
        with Wire(cluster.address(broker)) as wire:
            told = wire.ask(GetTelemetrySubscriptionsRequest(), 0)
        assert (sorted(told.requested_metrics), told.push_interval_ms) == (["a.", "b."], 5_000)
