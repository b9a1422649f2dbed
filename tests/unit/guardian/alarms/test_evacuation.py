"""Where the replicas of what is dead are to go, and which are left alone."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from support.sights import hold, live, partition, sight_of

from penstock.guardian.core.alarms.evacuation import evacuation
from penstock.guardian.core.alarms.finding import Subject
from penstock.guardian.core.sight import ClusterSight, SeenDisk, SeenReplica


def targets(plan: dict[str, Any]) -> dict[tuple[str, int], list[int]]:
    return {(each["topic"], each["partition"]): each["replicas"] for each in plan["partitions"]}


def of_dead(dead: int, brokers: int, *partitions: Any, **racks: str) -> ClusterSight:
    """All of these brokers have lived; one is dead."""
    seen = sight_of(range(1, brokers + 1), *partitions, **racks)
    live(seen, [each for each in range(1, brokers + 1) if each != dead], **racks)
    return seen


def test_a_replica_goes_to_the_broker_with_the_fewest_and_keeps_its_place() -> None:
    seen = of_dead(3, 5, partition(0, 3, 1, leader=1, in_sync=(1,)), partition(1, 4, 1), partition(2, 2, 4))
    plan = evacuation(seen, Subject(3))
    assert targets(plan) == {("t", 0): [5, 1]}
    (move,) = plan["moves"]
    assert (move["from"], move["to"], move["kind"]) == (
        {"broker": 3, "dir": "any"},
        {"broker": 5, "dir": "any"},
        "replica",
    )
    assert plan["partitions"][0]["log_dirs"] == ["any", "any"]
    assert plan["estimates"] == ["sizes of replicas are not known: brokers are compared by their number"]
    assert plan["after"]["brokers"][-1] == {"broker": 5, "replicas": 1}
    assert evacuation(seen, Subject(3)) == plan
    assert plan["digest"].startswith("sha256:")


def test_bytes_count_where_they_are_known() -> None:
    """Broker 4 has fewer replicas than 5, and they are larger."""
    seen = of_dead(
        3,
        5,
        partition(0, 3, 1, leader=1, in_sync=(1,)),
        *(partition(each, 4, 1) for each in (1,)),
        *(partition(each, 5, 1) for each in (2, 3)),
    )
    for broker, size_bytes in ((1, 50), (2, 1_000), (4, 100), (5, 10)):
        hold(seen, broker, size_bytes=size_bytes)
    plan = evacuation(seen, Subject(3))
    assert targets(plan) == {("t", 0): [2, 1]}, "broker 2 holds nothing"
    assert plan["moves"][0]["bytes"] == 50
    assert not plan["estimates"]
    seen.topics["t"].partitions += (partition(4, 2, 1), partition(5, 2, 1))
    hold(seen, 2, size_bytes=1_000)
    assert targets(evacuation(seen, Subject(3))) == {("t", 0): [5, 1]}


def test_a_rack_gets_no_second_replica_as_long_as_another_has_room() -> None:
    seen = of_dead(
        3, 5, partition(0, 3, 1, in_sync=(1,), leader=1), partition(1, 4, 1),
        b1="north", b2="north", b3="south", b4="south", b5="north",
    )  # fmt: skip
    assert targets(evacuation(seen, Subject(3))) == {("t", 0): [4, 1]}


def test_where_no_other_rack_is_left_a_replica_still_gets_its_place() -> None:
    seen = of_dead(3, 3, partition(0, 3, 1, in_sync=(1,), leader=1), b1="north", b2="north", b3="south")
    assert targets(evacuation(seen, Subject(3))) == {("t", 0): [2, 1]}


def test_a_replica_that_would_cost_a_rack_is_left() -> None:
    """Broker 4, of the rack that is needed, is full."""
    seen = of_dead(3, 4, partition(0, 3, 1, in_sync=(1,), leader=1),
                   b1="north", b2="north", b3="south", b4="south")  # fmt: skip
    hold(seen, 1, size_bytes=100)
    hold(seen, 4, usable_bytes=100)
    plan = evacuation(seen, Subject(3))
    assert not plan["moves"]
    assert [each["rule"] for each in plan["violations"]] == ["racks"]


def test_a_broker_that_was_never_seen_alive_counts_as_one_of_a_rack_of_its_own() -> None:
    seen = of_dead(3, 4, partition(0, 3, 1, in_sync=(1,), leader=1), b1="north", b2="north", b4="south")
    seen.departed.clear()
    assert targets(evacuation(seen, Subject(3))) == {("t", 0): [4, 1]}


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"in_sync": (3,)}, "source"),
        ({"in_sync": ()}, "source"),
        ({"in_sync": (1,), "adding": (2,)}, "in flight"),
        ({"in_sync": (1,), "removing": (3,)}, "in flight"),
    ],
)
def test_what_cannot_be_copied_or_moves_already_is_left(more: dict[str, Any], rule: str) -> None:
    plan = evacuation(of_dead(3, 4, partition(0, 3, 1, leader=1, **more)), Subject(3))
    assert not plan["moves"]
    assert [each["rule"] for each in plan["violations"]] == [rule]


def test_three_brokers_with_three_replicas_have_no_place() -> None:
    plan = evacuation(of_dead(3, 3, partition(0, 3, 1, 2, leader=1, in_sync=(1, 2))), Subject(3))
    assert not plan["moves"]
    assert "each has one" in plan["violations"][0]["text"]


def test_of_a_dead_directory_only_what_lay_there_goes() -> None:
    seen = sight_of(
        (1, 2, 3),
        partition(0, 2, 1, leader=1, in_sync=(1,)),
        partition(1, 2, 1),
        partition(2, 2, 1, leader=1, in_sync=(1,)),
    )
    seen.disks[2, "/bad"] = SeenDisk(2, "/bad", error=56)
    seen.on_broker[2] = {("t", 1, 2): SeenReplica("/good", 5), ("t", 2, 2): SeenReplica("/good", 5)}
    plan = evacuation(seen, Subject(2, "/bad"))
    assert targets(plan) == {("t", 0): [3, 1]}, "partition 2 is only behind"
    assert plan["moves"][0]["from"] == {"broker": 2, "dir": "/bad"}
    seen.on_broker[2]["t", 0, 2] = SeenReplica("/bad", 5)
    assert targets(evacuation(seen, Subject(2, "/bad"))) == {("t", 0): [3, 1]}


@pytest.mark.parametrize("seed", range(30))
def test_any_plan_keeps_replicas_apart_and_loads_even(seed: int) -> None:
    random = Random(seed)
    brokers = random.randint(4, 12)
    racks = {f"b{each}": f"r{each % 3}" for each in range(1, brokers + 1)} if random.random() < 0.5 else {}
    partitions = []
    for each in range(random.randint(1, 80)):
        replicas = tuple(random.sample(range(1, brokers + 1), 3))
        in_sync = tuple(one for one in replicas if one != 2)
        partitions.append(partition(each, *replicas, leader=in_sync[0], in_sync=in_sync))
    seen = of_dead(2, brokers, *partitions, **racks)
    plan = evacuation(seen, Subject(2))
    by_key = {(each.topic, each.index): each for each in partitions}
    assert len(plan["moves"]) + len(plan["violations"]) == sum(2 in each.replicas for each in partitions)
    for key, replicas in targets(plan).items():
        before = by_key[key]
        assert len(set(replicas)) == 3
        assert 2 not in replicas
        assert [one for one in before.replicas if one != 2] == [one for one in replicas if one in before.replicas]
        distinct = [len({racks.get(f"b{one}") for one in each}) for each in (before.replicas, replicas)]
        living = len({racks.get(f"b{one}") for one in seen.brokers})
        assert distinct[1] >= min(distinct[0], living)
    if not racks and plan["moves"]:
        added = Counter(move["to"]["broker"] for move in plan["moves"])
        counts = {each["broker"]: each["replicas"] for each in plan["after"]["brokers"]}
        assert max(counts[each] for each in added) - min(counts.values()) <= 3
