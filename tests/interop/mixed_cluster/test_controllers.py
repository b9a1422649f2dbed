"""Several controllers decide for brokers of both: Apache Kafka's, ours, and some of each in one quorum."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from interop.mixed_cluster.load import Load
from interop.mixed_cluster.nodes import BROKERS, PENSTOCKS, MixedCluster
from interop.mixed_cluster.test_mixed_cluster import LED_BY_EACH, TOPIC, all_is_equal, more_is_acknowledged

pytestmark = [pytest.mark.java, pytest.mark.slow]

SETTINGS = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
QUORUMS = {
    "three of Kafka": ("kafka", "kafka", "kafka"),
    "one of ours": ("penstock",),
    "three of ours": ("penstock", "penstock", "penstock"),
    "two of Kafka, one of ours": ("kafka", "penstock", "kafka"),
    "one of Kafka, two of ours": ("penstock", "kafka", "penstock"),
}


@pytest.mark.parametrize(
    "quorum", [pytest.param(each, marks=pytest.mark.long) if number else each for number, each in enumerate(QUORUMS)]
)
def test_the_active_controller_dies_and_the_next_goes_on(tmp_path: Path, quorum: str) -> None:
    """Three times, while partitions are written; the brokers of ours have two log directories each."""
    with MixedCluster(tmp_path, controllers=QUORUMS[quorum], settings=SETTINGS, log_directories=2) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        more_is_acknowledged(cluster, load)
        for turn, how in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
            leader = cluster.leader()
            cluster.stop_node(leader, how)
            more_is_acknowledged(cluster, load)
            if len(cluster.controllers) == 1:
                cluster.start_node(leader)
            cluster.wait_until_there_is_a_leader()
            cluster.create_topic(f"made-{turn}", [[1, 2, 3]], through=BROKERS[turn])
            wanted = {index: LED_BY_EACH[(index + turn + 1) % 3] for index in range(3)}
            cluster.reassign(TOPIC, wanted, through=BROKERS[(turn + 1) % 3])
            cluster.elect_preferred(TOPIC, range(3), through=BROKERS[(turn + 2) % 3])
            cluster.wait_until_in_sync(TOPIC, wanted, {index: each[0] for index, each in wanted.items()})
            more_is_acknowledged(cluster, load)
            if len(cluster.controllers) > 1:
                cluster.start_node(leader)
            cluster.wait_until_voters_follow()
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
        for broker in PENSTOCKS:
            used = {cluster.partition_dir(broker, TOPIC, partition).parent for partition in range(3)}
            assert used == set(cluster.penstocks[broker].log_dirs)
    all_is_equal(cluster, load)


@pytest.mark.parametrize("kinds", [("kafka", "penstock"), ("penstock", "kafka")], ids=" to ".join)
def test_the_voters_are_exchanged_one_by_one(tmp_path: Path, kinds: tuple[str, str]) -> None:
    """A dynamic quorum of one kind becomes one of the other, while partitions are written."""
    before, after = kinds
    with MixedCluster(tmp_path, controllers=(before, after, after), dynamic=True, settings=SETTINGS) as cluster:
        old, *new = cluster.controllers
        cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        more_is_acknowledged(cluster, load)
        for turn, node_id in enumerate(new):
            cluster.add_voter(node_id, through=BROKERS[turn])
            more_is_acknowledged(cluster, load)
        assert cluster.voters() == {old, *new}
        cluster.remove_voter(old, through=3)
        cluster.wait_until_there_is_a_leader()
        cluster.wait_until(lambda: cluster.voters() == set(new), "the first controller votes no more")
        assert cluster.leader() in new
        cluster.stop_node(old)
        cluster.wait_until_there_is_a_leader()
        cluster.create_topic("made", [[1, 2, 3]], through=1)
        wanted = dict(enumerate(reversed(LED_BY_EACH)))
        cluster.reassign(TOPIC, wanted, through=2)
        cluster.elect_preferred(TOPIC, range(3), through=3)
        cluster.wait_until_in_sync(TOPIC, wanted, {index: each[0] for index, each in wanted.items()})
        more_is_acknowledged(cluster, load)
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
    all_is_equal(cluster, load)
