"""The leader looks at clusters: what it sees of them, and what it does not believe."""

from __future__ import annotations

from support.fake_clusters import DISK_BYTES, WALL_MS, FakeClusters

from penstock.guardian.core.sight import DISKS, METADATA, REASSIGNMENTS, SETTINGS, SeenPartition, of_broker
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

TOPICS = {"a": [[1, 2], [2, 3]], "b": [[3, 1]]}


def test_a_cluster_is_seen_at_once_and_again() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS, min_insync={"a": "2"}, changing={("a", 1): ([1], [3])})
    world.run(100)
    seen = world.sight("clicks")
    assert (seen.kafka_id, seen.controller) == ("id-clicks", 1)
    assert [(each.host, each.rack) for each in seen.brokers.values()] == [("b1", "r1"), ("b2", "r0"), ("b3", "r1")]
    assert seen.partition("a", 1) == SeenPartition("a", 1, 2, 1, (2, 3), (2, 3), (1,), (3,))
    assert seen.partition("a", 2) is None
    assert {name: each.min_insync_replicas for name, each in seen.topics.items()} == {"a": 2, "b": 1}
    assert seen.disks[2, "/data/0"].capacity_bytes == DISK_BYTES
    assert seen.replicas["b", 0, 3].size_bytes == 100
    assert sorted(seen.replicas) == [("a", 0, 1), ("a", 0, 2), ("a", 1, 2), ("a", 1, 3), ("b", 0, 1), ("b", 0, 3)]
    assert seen.failures == {}
    for part in (METADATA, REASSIGNMENTS, DISKS, SETTINGS, of_broker(DISKS, 2)):
        assert WALL_MS <= seen.seen_ms[part] <= WALL_MS + 100
    same = seen.topics["b"], seen.replicas["b", 0, 3]
    cluster.topics["c"] = [[1]]
    cluster.sizes["a", 0] = 7
    world.run(10_000)
    assert seen.replicas["a", 0, 1].size_bytes == 7
    assert seen.topics["c"].min_insync_replicas == 1
    assert (seen.topics["b"], seen.replicas["b", 0, 3]) == same
    assert seen.topics["b"] is same[0]
    assert seen.replicas["b", 0, 3] is same[1], "what has not changed stays the same object"


def test_a_broker_that_is_silent_holds_up_nothing_else() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    other = world.add("other", topics=TOPICS)
    cluster.lies[DescribeLogDirsRequest, 2] = lambda answer: None
    world.run(60_000)
    seen = world.sight("clicks")
    assert "no answer" in seen.failures[of_broker(DISKS, 2)]
    assert DISKS not in seen.seen_ms
    assert seen.seen_ms[of_broker(DISKS, 1)] >= WALL_MS + 50_000
    assert seen.seen_ms[METADATA] >= WALL_MS + 50_000
    assert world.sight("other").failures == {}
    for each in (cluster, other):
        looks = [at_ms for name, broker, at_ms in each.asked if (name, broker) == ("DescribeLogDirsRequest", 1)]
        assert len(looks) >= 6
    assert world.most_under_way < 12


def test_only_a_leader_with_the_lease_looks_and_who_does_not_lead_forgets() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    world.lease = False
    world.run(20_000)
    assert cluster.asked == []
    world.lease = True
    world.run(200)
    assert world.sight("clicks").topics
    world.leads = False
    world.run(1_000)
    assert world.seen.clusters == {}
    asked = len(cluster.asked)
    world.run(30_000)
    assert len(cluster.asked) == asked
    world.leads = True
    world.run(100)
    assert world.sight("clicks").topics, "a new leader looks at once"


def test_a_cluster_that_is_removed_leaves_the_sight() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    world.add("other", topics=TOPICS)
    world.run(100)
    world.remove("clicks")
    world.run(100)
    assert list(world.seen.clusters) == [world.names["other"]]
    asked = len(cluster.asked)
    world.run(30_000)
    assert len(cluster.asked) == asked


def test_two_registrations_of_one_cluster_are_told_and_the_later_is_not_looked_at() -> None:
    world = FakeClusters()
    world.add("first", topics=TOPICS, kafka_id="same")
    later = world.add("later", topics=TOPICS, kafka_id="same")
    world.run(30_000)
    seen = world.sight("later")
    assert seen.twice
    assert "registered as first" in seen.failures["identity"]
    assert (seen.brokers, seen.topics, seen.disks, seen.replicas) == ({}, {}, {}, {})
    assert not world.sight("first").twice
    assert {name for name, _, at_ms in later.asked if at_ms > 5_000} == {"MetadataRequest"}
    world.remove("first")
    world.run(11_000)
    assert not seen.twice
    assert seen.topics
    assert seen.replicas
