"""Apache Kafka's controller and one of its brokers with two brokers of ours: one cluster, one log, byte for byte."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from interop.mixed_cluster.load import Load
from interop.mixed_cluster.nodes import BROKERS, CONTROLLER, KAFKA, MixedCluster

pytestmark = pytest.mark.java

TOPIC = "moved"
RECORDS = 300
"""That are acknowledged between one change and the next."""
LED_BY_EACH = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def more_is_acknowledged(cluster: MixedCluster, load: Load) -> None:
    """Every partition takes records, now."""
    before = load.acknowledged_counts()
    cluster.wait_until(
        lambda: all(now > then + RECORDS for now, then in zip(load.acknowledged_counts(), before, strict=True)),
        f"each partition acknowledges more, which had {before}",
    )


def replicas_are_equal(cluster: MixedCluster, load: Load) -> None:
    """Every replica of every partition holds the same bytes."""
    for partition in range(len(LED_BY_EACH)):
        logs = {broker: cluster.log_bytes(broker, TOPIC, partition) for broker in BROKERS}
        assert len(logs[KAFKA]) > len(load.acknowledged[partition]), "there is something to compare"
        assert logs[2] == logs[KAFKA], partition
        assert logs[3] == logs[KAFKA], partition


def replicas_dump_equally(cluster: MixedCluster) -> None:
    """Kafka's tool finds the same batches and records in every replica, and nothing wrong with any."""
    for partition in range(len(LED_BY_EACH)):
        dumps = [cluster.dump(broker, TOPIC, partition) for broker in BROKERS]
        assert any("baseOffset: 0 " in line for line in dumps[0])
        assert not any("isvalid: false" in line for line in dumps[0])
        assert dumps[1] == dumps[0]
        assert dumps[2] == dumps[0]


def test_brokers_of_both_replicate_to_each_other(tmp_path: Path) -> None:
    with MixedCluster(tmp_path) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, through=2, min_insync_replicas=2)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        more_is_acknowledged(cluster, load)
        cluster.reassign(TOPIC, {0: [2, 3, 1], 1: [3, 1, 2], 2: [1, 2, 3]}, through=3)
        cluster.elect_preferred(TOPIC, range(3), through=2)
        cluster.wait_until_in_sync(TOPIC, leaders={0: 2, 1: 3, 2: 1})
        more_is_acknowledged(cluster, load)
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
    replicas_are_equal(cluster, load)


@pytest.mark.slow
@pytest.mark.parametrize("metadata_version", [30, 25])
def test_partitions_move_there_and_back(tmp_path: Path, metadata_version: int) -> None:
    with MixedCluster(tmp_path, metadata_version=metadata_version, separate=True) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, segment_bytes=1 << 20)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        for turn in range(6):
            alone = [[turn % 3 + 1], [(turn + 1) % 3 + 1], [(turn + 2) % 3 + 1]]
            pairs = [[each, each % 3 + 1] for (each,) in alone]
            backwards = [list(reversed(LED_BY_EACH[(turn + index) % 3])) for index in range(3)]
            for replicas in (alone, pairs, backwards, LED_BY_EACH):
                wanted = dict(enumerate(replicas))
                cluster.reassign(TOPIC, wanted, through=BROKERS[turn % 3])
                cluster.wait_until_in_sync(TOPIC, wanted)
                cluster.elect_preferred(TOPIC, range(3), through=BROKERS[(turn + 1) % 3])
                cluster.wait_until_in_sync(TOPIC, wanted, {index: each[0] for index, each in wanted.items()})
                more_is_acknowledged(cluster, load)
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
    replicas_are_equal(cluster, load)
    replicas_dump_equally(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_every_node_stops_and_comes_back(tmp_path: Path, how: signal.Signals) -> None:
    """Also the controller: nobody misses it while nothing is to be decided."""
    settings = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
    with MixedCluster(tmp_path, separate=True, settings=settings) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        for node_id in (*BROKERS, CONTROLLER, *BROKERS):
            more_is_acknowledged(cluster, load)
            cluster.stop_node(node_id, how)
            if node_id != CONTROLLER:
                cluster.wait_until(lambda: cluster.leads_nothing(TOPIC, node_id), f"{node_id} leads nothing")  # noqa: B023
            more_is_acknowledged(cluster, load)
            cluster.start_node(node_id)
            more_is_acknowledged(cluster, load)
            cluster.wait_until_in_sync(TOPIC)
            cluster.elect_preferred(TOPIC, range(3))
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
    replicas_are_equal(cluster, load)
    replicas_dump_equally(cluster)
