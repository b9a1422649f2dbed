"""Apache Kafka's controller and one of its brokers with two brokers of ours: one cluster, one log, byte for byte."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from interop.mixed_cluster.comparison import log_bytes, replicas_are_equal, sequences_are_whole
from interop.mixed_cluster.load import Load
from interop.mixed_cluster.nodes import BROKERS, CONTROLLER, KAFKA, METADATA, MixedCluster

from penstock.protocol.messages.update_features_request import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.records.batch import headers

pytestmark = pytest.mark.java

TOPIC = "moved"
KAFKAS = ("kafka",)
"""A controller that is a node of its own."""
CLEANING_INTERVAL_S = 60
"""Of Kafka's metadata log; there is no setting for it."""
RECORDS = 300
"""That are acknowledged between one change and the next."""
BATCHES_MIN = 20
LEADER_EPOCH_AT = 12
"""The leader epoch's place in a batch."""
LED_BY_EACH = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]


def more_is_acknowledged(cluster: MixedCluster, load: Load) -> None:
    """Every partition takes records, now."""
    before = load.acknowledged_counts()
    cluster.wait_until(
        lambda: all(now > then + RECORDS for now, then in zip(load.acknowledged_counts(), before, strict=True)),
        f"each partition acknowledges more, which had {before}",
    )


def all_is_equal(cluster: MixedCluster, load: Load) -> None:
    """Every replica of every partition holds the same bytes, with the producer's sequences whole."""
    for partition in range(len(LED_BY_EACH)):
        replicas = {broker: cluster.partition_dir(broker, TOPIC, partition) for broker in BROKERS}
        replicas_are_equal(replicas, BATCHES_MIN)
        sequences_are_whole(log_bytes(replicas[KAFKA]), load.records_written_twice(partition))


def a_changed_byte_is_found(cluster: MixedCluster, load: Load) -> None:
    """The same check fails when one replica, of either side, is changed in one byte that no checksum covers."""
    for broker in BROKERS:
        segment = cluster.segments(broker, TOPIC, 1)[-1]
        data = segment.read_bytes()
        *_, (last, _) = headers(data)
        at = last + LEADER_EPOCH_AT
        segment.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(AssertionError, match=f"byte {LEADER_EPOCH_AT} of the batch at"):
            all_is_equal(cluster, load)
        segment.write_bytes(data)
    all_is_equal(cluster, load)


def replicas_dump_equally(cluster: MixedCluster) -> None:
    """Kafka's tool finds the same batches and records in every replica, and nothing wrong with any."""
    for partition in range(len(LED_BY_EACH)):
        dumps = [cluster.dump(broker, TOPIC, partition) for broker in BROKERS]
        assert any("baseOffset: 0 " in line for line in dumps[0])
        assert not any("isvalid: false" in line for line in dumps[0])
        assert dumps[1] == dumps[0]
        assert dumps[2] == dumps[0]


@pytest.mark.slow
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
    all_is_equal(cluster, load)
    a_changed_byte_is_found(cluster, load)


@pytest.mark.slow
@pytest.mark.parametrize("metadata_version", [30, 25])
def test_partitions_move_there_and_back(tmp_path: Path, metadata_version: int) -> None:
    with MixedCluster(tmp_path, metadata_version=metadata_version, controllers=KAFKAS) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, segment_bytes=1 << 20)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        for turn in range(3):
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
    all_is_equal(cluster, load)
    replicas_dump_equally(cluster)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_every_node_stops_and_comes_back(tmp_path: Path, how: signal.Signals) -> None:
    """Also the controller: nobody misses it while nothing is to be decided."""
    settings = {"broker.session.timeout.ms": 3000, "broker.heartbeat.interval.ms": 500}
    with MixedCluster(tmp_path, controllers=KAFKAS, settings=settings) as cluster:
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
    all_is_equal(cluster, load)
    replicas_dump_equally(cluster)


@pytest.mark.slow
def test_a_broker_of_ours_with_an_empty_disk_begins_with_a_snapshot_of_kafkas(tmp_path: Path) -> None:
    """Of a dynamic quorum (kraft.version 1), whose log no longer has its beginning."""
    settings = {
        "metadata.log.max.record.bytes.between.snapshots": 500,
        "metadata.max.retention.bytes": 2000,
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
    }
    with MixedCluster(tmp_path, controllers=KAFKAS, dynamic=True, settings=settings) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
        assert set(cluster.observers()) == set(BROKERS)
        assert cluster.observers()[2] == cluster.directory_id(2)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        more_is_acknowledged(cluster, load)
        metadata = cluster.controllers[CONTROLLER].log_dirs[0] / f"{METADATA}-0"
        first = metadata / "00000000000000000000-0000000000.checkpoint"
        cluster.wait_until(lambda: not first.exists(), "the controller cleans its log", 2 * CLEANING_INTERVAL_S)
        cluster.stop_node(3)
        cluster.wipe_node(3)
        more_is_acknowledged(cluster, load)
        cluster.start_node(3)
        cluster.wait_until_in_sync(TOPIC)
        segments = sorted((cluster.penstocks[3].log_dirs[0] / f"{METADATA}-0").glob("*.log"))
        assert int(segments[0].stem) > 0, "its log begins where the snapshot ends"
        cluster.elect_preferred(TOPIC, range(3), through=3)
        cluster.wait_until_in_sync(TOPIC, leaders={0: 1, 1: 2, 2: 3})
        more_is_acknowledged(cluster, load)
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
    all_is_equal(cluster, load)


@pytest.mark.slow
def test_the_metadata_version_rises_under_load(tmp_path: Path) -> None:
    """From 25 to 30: the fetches of both sides change their version, and nobody stops."""
    with MixedCluster(tmp_path, metadata_version=25) as cluster:
        cluster.create_topic(TOPIC, LED_BY_EACH, min_insync_replicas=2)
        load = Load(cluster.bootstrap, TOPIC, range(3))
        load.start()
        for level in (27, 30):
            more_is_acknowledged(cluster, load)
            update = FeatureUpdateKey(feature="metadata.version", max_version_level=level)
            answer = cluster.ask(2, UpdateFeaturesRequest(feature_updates=[update]))
            assert answer.error_code == 0, answer
            cluster.wait_until(
                lambda: {cluster.finalized_level(each, "metadata.version") for each in BROKERS} == {level},  # noqa: B023
                f"all brokers know of metadata.version {level}",
            )
            more_is_acknowledged(cluster, load)
            cluster.wait_until_in_sync(TOPIC)
        load.finish()
        cluster.wait_until_in_sync(TOPIC)
    all_is_equal(cluster, load)
