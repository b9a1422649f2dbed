"""Kafka's ReassignPartitionsCommand and LogDirsCommand on three nodes with two log directories each: partitions move
between brokers and between directories, throttled, while they are written.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.history import Writer
from interop.kafka_peer import require_kafka
from interop.tools.toolbox import CONFIGS, LOG_DIRS, OFFSETS, PERFORMANCE, REASSIGN, TOPICS, Toolbox
from interop.tools.two_directories import directory, formatted
from support.heard import until_heard
from support.processes import Cluster, wait_until

pytestmark = pytest.mark.java

RECORDS, RECORD_BYTES = 8_000, 1_000
SIZE_BYTES = RECORDS * RECORD_BYTES
SLOW, FAST = 100_000, 500_000_000
"""Bytes a second: with the first a move takes longer than what is looked at meanwhile, also on a slow machine."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with formatted(tmp_path_factory.mktemp("directories")) as made:
        yield made


@pytest.fixture(scope="module")
def tools() -> Iterator[Toolbox]:
    require_kafka()
    with Toolbox() as toolbox:
        yield toolbox


class Bench:
    """A topic with records, and words for what tests do to it."""

    def __init__(self, cluster: Cluster, tools: Toolbox, plan: Path, topic: str, assignment: str, *more: str) -> None:
        self.cluster, self.tools, self.plan, self.topic = cluster, tools, plan, topic
        self.say(TOPICS, "--create", "--topic", topic, "--replica-assignment", assignment, *more)
        load = ("--topic", topic, "--num-records", RECORDS, "--record-size", RECORD_BYTES, "--throughput", -1)
        assert f"{RECORDS} records sent" in self.say(PERFORMANCE, *load)

    def say(self, tool: str, *arguments: object) -> str:
        until_heard(self.cluster.bootstrap)
        return self.tools.run(tool, self.cluster.bootstrap, *arguments).out

    def reassign(self, replicas: list[int], directories: list[str], *arguments: object) -> str:
        entry = {"topic": self.topic, "partition": 0, "replicas": replicas, "log_dirs": directories}
        self.plan.write_text(json.dumps({"version": 1, "partitions": [entry]}))
        return self.say(REASSIGN, "--execute", "--reassignment-json-file", self.plan, *arguments)

    def verify(self, *arguments: object) -> str:
        return self.say(REASSIGN, "--verify", "--reassignment-json-file", self.plan, *arguments)

    def where(self, node_id: int) -> list[dict[str, Any]]:
        """The partition's replicas on a broker, with their directories."""
        wanted = ("--describe", "--broker-list", node_id, "--topic-list", self.topic)
        (broker,) = json.loads(self.say(LOG_DIRS, *wanted).splitlines()[-1])["brokers"]
        return [{**found, "in": each["logDir"]} for each in broker["logDirs"] for found in each["partitions"]]

    def configs(self, kind: str, name: object) -> str:
        return self.say(CONFIGS, "--describe", "--entity-type", kind, "--entity-name", name)


def test_a_throttled_reassignment_from_its_beginning_to_its_end(
    cluster: Cluster, tools: Toolbox, tmp_path: Path
) -> None:
    bench = Bench(cluster, tools, tmp_path / "plan.json", "moved", "1:2")
    target = str(directory(cluster, 3, 1))
    assert "Successfully started" in bench.reassign([3, 2], [target, "any"], "--throttle", SLOW)
    assert f"follower.replication.throttled.rate={SLOW}" in bench.configs("brokers", 3)
    assert f"leader.replication.throttled.rate={SLOW}" in bench.configs("brokers", 1)
    assert "leader.replication.throttled.replicas=0:1,0:2" in bench.configs("topics", "moved")
    assert "follower.replication.throttled.replicas=0:3" in bench.configs("topics", "moved")
    assert "is still in progress" in bench.verify()
    assert sum(found["size"] for found in bench.where(3)) < SIZE_BYTES
    assert "The inter-broker throttle limit was set" in bench.reassign(
        [3, 2], [target, "any"], "--additional", "--throttle", FAST
    )
    wait_until(lambda: "Reassignment of partition moved-0 is completed" in bench.verify(), "the partition has moved")
    assert "throttled" not in bench.configs("topics", "moved")
    assert "throttled" not in bench.configs("brokers", 1)
    (found,) = bench.where(3)
    assert found["in"] == target
    assert found["size"] >= SIZE_BYTES
    wait_until(lambda: bench.where(1) == [], "what moved away is gone")
    assert f"moved:0:{RECORDS}" in bench.say(OFFSETS, "--topic", "moved")


def test_a_replica_moves_between_directories_while_it_is_written(
    cluster: Cluster, tools: Toolbox, tmp_path: Path
) -> None:
    segments = ("--config", "segment.bytes=1048576")  # most of it is in closed ones, which are copied as files
    bench = Bench(cluster, tools, tmp_path / "plan.json", "shifted", "1:2", *segments)
    (before,) = bench.where(1)
    target = str(directory(cluster, 1, 0 if before["in"].endswith("more") else 1))
    with Writer(cluster.bootstrap, "shifted") as writer:
        writer.wait_for_more()
        started = bench.reassign([1, 2], [target, "any"], "--replica-alter-log-dirs-throttle", SLOW)
        assert f"Successfully started moving log directory to {target} for replica shifted-0 with broker 1" in started
        (future,) = (found for found in bench.where(1) if found["isFuture"])
        assert future["in"] == target
        wait_until(  # -1 while the new log is being opened
            lambda: any(found["offsetLag"] > 0 for found in bench.where(1) if found["isFuture"]), "how far it is behind"
        )
        assert "Reassignment of replica shifted-0-1 is still in progress" in bench.verify()
        bench.reassign([1, 2], [target, "any"], "--additional", "--replica-alter-log-dirs-throttle", FAST)
        done = "Reassignment of replica shifted-0-1 completed successfully"
        wait_until(lambda: done in bench.verify(), "the replica has moved")
        writer.wait_for_more()
    assert not writer.failed
    (after,) = bench.where(1)
    assert after["in"] == target
    assert not after["isFuture"]
    assert "io.max.bytes" not in bench.configs("brokers", 1)
    assert f"shifted:0:{RECORDS + len(writer.acknowledged)}" in bench.say(OFFSETS, "--topic", "shifted")
    assert bench.say(TOPICS, "--describe", "--under-replicated-partitions") == ""


@pytest.mark.slow
def test_a_move_goes_on_after_the_broker_was_killed(cluster: Cluster, tools: Toolbox, tmp_path: Path) -> None:
    bench = Bench(cluster, tools, tmp_path / "plan.json", "interrupted", "3:2")
    (before,) = bench.where(3)
    target = str(directory(cluster, 3, 0 if before["in"].endswith("more") else 1))
    bench.reassign([3, 2], [target, "any"], "--replica-alter-log-dirs-throttle", SLOW)
    assert any(found["isFuture"] for found in bench.where(3))
    cluster.kill(3)
    cluster.start(3)
    cluster.wait_ready(3)
    bench.reassign([3, 2], [target, "any"], "--additional", "--replica-alter-log-dirs-throttle", FAST)
    done = "Reassignment of replica interrupted-0-3 completed successfully"
    wait_until(lambda: done in bench.verify(), "the replica has moved")
    (after,) = bench.where(3)
    assert after["in"] == target
    assert f"interrupted:0:{RECORDS}" in bench.say(OFFSETS, "--topic", "interrupted")
