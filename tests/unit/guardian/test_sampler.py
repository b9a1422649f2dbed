"""The leader looks at clusters: what it sees of them, and what it does not believe."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random
from typing import Any

import pytest
from support.fake_clusters import DISK_BYTES, WALL_MS, FakeClusters

from penstock.errors import ErrorCode
from penstock.guardian.core import look_at_disks, look_at_metadata, look_at_settings, looks
from penstock.guardian.core.reach import ANY
from penstock.guardian.core.sight import (
    DISKS,
    METADATA,
    REASSIGNMENTS,
    SETTINGS,
    ClusterSight,
    SeenPartition,
    of_broker,
)
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest
from penstock.protocol.messages.describe_configs_response import DescribeConfigsResponse
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from penstock.protocol.messages.list_offsets_request import ListOffsetsRequest
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import MetadataResponse, MetadataResponsePartition

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
        begun = [at_ms for name, broker, at_ms in each.asked if (name, broker) == ("DescribeLogDirsRequest", 1)]
        assert len(begun) >= 6
    assert world.most_under_way < 12


def test_a_broker_is_never_asked_again_before_it_has_answered_or_time_is_up() -> None:
    world = FakeClusters(interval_ms=500)
    cluster = world.add("clicks", topics=TOPICS)
    cluster.lies[DescribeLogDirsRequest, 2] = lambda answer: None
    world.run(30_000)
    asked = [name for name, broker, _ in cluster.asked if (name, broker) == ("DescribeLogDirsRequest", 2)]
    assert len(asked) <= 30_000 // looks.TIMEOUT_MS + 1


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


def lied(world: FakeClusters, milliseconds: int = 11_000) -> ClusterSight:
    world.run(milliseconds)
    return world.sight("clicks")


def partition_of(answer: MetadataResponse, topic: str, index: int) -> MetadataResponsePartition:
    return next(each for each in answer.topics if each.name == topic).partitions[index]


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("replica_nodes", [1, 1], "the replicas of partition 0 are [1, 1]"),
        ("replica_nodes", [], "the replicas of partition 0 are []"),
        ("replica_nodes", [-4, 2], "[-4, 2]"),
        ("isr_nodes", [9], "[9] are in sync of the replicas [1, 2]"),
        ("leader_id", 3, "broker 3 leads partition 0, whose replicas are [1, 2]"),
        ("partition_index", 7, "not numbered from 0"),
    ],
)
def test_a_topic_that_cannot_be_is_absent_and_told(field: str, value: Any, told: str) -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)

    def lie(answer: MetadataResponse) -> MetadataResponse:
        setattr(partition_of(answer, "a", 0), field, value)
        return answer

    cluster.lies[MetadataRequest, ANY] = lie
    seen = lied(world)
    assert list(seen.topics) == ["b"]
    assert told in seen.failures[METADATA]
    assert "topic a:" in seen.failures[METADATA]
    cluster.lies.clear()
    seen = lied(world)
    assert list(seen.topics) == ["a", "b"]
    assert seen.failures == {}


def test_replicas_on_brokers_that_are_gone_are_seen_and_leave_with_them() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    world.run(100)
    cluster.brokers.remove(3)
    seen = lied(world)
    assert list(seen.brokers) == [1, 2]
    assert seen.topics["b"].partitions[0].leader == 1
    assert seen.replicas["b", 0, 3].size_bytes == 100, "what it told last"
    asked = [at_ms for _, broker, at_ms in cluster.asked if broker == 3]
    world.run(30_000)
    assert [at_ms for _, broker, at_ms in cluster.asked if broker == 3] == asked, "it is not asked any more"
    cluster.topics = {"a": [[1, 2], [2, 1]]}
    world.run(11_000)
    assert (3, "/data/0") not in seen.disks
    assert 3 not in seen.on_broker
    assert sorted(seen.replicas) == [("a", 0, 1), ("a", 0, 2), ("a", 1, 1), ("a", 1, 2)]
    assert of_broker(DISKS, 3) not in seen.seen_ms


def test_a_broker_that_leaves_while_it_is_asked_changes_nothing_any_more() -> None:
    world = FakeClusters(interval_ms=1_000)
    cluster = world.add("clicks", topics=TOPICS)
    world.run(100)
    cluster.lies[DescribeLogDirsRequest, 3] = lambda answer: None
    world.run(1_000)  # the look at broker 3 waits for an answer
    cluster.brokers.remove(3)
    cluster.topics = {"a": [[1, 2]]}
    world.run(10_000)
    seen = world.sight("clicks")
    assert seen.failures == {}
    assert 3 not in seen.on_broker


def test_an_answer_that_comes_when_its_broker_has_left_is_not_taken() -> None:
    world = FakeClusters(interval_ms=1_000)
    cluster = world.add("clicks", topics=TOPICS)
    world.run(100)
    cluster.delays_ms[DescribeLogDirsRequest, 3] = 4_000
    cluster.sizes["b", 0] = 77
    world.run(1_000)
    cluster.brokers.remove(3)
    cluster.topics = {"a": [[1, 2]]}
    world.run(10_000)
    seen = world.sight("clicks")
    assert 3 not in seen.on_broker
    assert {broker for broker, _ in seen.disks} == {1, 2}
    assert seen.failures == {}


def directory_of(answer: DescribeLogDirsResponse) -> Any:
    return answer.results[0]


@pytest.mark.parametrize(
    ("lie", "told"),
    [
        (lambda found: setattr(found.topics[0].partitions[0], "partition_size", -5), "it has -5 bytes"),
        (lambda found: setattr(found, "total_bytes", -7), "it has -7 bytes"),
        (lambda found: setattr(found, "usable_bytes", 2**62), "of which"),
        (lambda found: setattr(found, "log_dir", ""), "its path is none"),
        (lambda found: found.topics.append(found.topics[0]), "it is there twice"),
    ],
)
def test_rows_of_disks_that_cannot_be_are_absent_and_told(lie: Any, told: str) -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)

    def lying(answer: DescribeLogDirsResponse) -> DescribeLogDirsResponse:
        lie(directory_of(answer))
        return answer

    cluster.lies[DescribeLogDirsRequest, 2] = lying
    seen = lied(world)
    assert told in seen.failures[of_broker(DISKS, 2)]
    assert all(each.size_bytes >= 0 for each in seen.replicas.values())
    assert all(each.capacity_bytes >= -1 for each in seen.disks.values())
    assert seen.seen_ms[of_broker(DISKS, 1)] > WALL_MS + 10_000


def test_the_later_registration_is_forgotten_even_if_it_was_seen_first() -> None:
    world = FakeClusters()
    first = world.add("first", topics=TOPICS, kafka_id="same")
    first.lies[MetadataRequest, ANY] = lambda answer: "it is restarted"
    world.add("later", topics=TOPICS, kafka_id="same")
    world.run(5_000)
    assert world.sight("later").replicas
    first.lies.clear()
    world.run(25_000)
    assert world.sight("first").replicas
    seen = world.sight("later")
    assert (seen.brokers, seen.topics, seen.disks, seen.replicas, seen.windows) == ({}, {}, {}, {}, {})
    assert list(seen.failures) == ["identity"]


def test_huge_answers_are_refused_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    world.run(100)
    before = dict(world.sight("clicks").topics)
    monkeypatch.setattr(look_at_metadata, "GUARDIAN_SEEN_PARTITIONS_MAX", 3)
    monkeypatch.setattr(look_at_disks, "GUARDIAN_SEEN_REPLICAS_MAX", 1)
    cluster.topics["huge"] = [[1]] * 10
    seen = lied(world)
    assert "names 13 partitions: at most 3" in seen.failures[METADATA]
    assert "replicas: at most 1" in seen.failures[of_broker(DISKS, 1)]
    assert seen.topics == before
    monkeypatch.undo()
    monkeypatch.setattr(look_at_metadata, "GUARDIAN_SEEN_BROKERS_MAX", 2)
    assert "names 3 brokers: at most 2" in lied(world).failures[METADATA]
    monkeypatch.setattr(look_at_disks, "GUARDIAN_SEEN_DISKS_MAX", 0)
    assert "log directories: at most 0" in lied(world).failures[of_broker(DISKS, 1)]


def test_error_codes_are_told_by_name() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    cluster.lies[ListPartitionReassignmentsRequest, ANY] = lambda answer: ListPartitionReassignmentsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    cluster.lies[DescribeLogDirsRequest, 1] = lambda answer: DescribeLogDirsResponse(
        error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    )
    cluster.lies[DescribeLogDirsRequest, 2] = lambda answer: DescribeLogDirsResponse(error_code=9_999)

    def forbidden(answer: DescribeConfigsResponse) -> DescribeConfigsResponse:
        for each in answer.results:
            each.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return answer

    cluster.lies[DescribeConfigsRequest, ANY] = forbidden
    seen = lied(world)
    assert "CLUSTER_AUTHORIZATION_FAILED" in seen.failures[REASSIGNMENTS]
    assert "CLUSTER_AUTHORIZATION_FAILED" in seen.failures[of_broker(DISKS, 1)]
    assert "error 9999" in seen.failures[of_broker(DISKS, 2)]
    assert "topic a: TOPIC_AUTHORIZATION_FAILED" in seen.failures[SETTINGS]
    assert {each.min_insync_replicas for each in seen.topics.values()} == {None}, "absent, not guessed"
    assert REASSIGNMENTS not in seen.seen_ms
    assert seen.topics, "what can be seen is"


@pytest.mark.parametrize("value", ["0", "-1", "1e3", "many", "99999", "", "٣٣"])
def test_a_setting_that_is_no_number_is_absent(value: str) -> None:
    world = FakeClusters()
    world.add("clicks", topics=TOPICS, min_insync={"a": value})
    seen = lied(world, 100)
    assert seen.topics["a"].min_insync_replicas is None
    assert "topic a: its min.insync.replicas is no number of replicas" in seen.failures[SETTINGS]


def test_settings_are_asked_for_again_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_at_settings, "GUARDIAN_SETTINGS_PER_CALL", 4)
    world = FakeClusters()
    cluster = world.add("clicks", topics={f"t{number}": [[1]] for number in range(10)})
    world.run(1_000)
    asked = [name for name, _, _ in cluster.asked].count("DescribeConfigsRequest")
    assert asked == 3
    assert {each.min_insync_replicas for each in world.sight("clicks").topics.values()} == {1}
    world.run(40_000)
    assert [name for name, _, _ in cluster.asked].count("DescribeConfigsRequest") == asked
    cluster.min_insync = {"t3": "2"}
    world.run(30_000)
    assert world.sight("clicks").topics["t3"].min_insync_replicas == 2


def test_a_cluster_that_becomes_another_one_is_told_and_believed_nothing() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    world.run(100)
    cluster.kafka_id, cluster.topics = "another", {"x": [[1]]}
    seen = lied(world)
    assert seen.twice
    assert "cluster another, and it was id-clicks" in seen.failures["identity"]
    assert list(seen.topics) == ["a", "b"]
    cluster.kafka_id, cluster.topics = "id-clicks", TOPICS
    assert not lied(world).twice


def test_a_cluster_without_an_answer_is_tried_again() -> None:
    world = FakeClusters()
    cluster = world.add("clicks", topics=TOPICS)
    cluster.lies[MetadataRequest, ANY] = lambda answer: "c1:9092: nothing listens there"
    seen = lied(world, 59_000)
    assert seen.failures == {METADATA: "c1:9092: nothing listens there"}
    assert len(cluster.asked) == 6 * look_at_metadata.TRIES
    cluster.lies.clear()
    assert lied(world).topics


def test_long_answers_are_gone_through_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_at_metadata, "GUARDIAN_SEEN_PER_STEP", 100)
    monkeypatch.setattr(look_at_disks, "GUARDIAN_SEEN_PER_STEP", 100)
    world = FakeClusters()
    world.add("clicks", topics={f"t{number}": [[1]] * 50 for number in range(100)})
    world.run(100)
    assert world.steps == 2 * (100 * 51 // 100 - 1)
    assert len(world.sight("clicks").replicas) == 5_000


def test_the_cluster_is_not_asked_behind_what_a_broker_is_asked() -> None:
    """A broker that is slow with its disks is quick with its metadata."""
    world = FakeClusters()
    world.add("clicks", topics=TOPICS)
    world.run(11_000)
    assert world.channels == {
        ("MetadataRequest", "look at the cluster"),
        ("ListPartitionReassignmentsRequest", "look at the cluster"),
        ("DescribeConfigsRequest", "look at the cluster"),
        ("DescribeLogDirsRequest", "look at the broker"),
        ("ListOffsetsRequest", "look at the broker"),
    }


def test_what_is_seen_of_a_replica_takes_less_than_a_kilobyte() -> None:
    topics = {f"topic-{number}": [[1, 2, 3]] * 100 for number in range(20)}
    world = FakeClusters()
    world.add("clicks", topics=topics)
    tracemalloc.start()
    world.run(11_000)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(world.sight("clicks").replicas) == 6_000
    assert held / 6_000 < 1_000


def random_value(value: Any, random: Random) -> Any:
    """Something of the same type that may be wrong."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice((-(2**31), -7, -1, 0, 1, 2, 9, 2**15 - 1, 2**31 - 1))
    if isinstance(value, str):
        return random.choice(("", "a", "b", "x" * 300, "\ud83d\ude00", "../..", "min.insync.replicas"))
    return value


