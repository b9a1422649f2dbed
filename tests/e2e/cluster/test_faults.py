"""What a real machine does to a node: it freezes, its disk is full, its network is silent, it dies again and again.

Each time an idempotent producer writes with acks=all, and the history is checked at the end: nothing acknowledged is
lost, nothing is there twice, no offset has changed its value; and no error has reached the producer.
"""

from __future__ import annotations

import gc
import random
import resource
import signal
import socket
import time
import warnings
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from e2e.cluster.history import (
    Writer,
    active_controller,
    check,
    create_topic,
    leaders_and_isr,
    wait_for_full_isr,
)
from support.processes import Cluster, wait_until
from support.silence import SilentNetwork

SHORT = {"broker_session_timeout_ms": 2000, "broker_heartbeat_interval_ms": 500, "replica_lag_time_max_ms": 3000}
STORM_S = 40.0
WRITTEN_BYTES = 256 * 1024


def others(cluster: Cluster, node: int) -> str:
    """The addresses of all nodes but one."""
    return ",".join(f"127.0.0.1:{cluster.ports[id_]}" for id_ in cluster.roles if id_ != node)


def written_bytes(node: Path) -> int:
    """The size of the partition's segment."""
    return sum(segment.stat().st_size for segment in node.glob("data-*/t-0/*.log"))


@pytest.mark.slow
def test_a_frozen_controller_is_replaced_and_finds_its_place_when_it_thaws(tmp_path: Path) -> None:
    with Cluster(tmp_path, min_insync_replicas=2, **SHORT) as cluster:
        create_topic(cluster.bootstrap, "t", 3, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            writer.wait_for_more()
            frozen = active_controller(cluster.bootstrap)
            cluster.signal(frozen, signal.SIGSTOP)
            try:
                rest = others(cluster, frozen)
                wait_until(
                    lambda: all(leader not in (frozen, -1) for leader, _ in leaders_and_isr(rest, "t").values()),
                    "another controller acts, and what the frozen node led is led by others",
                )
            finally:
                cluster.signal(frozen, signal.SIGCONT)
            writer.wait_for_more()
            wait_for_full_isr(rest, "t", 3)
        assert not writer.failed
        check(writer, cluster.bootstrap, 3)


@pytest.mark.slow
def test_a_disk_that_takes_no_more_costs_its_directory_and_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """The limit on the size of files stands for the disk: appends to the partition's segment fail, others do not."""
    with Cluster(tmp_path, min_insync_replicas=2, directories=2) as cluster:
        create_topic(cluster.bootstrap, "t", 1, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            leader = leaders_and_isr(cluster.bootstrap, "t")[0][0]
            wait_until(lambda: written_bytes(cluster.path(leader)) > WRITTEN_BYTES, "much is written")
            process = psutil.Process(cluster.processes[leader].pid)
            process.rlimit(resource.RLIMIT_FSIZE, (WRITTEN_BYTES, resource.RLIM_INFINITY))
            wait_until(lambda: leaders_and_isr(others(cluster, leader), "t")[0][0] != leader, "another node leads")
            writer.wait_for_more()
            assert process.is_running(), "it goes on with its other directory"
            assert "File too large" in cluster.log(leader)
            cluster.stop(leader)
            cluster.start(leader)
            cluster.wait_ready(leader)
            wait_for_full_isr(cluster.bootstrap, "t", 3)
        assert not writer.failed
        check(writer, cluster.bootstrap, 1)


@pytest.mark.slow
def test_a_controller_whose_connections_fell_silent_is_replaced(tmp_path: Path) -> None:
    """Half-open connections: no byte arrives at it, no connection breaks, and nobody is told."""
    with SilentNetwork() as network:

        def way(node: int, port: int) -> int:
            return network.port_to(str(node), port)

        with Cluster(tmp_path, min_insync_replicas=2, way=way, **SHORT) as cluster:
            create_topic(cluster.bootstrap, "t", 3, 3)
            with Writer(cluster.bootstrap, "t") as writer:
                writer.wait_for_more()
                silent = active_controller(cluster.bootstrap)
                network.silence(str(silent))
                rest = others(cluster, silent)
                wait_until(lambda: active_controller(rest) not in (silent, -1), "another controller acts")
                create_topic(rest, "meanwhile", 1, 2)
                writer.wait_for_more()
                network.speak()
                writer.wait_for_more()
                wait_for_full_isr(cluster.bootstrap, "t", 3)
            assert not writer.failed
            check(writer, cluster.bootstrap, 3)


@pytest.mark.long
def test_a_storm_of_kills(tmp_path: Path) -> None:
    """Nodes die at random, also two or three at once, and before they are in sync again."""
    chance = random.Random(4711)
    with Cluster(tmp_path, min_insync_replicas=2) as cluster:
        create_topic(cluster.bootstrap, "t", 3, 3)
        with Writer(cluster.bootstrap, "t") as writer:
            writer.wait_for_more()
            end_s = time.monotonic() + STORM_S
            kills = 0
            while time.monotonic() < end_s:
                victims = chance.sample(sorted(cluster.roles), chance.choice((1, 1, 1, 2, 3)))
                for victim in victims:
                    cluster.kill(victim)
                    kills += 1
                for victim in victims:
                    cluster.start(victim)
                writer_waits = chance.random() < 0.5
                if writer_waits:
                    writer.wait_for_more(20)
                else:
                    cluster.wait_ready(chance.choice(victims))
            cluster.wait_ready(*cluster.roles)
            wait_for_full_isr(cluster.bootstrap, "t", 3)
            writer.wait_for_more()
        assert kills > 5
        assert not writer.failed
        check(writer, cluster.bootstrap, 3)


def test_a_silent_network_leaves_no_connection_open_to_one_who_reads_no_more() -> None:
    """Warnings are errors: a transport that nobody closed would be one, in whichever test is running then."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        with SilentNetwork() as network:
            client = socket.create_connection(("127.0.0.1", network.port_to("a", server.getsockname()[1])))
            client.settimeout(0.5)
            with client, suppress(TimeoutError):
                while True:
                    client.send(bytes(1 << 16))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del network
            gc.collect()
        assert [each for each in caught if each.category is ResourceWarning] == []
