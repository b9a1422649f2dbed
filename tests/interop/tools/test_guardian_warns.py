"""Guardian beside clusters of three nodes, of Penstock and of Apache Kafka, one of which is killed: what it warns of,
what it does, and what it leaves to people.
"""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.tools.three_nodes import KafkaCluster
from support.guardian_process import Guardian
from support.processes import Cluster, free_ports, wait_until
from support.three_nodes import three_racks

from penstock.cli.main import main
from penstock.client.admin import describe_topics
from penstock.client.client import Client

CONFIRM_S, DELAY_S = 3.0, 2.0
SESSION_S = 9.0
"""After that long without a heartbeat a broker is dead for its controller, in both kinds of cluster."""
SLACK_S = 10.0
"""Looks, votes, and a busy machine."""
SETTINGS = {
    "sample.interval.ms": "500",
    "alarm.confirm.ms": str(round(CONFIRM_S * 1000)),
    "heal.delay.ms": str(round(DELAY_S * 1000)),
    "canary.interval.ms": "500",
}
PARTITIONS = 9


@pytest.fixture
def guardian(tmp_path: Path) -> Iterator[Guardian]:
    found = Guardian(tmp_path, nodes=1, **SETTINGS)
    with found.file(1).open("a") as file:
        file.write(f"penstock.metrics.listener=127.0.0.1:{free_ports(1)[0]}\n")
    found.format()
    found.start(1)
    yield found
    for node_id in list(found.processes):
        found.kill(node_id)


def alarms(guardian: Guardian, **what: Any) -> list[dict[str, Any]]:
    """The alarms that have these values."""
    found: list[dict[str, Any]] = guardian.json("alarms", "--cluster", "clicks")["alarms"]
    return [each for each in found if all(each[name] == value for name, value in what.items())]


def until_alarm(guardian: Guardian, timeout_s: float, **what: Any) -> dict[str, Any]:
    """The alarm that has these values, once there is one."""
    wait_until(lambda: bool(alarms(guardian, **what)), f"an alarm with {what}", timeout_s)
    return alarms(guardian, **what)[0]


def replicas_of(cluster: Cluster | KafkaCluster) -> dict[int, int]:
    """How many replicas of the topic each broker has."""

    async def ask() -> dict[int, int]:
        async with Client(cluster.running) as client:
            (topic,) = await describe_topics(client, ["t"])
            return dict(Counter(broker for each in topic.partitions for broker in sorted(each.replica_nodes)))

    return asyncio.run(ask())


def check_canaries(guardian: Guardian, *brokers: int) -> None:
    """All of these brokers are measured, and only they."""
    address = guardian.file(1).read_text().rpartition("=")[2].strip()

    def measured() -> dict[int, float]:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=5) as answer:
            text = answer.read().decode()
        pattern = r'penstock_guardian_canary_seconds\{cluster="clicks",broker="(\d)",quantile="0.99"\} (\S+)'
        return {int(broker): float(seconds) for broker, seconds in re.findall(pattern, text)}

    wait_until(lambda: sorted(measured()) == list(brokers), "all brokers are measured", 20)
    assert all(0 < seconds < 2 for seconds in measured().values())
    print(f"canaries, p99 in s: {measured()}")


def check_warnings(guardian: Guardian, cluster: Cluster | KafkaCluster) -> None:
    """Kills node 3, and starts it again."""
    create = ["topics", "create", "t", "--partitions", str(PARTITIONS), "--replication-factor", "2"]
    assert main([*create, "--bootstrap", cluster.bootstrap]) == 0
    guardian.said("clusters", "add", "clicks", "--bootstrap", cluster.bootstrap)
    guardian.said("heal", "--cluster", "clicks", "advise")
    time.sleep(CONFIRM_S)
    assert not alarms(guardian), "nothing is wrong yet"
    check_canaries(guardian, 1, 2, 3)

    cluster.kill(3)
    began_s = time.monotonic()
    alarm = until_alarm(guardian, SESSION_S + CONFIRM_S + SLACK_S, kind="dead-broker", state="confirmed")
    took_s = time.monotonic() - began_s
    print(f"confirmed after {took_s:.1f} s")
    assert took_s > CONFIRM_S
    assert alarm["broker"] == 3
    assert "broker 3 does not answer Guardian" in " ".join(alarm["evidence"])
    plan = guardian.json("alarms", alarm["id"])["plan"]
    assert plan["moves"]
    for each in plan["partitions"]:
        assert 3 not in each["replicas"]
        assert len(set(each["replicas"])) == 2
    assert "alarm confirmed" in (guardian.directory / "node-1.log").read_text()
    assert "give its replicas to living brokers" in guardian.said("alarms", alarm["id"])

    cluster.start(3)
    cluster.wait_ready(3)
    over = until_alarm(guardian, SESSION_S + CONFIRM_S + 2 * SLACK_S, kind="dead-broker", state="recovered")
    assert over["id"] == alarm["id"]
    # its partitions are still led by others, until they have their preferred leaders again
    guardian.said("heal", "--cluster", "clicks", "on")
    patience_s = 3 * (CONFIRM_S + DELAY_S + SLACK_S)
    led = until_alarm(guardian, patience_s, kind="skewed-leaders", state="recovered", broker=3)
    assert led["heals"] == 1

    cluster.kill(3)
    healed = until_alarm(guardian, SESSION_S + patience_s, kind="dead-broker", state="recovered", heals=1)
    assert (healed["id"], healed["returns"]) == (alarm["id"], 1)
    assert healed["reason"] == "carried out by plan 1"
    wait_until(lambda: guardian.json("plans", "list")["plans"][0]["state"] == "done", "its plan is done", SLACK_S)
    assert guardian.json("alarms", alarm["id"])["plan"] is None
    assert replicas_of(cluster) == {1: PARTITIONS, 2: PARTITIONS}
    assert guardian.json("limits")["limits"] == [], "no throttle is left"
    wait_until(lambda: all(each["state"] == "recovered" for each in alarms(guardian)), "all is well", patience_s)


