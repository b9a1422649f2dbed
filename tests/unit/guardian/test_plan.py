"""What a plan does with small clusters: each test is one rule or goal, and the verifier agrees with each plan."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.skewed_models import Shape, skewed
from support.small_models import model_of

from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.rules import Capacity, Flight, Moved, Rules
from penstock.guardian.plan.verifier import verify

ROOT = Path(__file__).resolve().parents[3]
ANYWHERE = Rules(racks=False, hosts=False)


def planned(model: Model, rules: Rules = ANYWHERE) -> dict[str, Any]:
    """The plan with seed 1, which the verifier has found nothing against."""
    found = plan(model, rules, 1)
    assert verify(model, rules, found) == []
    return found


def brokers_after(model: Model, found: dict[str, Any]) -> dict[tuple[str, int], list[int]]:
    """The brokers of each partition after a plan."""
    after = {
        (model.topics[t], int(n)): model.brokers.ids[model.broker[model.first[p] : model.first[p + 1]]].tolist()
        for p, (t, n) in enumerate(zip(model.topic, model.number, strict=True))
    }
    return after | {(each["topic"], each["partition"]): each["replicas"] for each in found["partitions"]}


def test_a_balanced_cluster_is_left_alone() -> None:
    model = model_of([((0, 1), 10), ((1, 2), 10), ((2, 0), 10)], racks=[0, 0, 0])
    found = planned(model)
    assert found["moves"] == found["partitions"] == found["leaders"] == found["violations"] == []


def test_leaders_are_balanced_without_copying() -> None:
    model = model_of([((0, 1, 2), 10)] * 6, racks=[0, 0, 0])
    found = planned(model)
    assert {each["kind"] for each in found["moves"]} == {"leader"}
    assert found["after"]["shares"]["leaders"] == [1, 1]
    assert found["before"]["shares"]["leaders"] == [0, 3]


def test_disks_of_a_broker_are_evened_out_within_it() -> None:
    model = model_of([((0,), 10), ((1,), 10)] * 8, racks=[0, 0], disks=2)
    model = replace(model, disk=model.broker * 2)
    found = planned(model)
    assert {each["kind"] for each in found["moves"]} == {"disk"}
    assert found["after"]["disk_shares"]["bytes"] == [1, 1]
    assert "/d0 has 2.00 of its share" in found["moves"][0]["why"]


def test_a_new_broker_is_filled() -> None:
    model = model_of([((at % 3,), 10) for at in range(24)], racks=[0] * 4, new=[3])
    found = planned(model)
    low, high = found["after"]["shares"]["bytes"]
    assert 0.9 <= low <= high <= 1.1
    assert all(each["to"]["broker"] == 3 for each in found["moves"])
    assert "broker 3 (new)" in found["moves"][0]["why"]


def test_replicas_leave_a_dead_broker_and_a_living_one_leads() -> None:
    model = model_of([((0, 1), 10), ((1, 0), 10), ((0, 2), 10)], racks=[0] * 4, dead=[0])
    found = planned(model)
    assert found["violations"] == []
    assert all(0 not in brokers for brokers in brokers_after(model, found).values())
    assert {each["why"] for each in found["moves"] if each["from"]["broker"] == 0} == {"broker 0 is dead"}


def test_replicas_leave_a_dead_disk() -> None:
    model = model_of([((0, 1), 10)] * 4, racks=[0, 0], disks=2, dead_disks=[0])
    found = planned(model)
    assert found["violations"] == []
    assert any(each["why"] == "/d0 of broker 0 is dead" for each in found["moves"])


def test_without_a_living_replica_nothing_can_be_copied() -> None:
    model = model_of([((0,), 10), ((1,), 10)], racks=[0] * 3, dead=[0])
    (violation,) = planned(model)["violations"]
    assert violation["conflict"] == ["dead brokers and disks", "no living replica"]


def test_a_drained_broker_is_emptied_and_a_cordoned_one_takes_nothing() -> None:
    model = model_of([((0, 1), 10)] * 6, racks=[0] * 4)
    rules = replace(ANYWHERE, drained=(0,), cordoned=(2,))
    after = brokers_after(model, planned(model, rules))
    assert all(sorted(brokers) == [1, 3] for brokers in after.values())


def test_a_topic_goes_to_where_it_is_pinned() -> None:
    model = model_of([((0,), 10)] * 4, racks=[0] * 3, topics={0: "a", 1: "a"})
    found = planned(model, replace(ANYWHERE, pinned={"a": (1,)}))
    after = brokers_after(model, found)
    assert after["a", 0] == after["a", 1] == [1]
    assert found["moves"][0]["why"] == "a is pinned to brokers 1"


def test_excluded_topics_and_brokers_stay_as_they_are() -> None:
    model = model_of([((0,), 10)] * 8, racks=[0] * 3, topics={0: "a", 1: "a", 2: "a", 3: "a"})
    found = planned(model, replace(ANYWHERE, excluded_topics=("a",), excluded_brokers=(2,)))
    assert found["moves"]
    assert all(each["topic"] == "t" and each["to"]["broker"] == 1 for each in found["moves"])


def test_what_is_in_flight_stays_and_room_is_kept_for_it() -> None:
    model = model_of([((0,), 300), ((0,), 300), ((0,), 300)], racks=[0] * 2)
    free = planned(model, replace(ANYWHERE, capacity=Capacity(net=1, cpu=1)))
    assert free["moves"]
    flights = (Flight("t", 0, (1,)), Flight("t", 1, (1,)))
    full = planned(model, replace(ANYWHERE, capacity=Capacity(net=0.8, cpu=1), in_flight=flights))
    assert full["moves"] == []


def test_a_replica_that_has_moved_lately_stays_unless_it_must_leave() -> None:
    model = model_of([((0,), 10)] * 6 + [((1,), 10)] * 2, racks=[0, 0, 0])
    lately = tuple(Moved("t", number, 0) for number in range(6))
    assert {each["topic"] for each in planned(model)["moves"] if each["from"]["broker"] == 0}
    found = planned(model, replace(ANYWHERE, moved=lately))
    assert all(each["from"]["broker"] == 1 for each in found["moves"])
    assert all(0 in brokers_after(model, found)["t", number] for number in range(6))
    gone = planned(model, replace(ANYWHERE, moved=lately, drained=(0,)))
    assert all(brokers_after(model, gone)["t", number] != [0] for number in range(8))


def test_what_has_moved_lately_may_still_lead_or_not() -> None:
    model = model_of([((0, 1, 2), 10)] * 6, racks=[0, 0, 0])
    lately = tuple(Moved("t", number, broker) for number in range(6) for broker in range(3))
    found = planned(model, replace(ANYWHERE, moved=lately))
    assert found["after"]["shares"]["leaders"] == [1, 1]


def test_a_replica_that_has_moved_lately_is_named_where_it_stands_in_the_way() -> None:
    model = model_of([((0, 1), 10)], racks=[0, 0, 1])
    lately = (Moved("t", 0, 0), Moved("t", 0, 1))
    (violation,) = planned(model, Rules(moved=lately))["violations"]
    assert violation["conflict"] == ["racks", "moved"]


def test_a_partition_is_spread_over_racks_again() -> None:
    model = model_of([((0, 1), 10), ((0, 2), 10)], racks=[0, 0, 1, 1])
    found = planned(model, Rules())
    racks = [{broker // 2 for broker in brokers} for brokers in brokers_after(model, found).values()]
    assert racks == [{0, 1}, {0, 1}]
    assert any(each["why"] == "its replicas are to be in more racks or on more hosts" for each in found["moves"])


def test_two_brokers_of_one_host_do_not_share_a_partition() -> None:
    model = model_of([((0, 1), 10), ((1, 2), 10)], racks=[0] * 4, hosts=[0, 0, 1, 2])
    after = brokers_after(model, planned(model, Rules()))
    assert all(not {0, 1} <= set(brokers) for brokers in after.values())


def test_a_broker_above_its_capacity_is_relieved_though_all_is_near_its_share() -> None:
    model = model_of([((at % 2,), 100) for at in range(12)], racks=[0] * 3)
    model.brokers.net_in_capacity[0] = 500
    rules = replace(ANYWHERE, capacity=Capacity(cpu=1))
    found = planned(model, rules)
    assert found["before"]["capacity"]["capacity.net_in"] > 1
    assert found["after"]["capacity"]["capacity.net_in"] <= 1


def test_a_broker_may_hold_only_so_many_replicas() -> None:
    model = model_of([((0,), 1)] * 4 + [((1,), 1)] * 2, racks=[0] * 3)
    found = planned(model, replace(ANYWHERE, replicas_per_broker_max=2))
    assert [each["replicas"] for each in found["after"]["brokers"]] == [2, 2, 2]


def test_each_broker_leads_its_partitions_of_a_named_topic() -> None:
    model = model_of([((0, 1), 1)] * 4, racks=[0] * 4)
    found = planned(model, replace(ANYWHERE, leaders_per_broker_min={"t": 1}))
    leaders = [brokers[0] for brokers in brokers_after(model, found).values()]
    assert sorted(leaders) == [0, 1, 2, 3]


def test_too_few_partitions_for_the_leaders_is_a_conflict_of_that_rule_alone() -> None:
    model = model_of([((0, 1), 1)] * 3, racks=[0] * 4)
    violations = planned(model, replace(ANYWHERE, leaders_per_broker_min={"t": 1}))["violations"]
    assert [each["conflict"] for each in violations] == [["leaders_per_broker_min"]]


def test_the_smallest_set_of_rules_in_conflict_is_named() -> None:
    model = model_of([((0, 2), 100)], racks=[0, 0, 1, 1])
    rules = Rules(drained=(0,), cordoned=(1,))
    (violation,) = planned(model, rules)["violations"]
    assert violation["rule"] == "drained"
    assert violation["conflict"] == ["drained", "racks", "cordoned"] or violation["conflict"] == [
        "drained",
        "one replica of a partition on a broker",
        "racks",
        "cordoned",
    ]


def test_a_swap_where_a_move_would_overflow() -> None:
    model = model_of([((0,), 30), ((0,), 30), ((1,), 10), ((1,), 10)], racks=[0, 0])
    found = planned(model, replace(ANYWHERE, replicas_per_broker_max=2))
    assert [each["kind"] for each in found["moves"]] == ["swap", "swap"]
    assert "comes in exchange" in found["moves"][0]["why"]


def test_what_is_not_worth_its_bytes_stays() -> None:
    model = model_of([((0,), 10)] * 6 + [((1,), 10)] * 4, racks=[0, 0])
    dear = replace(ANYWHERE, goals=replace(ANYWHERE.goals, bytes_price=1000.0))
    assert planned(model)["moves"]
    assert planned(model, dear)["moves"] == []


def test_a_skewed_cluster_comes_within_a_tenth_of_all_its_shares() -> None:
    model = skewed(Shape(21, 2000, disks=2, topics=20))  # as many brokers in each rack
    found = planned(model, Rules())
    for shares, within in (("shares", 0.1), ("disk_shares", 0.2)):
        assert all(1 - within <= low <= high <= 1 + within for low, high in found["after"][shares].values())
    assert sum(each["bytes"] for each in found["moves"]) < 0.2 * model.load()[:, 1].sum()


def test_the_same_seed_gives_the_same_plan_whatever_the_hash_seed(tmp_path: Path) -> None:
    script = (
        "import json; from support.skewed_models import Shape, skewed; "
        "from penstock.guardian.plan.document import plan; from penstock.guardian.plan.rules import Rules; "
        "print(json.dumps(plan(skewed(Shape(9, 60, disks=2)), Rules(drained=(3,)), 5)))"
    )
    outputs = []
    for seed in ("1", "2"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT / 'tests'}"}
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
        outputs.append(done.stdout)
    assert outputs[0] == outputs[1]
    assert json.loads(outputs[0])["moves"]


def test_another_seed_or_rule_has_another_digest() -> None:
    model = model_of([((0,), 10)], racks=[0, 0])
    digests = {plan(model, rules, seed)["digest"] for rules in (ANYWHERE, Rules()) for seed in (1, 2)}
    assert len(digests) == 4
    moved = replace(model, leading=model.leading * 2)
    assert plan(moved, ANYWHERE, 1)["digest"] not in digests


@pytest.mark.parametrize("seed", [0, 2**63 - 1])
def test_any_seed_will_do(seed: int) -> None:
    model = model_of([((0,), 10)] * 4, racks=[0, 0])
    found = plan(model, ANYWHERE, seed)
    assert np.isclose(found["after"]["shares"]["bytes"], 1).all()
