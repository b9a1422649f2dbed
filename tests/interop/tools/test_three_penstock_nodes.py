"""Kafka's tools on three nodes of Penstock, in seconds; beside Apache Kafka's in the long tests."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from interop.kafka_peer import require_kafka
from interop.tools.toolbox import LEADER_ELECTION, QUORUM, REASSIGN, TOPICS, Toolbox
from support.heard import until_heard
from support.processes import Cluster, wait_until

pytestmark = pytest.mark.java


def test_a_cluster_as_its_operators_tools_see_it(three_nodes: Cluster, tmp_path: Path) -> None:
    require_kafka()
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps({"version": 1, "partitions": [{"topic": "seen", "partition": 0, "replicas": [3, 2]}]}))
    with Toolbox() as tools:

        def say(tool: str, *arguments: object) -> str:
            until_heard(three_nodes.running)
            return tools.run(tool, three_nodes.bootstrap, *arguments).out

        say(TOPICS, "--create", "--topic", "seen", "--replica-assignment", "1:2", "--config", "min.insync.replicas=2")
        assert say(TOPICS, "--describe", "--under-replicated-partitions") == ""
        assert "Partition: 0\tLeader: 1\tReplicas: 1,2" in say(TOPICS, "--describe", "--at-min-isr-partitions")
        assert say(QUORUM, "describe", "--replication").count("Follower") == 2
        assert "started partition reassignment for seen-0" in say(
            REASSIGN, "--execute", "--reassignment-json-file", plan
        )
        verify = (REASSIGN, "--verify", "--reassignment-json-file", plan)
        wait_until(lambda: "Reassignment of partition seen-0 is completed" in say(*verify), "the partition has moved")
        three_nodes.kill(3)
        try:
            lost = "\tLeader: 2\tReplicas: 3,2\tIsr: 2\t"
            wait_until(lambda: lost in say(TOPICS, "--describe", "--under-min-isr-partitions"), "the loss is noticed")
            assert lost in say(TOPICS, "--describe", "--under-replicated-partitions")
            assert say(TOPICS, "--describe", "--unavailable-partitions") == ""
        finally:
            three_nodes.start(3)
            three_nodes.wait_ready(3)
        wait_until(lambda: say(TOPICS, "--describe", "--under-replicated-partitions") == "", "all is in sync again")
        elected = say(LEADER_ELECTION, "--election-type", "preferred", "--topic", "seen", "--partition", 0)
        assert "Successfully completed leader election (PREFERRED) for partitions seen-0" in elected