@pytest.mark.slow
def test_a_broker_of_penstock_dies_and_comes_back(guardian: Guardian, tmp_path: Path) -> None:
    with three_racks(tmp_path / "nodes", auto_leader_rebalance_enable="false") as cluster:
        check_warnings(guardian, cluster)


@pytest.mark.slow
@pytest.mark.java
def test_a_broker_of_kafka_dies_and_comes_back(guardian: Guardian, tmp_path: Path) -> None:
    with KafkaCluster(tmp_path / "nodes") as cluster:
        check_warnings(guardian, cluster)


@pytest.mark.slow
def test_a_dead_directory_of_a_broker_is_evacuated(guardian: Guardian, tmp_path: Path) -> None:
    """Its place is taken by a file, so that the broker comes back without it."""
    with Cluster(tmp_path / "nodes", directories=2) as cluster:
        create = ["topics", "create", "t", "--partitions", str(PARTITIONS), "--replication-factor", "2"]
        assert main([*create, "--bootstrap", cluster.bootstrap]) == 0
        guardian.said("clusters", "add", "clicks", "--kind", "penstock", "--bootstrap", cluster.bootstrap)
        dead = cluster.path(3) / "data-2"
        lying_there = len(list(dead.glob("t-*")))
        assert lying_there
        cluster.stop(3)
        dead.rename(cluster.path(3) / "gone")
        dead.write_text("")
        cluster.start(3)
        cluster.wait_ready(3)
        found = until_alarm(guardian, CONFIRM_S + 2 * SLACK_S, kind="dead-disk", state="confirmed")
        assert (found["broker"], found["dir"]) == (3, str(dead))
        plan = guardian.json("alarms", found["id"])["plan"]
        assert len(plan["moves"]) == lying_there
        guardian.said("heal", "--cluster", "clicks", "advise")
        guardian.said("heal", found["id"])
        healed = until_alarm(guardian, 3 * (CONFIRM_S + DELAY_S + SLACK_S), kind="dead-disk", state="acting")
        assert healed["id"] == found["id"]
        wait_until(lambda: guardian.json("plans", "list")["plans"][0]["state"] == "done", "its plan is done", 60)
        brokers = replicas_of(cluster)
        assert sum(brokers.values()) == 2 * PARTITIONS
        assert brokers[3] == len(list((cluster.path(3) / "data-1").glob("t-*")))


@pytest.mark.slow
def test_the_next_leader_of_guardian_goes_on_with_an_alarm(tmp_path: Path) -> None:
    """It is killed when a broker has been found dead. The broker is evacuated all the same, by one plan."""
    guardian = Guardian(tmp_path, nodes=3, **SETTINGS)
    guardian.format()
    for node_id in guardian.ports:
        guardian.start(node_id)
    try:
        with three_racks(tmp_path / "nodes") as cluster:
            create = ["topics", "create", "t", "--partitions", str(PARTITIONS), "--replication-factor", "2"]
            assert main([*create, "--bootstrap", cluster.bootstrap]) == 0
            guardian.said("clusters", "add", "clicks", "--kind", "penstock", "--bootstrap", cluster.bootstrap)
            time.sleep(2)
            cluster.kill(3)
            alarm = until_alarm(guardian, SESSION_S + CONFIRM_S + SLACK_S, kind="dead-broker", state="confirmed")
            leader_id = guardian.json("clusters", "list")["leader"]
            guardian.kill(leader_id)
            assert guardian.json("alarms", alarm["id"])["since_ms"] == alarm["since_ms"]
            guardian.said("heal", "--cluster", "clicks", "on")
            patience_s = 3 * (CONFIRM_S + DELAY_S + SLACK_S)
            healed = until_alarm(guardian, patience_s, kind="dead-broker", state="recovered")
            assert (healed["id"], healed["heals"]) == (alarm["id"], 1)
            assert guardian.json("clusters", "list")["leader"] != leader_id
            plans = guardian.json("plans", "list")["plans"]
            assert len(plans) == 1
            assert replicas_of(cluster) == {1: PARTITIONS, 2: PARTITIONS}
    finally:
        for node_id in list(guardian.processes):
            guardian.kill(node_id)