def lie_somewhere(message: Any, random: Random, rate: float) -> Any:
    """Changes some fields of an answer, and repeats or drops some rows, at random."""
    for name in message.KINDS:
        value = getattr(message, name)
        if isinstance(value, list):
            for at, each in enumerate(value):
                if hasattr(each, "KINDS"):
                    lie_somewhere(each, random, rate)
                elif random.random() < rate:
                    value[at] = random_value(each, random)
            if value and random.random() < rate:
                value.append(random.choice(value))
            if value and random.random() < rate:
                value.pop()
        elif random.random() < rate:
            setattr(message, name, random_value(value, random))
    return message


@pytest.mark.parametrize("seed", range(40))
def test_whatever_brokers_say_what_is_seen_can_be_true(seed: int) -> None:
    random = Random(seed)
    world = FakeClusters(interval_ms=1_000)
    cluster = world.add("clicks", topics=TOPICS)
    world.add("other", topics=TOPICS)
    world.run(3_000)
    requests = (MetadataRequest, ListPartitionReassignmentsRequest, DescribeLogDirsRequest, DescribeConfigsRequest)
    for request in (*requests, ListOffsetsRequest):
        cluster.lies[request, ANY] = lambda answer: (
            lie_somewhere(answer, random, 0.05) if not isinstance(answer, str) else answer
        )
    for _ in range(20):
        world.run(1_000)
        believable(world.sight("clicks"))
    assert world.sight("other").failures == {}
    cluster.lies.clear()
    world.run(70_000)
    seen = world.sight("clicks")
    assert seen.failures == {}, "it is seen again once it tells the truth"
    assert sorted(seen.topics) == ["a", "b"]


def believable(seen: ClusterSight) -> None:
    """What everybody may rely on."""
    assert seen.kafka_id == "id-clicks"
    assert seen.controller == -1 or seen.controller in seen.brokers
    for name, topic in seen.topics.items():
        assert name == topic.name
        assert topic.min_insync_replicas is None or topic.min_insync_replicas > 0
        for index, each in enumerate(topic.partitions):
            assert (each.topic, each.index) == (name, index)
            assert each.replicas
            assert len(set(each.replicas)) == len(each.replicas)
            assert set(each.in_sync) <= set(each.replicas)
            assert each.leader == -1 or each.leader in each.replicas
            assert min(each.replicas) >= 0
    for (broker, path), disk in seen.disks.items():
        assert (broker, path) == (disk.broker, disk.path)
        assert disk.capacity_bytes == -1 or disk.capacity_bytes >= max(disk.usable_bytes, 1)
    assert seen.replicas == {place: each for held in seen.on_broker.values() for place, each in held.items()}
    for (_, index, broker), replica in seen.replicas.items():
        assert index >= 0
        assert replica.size_bytes >= 0
        assert (broker, replica.path) in seen.disks
    for windows in seen.windows.values():
        assert all(rate >= 0 for rate in windows.rates())
