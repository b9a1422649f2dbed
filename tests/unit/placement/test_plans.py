"""Plans of `penstock cluster`: where replicas are to lie, who is to lead, and what a plan in a file must be like."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.placement.one_broker import demoted, emptied, filled_up, promoted
from penstock.placement.plan import Plan, changed, parse_log_dirs, parse_plan, plan_json, rack_count
from penstock.placement.spread import spread

RACKLESS: dict[int, str | None] = {}
RACKS: dict[int, str | None] = {1: "a", 2: "a", 3: "b", 4: "b", 5: "c"}


def topic(*replicas: tuple[int, ...], name: str = "t") -> dict[tuple[str, int], tuple[int, ...]]:
    return {(name, index): each for index, each in enumerate(replicas)}


def replica_counts(plan: Plan) -> Counter[int]:
    return Counter(each for replicas in plan.values() for each in replicas)


def leader_counts(plan: Plan) -> Counter[int]:
    return Counter(replicas[0] for replicas in plan.values())


assignments = st.lists(
    st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True).map(tuple), min_size=1, max_size=20
).map(lambda replicas: topic(*replicas))


@given(assignments, st.lists(st.integers(1, 7), min_size=3, max_size=7, unique=True))
def test_a_spread_is_even_over_its_targets_and_over_nobody_else(current: Plan, targets: list[int]) -> None:
    plan = spread(current, targets, RACKLESS)
    assert plan.keys() == current.keys()
    for key, replicas in plan.items():
        assert len(replicas) == len(set(replicas)) == len(current[key])
    counts = replica_counts(plan)
    assert set(counts) <= set(targets)
    assert max(counts[each] for each in targets) - min(counts[each] for each in targets) <= 1
    assert spread(plan, targets, RACKLESS) == plan


@given(assignments)
def test_a_spread_is_over_no_fewer_racks_than_before(current: Plan) -> None:
    plan = spread(current, (1, 2, 3, 4, 5), RACKS)
    assert all(rack_count(plan[key], RACKS) >= rack_count(current[key], RACKS) for key in current)


def test_a_new_broker_gets_its_share_and_the_rest_stays() -> None:
    current = topic(*[(1, 2, 3), (2, 3, 1), (3, 1, 2)] * 4)
    plan = spread(current, (1, 2, 3, 4), RACKLESS)
    assert set(replica_counts(plan).values()) == {9}
    assert set(leader_counts(plan).values()) == {3}
    moved = sum(len(set(plan[key]) - set(current[key])) for key in plan)
    assert moved == 9


def test_a_replication_factor_adds_replicas_on_other_racks_first() -> None:
    plan = spread(topic((1,)), (1, 2, 3), {1: "a", 2: "a", 3: "b"}, replication_factor=2)
    assert set(plan["t", 0]) == {1, 3}
    assert changed(plan, spread(plan, (1, 2, 3), {1: "a", 2: "a", 3: "b"}, replication_factor=2)) == {}


def test_too_few_targets_are_named_with_the_partition() -> None:
    with pytest.raises(UsageError, match=r"^t-0 is to have 3 replicas, and there are 2 brokers for it$"):
        spread(topic((1, 2, 3)), (1, 2), RACKLESS)


def test_who_is_demoted_goes_last_and_the_others_share_its_leaderships() -> None:
    current = topic(*[(1, 2, 3)] * 4, (2, 1, 3))
    plan = demoted(current, 1, dict.fromkeys(current, (1, 2, 3)))
    assert leader_counts(plan) == {2: 3, 3: 2}
    assert all(set(plan[key]) == set(current[key]) for key in current)
    assert all(plan["t", index][-1] == 1 for index in range(4))
    assert plan["t", 4] == (2, 1, 3)


def test_nobody_is_preferred_who_is_not_in_sync() -> None:
    current = topic((1, 2, 3), (1, 2, 3), (1,))
    plan = demoted(current, 1, {("t", 0): (1, 3), ("t", 1): (1,), ("t", 2): (1,)})
    assert plan == topic((3, 2, 1), (1, 2, 3), (1,))


def test_who_is_emptied_has_nothing_and_nothing_else_moves() -> None:
    current = topic((1, 2), (2, 3), (3, 1), (3, 4))
    plan = emptied(current, 1, (2, 3, 4), RACKLESS)
    assert plan == topic((2, 4), (2, 3), (3, 2), (3, 4))
    with pytest.raises(UsageError, match=r"^t-0 has replicas on 1,2, and no other broker is up that could take one$"):
        emptied(current, 1, (2,), RACKLESS)


def test_a_broker_that_comes_back_gets_its_share() -> None:
    away = topic(*[(1, 3, 2), (3, 1, 2)] * 3)
    assert leader_counts(promoted(away, 2, (1, 2, 3))) == {1: 2, 2: 2, 3: 2}
    empty = topic(*[(1, 3), (3, 1)] * 3)
    assert replica_counts(filled_up(empty, 2, (1, 2, 3), RACKLESS)) == {1: 4, 2: 4, 3: 4}
    assert filled_up(topic((1, 2)), 2, (1, 2), RACKLESS) == topic((1, 2))


def test_a_plan_is_read_as_it_is_written() -> None:
    plan = {**topic((1, 2), (2, 1)), **topic((3,), name="u")}
    assert parse_plan(json.dumps(plan_json(plan)), "plan.json") == plan


def test_directories_are_read_as_they_are_written_and_only_named_where_they_matter() -> None:
    plan, log_dirs = topic((1, 2), (2, 1)), {("t", 0, 2): "/b"}
    written = plan_json(plan, log_dirs)
    assert [each.get("log_dirs") for each in written["partitions"]] == [["any", "/b"], None]
    text = json.dumps(written)
    assert (parse_plan(text, "plan.json"), parse_log_dirs(text, "plan.json")) == (plan, log_dirs)


def entry(**fields: object) -> str:
    return json.dumps({"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1], **fields}]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", r"plan.json is not JSON: "),
        ("[]", r'plan.json is not a plan: it must be like \{"version": 1'),
        ('{"version": 2, "partitions": []}', "plan.json is not a plan"),
        ('{"partitions": []}', "plan.json names no partition"),
        (entry(topic=1), r"partitions\[0\] must have topic, partition and replicas; topic is missing"),
        (entry(partition=True), "partition is missing or of another kind"),
        (entry(replicas=[]), "replicas of t-0 must be broker ids, at least one"),
        (entry(replicas=["1"]), "replicas of t-0 must be broker ids"),
        (entry(replicas=[1, 1]), "a broker is there twice among the replicas of t-0"),
        (entry(log_dirs=["/data", "any"]), "log_dirs of t-0 must be a list with one for each of the replicas"),
        (entry(log_dirs="/data"), "log_dirs of t-0 must be a list"),
        (entry(log_dirs=["data"]), "log_dirs of t-0 must be paths that begin with /, or any"),
        (entry(log_dirs=[1]), "log_dirs of t-0 must be paths"),
        ('{"partitions": [1]}', "topic is missing"),
    ],
)
def test_a_plan_that_is_none_says_why(text: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        parse_plan(text, "plan.json")


def test_a_partition_that_a_plan_has_twice_is_named() -> None:
    one = {"topic": "t", "partition": 0, "replicas": [1]}
    with pytest.raises(UsageError, match=r"plan\.json: t-0 is there twice"):
        parse_plan(json.dumps({"partitions": [one, one]}), "plan.json")
