"""Replication throttles on nodes that replicate to each other."""

from __future__ import annotations

import pytest
from support.replicated import Cluster
from support.requests import batch, produce

from penstock.metadata.image import ConfigResource
from penstock.metadata.records import image_records
from penstock.protocol.messages.metadata.config_record import ConfigRecord

RATE = 10_000
RECORD_BYTES = 2_000


def set_config(cluster: Cluster, kind: int, resource: str, name: str, value: str | None) -> None:
    cluster.tell([ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)])


@pytest.fixture
def cluster() -> Cluster:
    """Replica 3 of `t` is new: it is not in sync, and all that the leader has is before it."""
    made = Cluster(3, replica_fetch_max_bytes=RECORD_BYTES + 200)
    made.kill(3)
    made.create("t", isr=(1, 2))
    client = made.client(1)
    for _ in range(40):
        client.send(produce("t", batch(b"x" * RECORD_BYTES)), 9)
        made.advance(10)
    return made


def throttle(cluster: Cluster, side: str, replicas: str) -> None:
    for node_id in (1, 2, 3):
        set_config(cluster, ConfigResource.BROKER, str(node_id), f"{side}.replication.throttled.rate", str(RATE))
    set_config(cluster, ConfigResource.TOPIC, "t", f"{side}.replication.throttled.replicas", replicas)


def come_back(cluster: Cluster) -> None:
    """Node 3 lives again, and knows what the others do."""
    cluster.dead.discard(3)
    image = cluster.nodes[1].broker.image
    cluster.nodes[3].learn(list(image_records(image)))


def end_offset(cluster: Cluster, node_id: int) -> int:
    log = cluster.nodes[node_id].broker.logs.open_log("t", 0)
    return 0 if log is None else log.log_end_offset


@pytest.mark.parametrize(("side", "replica"), [("leader", "0:1"), ("follower", "0:3"), ("leader", "*")])
def test_a_new_replica_comes_at_the_rate_of_the_throttle(cluster: Cluster, side: str, replica: str) -> None:
    throttle(cluster, side, replica)
    come_back(cluster)
    cluster.advance(4_000)
    assert 0.7 * RATE <= end_offset(cluster, 3) * RECORD_BYTES / 4 <= 1.6 * RATE
    set_config(cluster, ConfigResource.TOPIC, "t", f"{side}.replication.throttled.replicas", None)
    cluster.advance(1_500)
    assert end_offset(cluster, 3) == 40


@pytest.mark.parametrize(("side", "replica"), [("leader", "0:2"), ("follower", "0:1"), ("follower", "0:2")])
def test_replicas_that_are_not_named_are_not_held_back(cluster: Cluster, side: str, replica: str) -> None:
    throttle(cluster, side, replica)
    come_back(cluster)
    cluster.advance(1_000)
    assert end_offset(cluster, 3) == 40


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_who_is_in_sync_is_not_held_back(cluster: Cluster, side: str) -> None:
    throttle(cluster, side, "*")
    client = cluster.client(1)
    for _ in range(40):
        client.send(produce("t", batch(b"x" * RECORD_BYTES)), 9)
        cluster.advance(20)
    assert end_offset(cluster, 2) == 80


def test_a_throttled_follower_costs_the_leader_no_look_at_every_append(cluster: Cluster) -> None:
    throttle(cluster, "leader", "0:1")
    come_back(cluster)
    cluster.advance(2_000)
    node = cluster.nodes[1].broker
    before = node.fetches.looked_at
    client = cluster.client(1)
    for _ in range(50):
        client.send(produce("t", batch(b"y")), 9)
        cluster.advance(10)
    assert node.fetches.looked_at - before < 50 * 3 + 20
