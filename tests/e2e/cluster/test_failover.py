"""Real nodes die, freeze, stop and come back while an idempotent producer writes with acks=all."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from e2e.cluster.history import Writer, check, create_topic, leaders_and_isr, wait_for_full_isr
from support.processes import PENSTOCK, TIMEOUT_S, Cluster, wait_until

PARTITIONS = 3


def others_lead(cluster: Cluster, node: int) -> None:
    """Waits until the broker that is asked has heard that the node leads nothing any more."""
    wait_until(
        lambda: node not in {leader for leader, _ in leaders_and_isr(cluster.bootstrap, "t").values()},
        f"node {node} leads nothing",
    )


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_when_nodes_are_killed_one_after_the_other(tmp_path: Path) -> None:
    with Cluster(tmp_path, min_insync_replicas=2) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            for victim in (1, 2, 3):
                writer.wait_for_more()
                cluster.kill(victim)
                writer.wait_for_more()
                others_lead(cluster, victim)
                cluster.start(victim)
                cluster.wait_ready(victim)
                wait_for_full_isr(cluster.bootstrap, "t", 3)
            writer.wait_for_more()
        assert not writer.failed
        check(writer, cluster.bootstrap, PARTITIONS)


@pytest.mark.slow
def test_a_rolling_restart_shows_no_error_and_leaves_everything_in_sync(tmp_path: Path) -> None:
    with Cluster(tmp_path, min_insync_replicas=2) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            for node in (1, 2, 3):
                writer.wait_for_more()
                cluster.stop(node)
                writer.wait_for_more()
                cluster.start(node)
                cluster.wait_ready(node)
                wait_for_full_isr(cluster.bootstrap, "t", 3)
        assert not writer.failed
        check(writer, cluster.bootstrap, PARTITIONS)


@pytest.mark.slow
def test_a_frozen_leader_is_replaced_and_finds_its_place_when_it_thaws(tmp_path: Path) -> None:
    timeouts = {"broker_session_timeout_ms": 2000, "broker_heartbeat_interval_ms": 500, "replica_lag_time_max_ms": 3000}
    with Cluster(tmp_path, min_insync_replicas=2, **timeouts) as cluster:
        create_topic(cluster.bootstrap, "t", 1, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            writer.wait_for_more()
            leader = leaders_and_isr(cluster.bootstrap, "t")[0][0]
            others = ",".join(f"127.0.0.1:{cluster.ports[id_]}" for id_ in cluster.roles if id_ != leader)
            cluster.signal(leader, signal.SIGSTOP)
            try:
                wait_until(lambda: leaders_and_isr(others, "t")[0][0] not in (leader, -1), "another node leads")
            finally:
                cluster.signal(leader, signal.SIGCONT)
            writer.wait_for_more()
            wait_for_full_isr(others, "t", 3)
        assert not writer.failed
        check(writer, cluster.bootstrap, 1)


@pytest.mark.slow
def test_the_whole_cluster_dies_at_once_and_comes_back(tmp_path: Path) -> None:
    with Cluster(tmp_path, min_insync_replicas=2) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            writer.wait_for_more()
            for node in (1, 2, 3):
                cluster.kill(node)
            for node in (1, 2, 3):
                cluster.start(node)
            cluster.wait_ready(1, 2, 3)
            wait_for_full_isr(cluster.bootstrap, "t", 3)
            writer.wait_for_more()
        assert not writer.failed
        check(writer, cluster.bootstrap, PARTITIONS)


@pytest.mark.slow
def test_controllers_and_brokers_in_processes_of_their_own(tmp_path: Path) -> None:
    with Cluster(tmp_path, 0, controllers=3, brokers=2) as cluster:
        create_topic(cluster.bootstrap, "t", PARTITIONS, 2)
        with Writer(cluster.bootstrap, "t") as writer:
            for victim in cluster.nodes("controller"):
                writer.wait_for_more()
                cluster.kill(victim)
                create_topic(cluster.bootstrap, f"after-{victim}", 1, 2)
                cluster.start(victim)
                cluster.wait_ready(victim)
        assert not writer.failed
        check(writer, cluster.bootstrap, PARTITIONS)


def test_one_command_runs_three_nodes(tmp_path: Path) -> None:
    command = [*PENSTOCK, "dev", "--brokers", "3", "--port", "0", "--data", str(tmp_path), "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = json.loads(process.stdout.readline())
            create_topic(found["bootstrap"], "t", PARTITIONS, 3)
            wait_for_full_isr(found["bootstrap"], "t", 3)
            with Writer(found["bootstrap"], "t") as writer:
                writer.wait_for_more()
            check(writer, found["bootstrap"], PARTITIONS)
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_S) == 0
        finally:
            if process.poll() is None:
                process.kill()
    for pid in found["pids"]:
        wait_until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"), f"process {pid} has ended")  # type: ignore[misc]
