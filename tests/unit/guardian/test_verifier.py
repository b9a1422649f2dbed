"""The verifier finds each kind of fault: plans that are sound, with one thing changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.small_models import model_of

from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.rules import Capacity, Flight, Moved, Rules
from penstock.guardian.plan.verifier import verify

LOOSE = Rules(racks=False, hosts=False)
EMPTY = {"version": 1, "partitions": [], "leaders": [], "moves": [], "violations": []}


def move(partition: int, source: int, target: int, replicas: list[int]) -> dict[str, Any]:
    """A plan by hand: the leading replica of a partition of topic t goes from one broker to another."""
    ends = {"from": {"broker": source, "dir": "/d0"}, "to": {"broker": target, "dir": "/d0"}}
    dirs = ["/d0" if broker == target else "any" for broker in replicas]
    return EMPTY | {
        "moves": [{"id": 1, "topic": "t", "partition": partition, "kind": "replica", **ends, "bytes": 10, "why": "so"}],
        "partitions": [{"topic": "t", "partition": partition, "replicas": replicas, "log_dirs": dirs}],
        "leaders": [{"topic": "t", "partition": partition, "broker": target}],
    }


def rules_found(model: Model, rules: Rules, by_hand: dict[str, Any]) -> set[str]:
    """The rules that the verifier finds broken; figures are those of another plan, and not looked at."""
    found = plan(model, rules, 1)
    return {each.rule for each in verify(model, rules, {**found, **by_hand})} - {"figures"}


@pytest.mark.parametrize(
    ("model", "rules", "by_hand", "rule"),
    [
        (model_of([((0, 1), 10)], [0, 1, 1]), LOOSE, move(0, 0, 1, [1, 1]), "shape"),
        (model_of([((0, 1), 10)], [0, 1, 1]), Rules(hosts=False), move(0, 0, 2, [2, 1]), "racks"),
        (model_of([((0, 1), 10)], [0] * 3, hosts=[0, 1, 1]), Rules(racks=False), move(0, 0, 2, [2, 1]), "hosts"),
        (model_of([((0,), 10)], [0, 0]), replace(LOOSE, cordoned=(1,)), move(0, 0, 1, [1]), "cordoned"),
        (model_of([((0,), 10)], [0, 0]), replace(LOOSE, excluded_brokers=(1,)), move(0, 0, 1, [1]), "excluded"),
        (model_of([((0,), 10)], [0, 0]), replace(LOOSE, excluded_topics=("t",)), move(0, 0, 1, [1]), "excluded"),
        (model_of([((0,), 10)], [0, 0]), replace(LOOSE, pinned={"t": (0,)}), move(0, 0, 1, [1]), "pinned"),
        (model_of([((0,), 10)], [0, 0]), replace(LOOSE, drained=(1,)), move(0, 0, 1, [1]), "drained"),
        (model_of([((0,), 10)], [0, 0], dead=[1]), LOOSE, move(0, 0, 1, [1]), "dead brokers and disks"),
        (model_of([((0,), 10)], [0, 0], dead_disks=[1]), LOOSE, move(0, 0, 1, [1]), "dead brokers and disks"),
        (
            model_of([((0,), 10)], [0, 0]),
            replace(LOOSE, in_flight=(Flight("t", 0, (1,)),)),
            move(0, 0, 1, [1]),
            "in_flight",
        ),
        (model_of([((0,), 10)], [0, 0]), replace(LOOSE, moved=(Moved("t", 0, 0),)), move(0, 0, 1, [1]), "moved"),
        (
            model_of([((0,), 10), ((1,), 10)], [0, 0]),
            replace(LOOSE, leaders_per_broker_min={"t": 1}),
            move(0, 0, 1, [1]),
            "leaders_per_broker_min",
        ),
        (
            model_of([((0,), 10), ((1,), 10)], [0, 0]),
            replace(LOOSE, replicas_per_broker_max=1),
            move(0, 0, 1, [1]),
            "replicas_per_broker_max",
        ),
        *(
            (
                model_of([((0,), 10), ((1,), 10)], [0, 0], capacity=30),
                replace(LOOSE, capacity=capacity),
                move(0, 0, 1, [1]),
                rule,
            )
            for capacity, rule in (
                (Capacity(cpu=0.7, net=1, disk_rate=1, bytes=1), "capacity.cpu"),
                (Capacity(cpu=2, net=0.5, disk_rate=1, bytes=1), "capacity.net_in"),
                (Capacity(cpu=2, net=0.5, disk_rate=1, bytes=1), "capacity.net_out"),
                (Capacity(cpu=2, net=1, disk_rate=0.5, bytes=1), "capacity.disk_rate"),
                (Capacity(cpu=2, net=1, disk_rate=1, bytes=0.3), "capacity.bytes"),
            )
        ),
    ],
)
def test_a_broken_rule_is_found(model: Model, rules: Rules, by_hand: dict[str, Any], rule: str) -> None:
    assert rule in rules_found(model, rules, by_hand)


def tampered(change: Callable[[dict[str, Any]], Any]) -> set[str]:
    model = model_of([((0, 1), 10)] * 6, racks=[0] * 3)
    found = plan(model, LOOSE, 1)
    assert verify(model, LOOSE, found) == []
    change(found)
    return {each.rule for each in verify(model, LOOSE, found)}


@pytest.mark.parametrize(
    "change",
    [
        lambda found: found["moves"].pop(),
        lambda found: found["partitions"].pop(),
        lambda found: found["leaders"].pop(),
        lambda found: found["moves"].append(found["moves"][-1]),
        lambda found: found["moves"][-1].update(topic="u"),
        lambda found: found["moves"][-1].update(bytes=11),
        lambda found: found["moves"][-1]["to"].update(dir="/d7"),
        lambda found: found["partitions"][0]["replicas"].reverse(),
        lambda found: found["partitions"][0].update(log_dirs=["/d0"] * 2),
        lambda found: found["partitions"].append(found["partitions"][0]),
        lambda found: found["leaders"].append(found["leaders"][0]),
        lambda found: found["moves"][-1].update(kind="replicas"),
        lambda found: found["moves"].insert(0, found["moves"][0]),
        lambda found: found["moves"][0]["from"].update(broker=2),
    ],
)
def test_parts_that_do_not_fit_together_are_found(change: Callable[[dict[str, Any]], Any]) -> None:
    assert tampered(change) == {"shape"}


def test_what_kafka_is_told_of_a_partition_that_stays_is_found() -> None:
    model = model_of([((0, 1), 10), ((1, 0), 10)], racks=[0, 0])
    found = plan(model, LOOSE, 1)
    assert (found["moves"], verify(model, LOOSE, found)) == ([], [])
    found["partitions"] = [{"topic": "t", "partition": 1, "replicas": [1, 0], "log_dirs": ["any", "any"]}]
    assert {each.rule for each in verify(model, LOOSE, found)} == {"shape"}


def test_a_wrong_figure_is_found() -> None:
    assert tampered(lambda found: found["after"]["brokers"][0].update(replicas=99)) == {"figures"}
    assert tampered(lambda found: found["after"]["brokers"][0].update(net_in=3.5)) == {"figures"}


def test_a_violation_that_the_plan_hides_is_found() -> None:
    model = model_of([((0,), 10)], racks=[0], dead=[0])
    found = plan(model, LOOSE, 1)
    assert verify(model, LOOSE, found) == []
    found["violations"] = []
    assert {each.rule for each in verify(model, LOOSE, found)} == {"dead brokers and disks"}


def test_parts_of_moves_that_do_not_fit_are_found() -> None:
    def first(found: dict[str, Any], kind: str) -> dict[str, Any]:
        return next(each for each in found["moves"] if each["kind"] == kind)

    model = model_of([((0,), 30), ((0,), 30), ((1,), 10), ((1,), 10)], racks=[0, 0])
    rules = replace(LOOSE, replicas_per_broker_max=2)
    found = plan(model, rules, 1)
    assert verify(model, rules, found) == []
    first(found, "swap").update(kind="replica")
    (fault,) = verify(model, rules, found)
    assert "1 replicas go in exchange from broker" in fault.text
    assert "0 come" in fault.text


JUNK = (None, True, -1, 0, 7, 1.5, 10**30, float("nan"), float("inf"), 1e200, "", "x", [], [1], {}, {"x": 1})
FREE = {"why", "text"}
"""What a plan says in words is not held against anything."""


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values of a document, the whole left aside."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [each for key, inner in below for each in ((*path, key), *paths(inner, (*path, key)))]


def put(found: Any, path: tuple[Any, ...], value: Any) -> Any:
    """What was at a path, where something else is now."""
    for key in path[:-1]:
        found = found[key]
    old, found[path[-1]] = found[path[-1]], value
    return old


def same(one: Any, other: Any) -> bool:
    return type(one) is type(other) and one == other


@pytest.fixture(scope="module")
def sound() -> tuple[Model, Rules, dict[str, Any]]:
    """A plan with moves of all kinds and a violation, and not long."""
    partitions = [((0, 1), 30.0), ((0, 1), 30.0), ((1, 0), 40.0), ((3,), 10.0), ((2, 0), 300.0), ((2, 0), 40.0)]
    model = model_of(partitions, [0] * 4, disks=2, dead=[3])
    rules = replace(LOOSE, replicas_per_broker_max=4)
    found = plan(model, rules, 1)
    assert verify(model, rules, found) == []
    assert {"leader", "disk", "replica"} <= {each["kind"] for each in found["moves"]}
    assert found["violations"]
    return model, rules, json.loads(json.dumps(found, allow_nan=False))


def test_whatever_stands_in_a_plan_instead_of_what_belongs_there_is_found(
    sound: tuple[Model, Rules, dict[str, Any]],
) -> None:
    model, rules, found = sound
    missed = []
    for path in paths(found):
        for junk in JUNK:
            if path[-1] in FREE and isinstance(junk, str) and junk:
                continue
            old = put(found, path, junk)
            if not verify(model, rules, found) and not same(old, junk) and not harmless(path, old, junk):
                missed.append((path, junk))
            put(found, path, old)
    assert verify(model, rules, found) == []
    assert missed == []


def harmless(path: tuple[Any, ...], old: Any, junk: Any) -> bool:
    """Whether it says the same: 0 for 0.0. And a conflict may be left out, an empty text of a violation, too."""
    whole = type(junk) is int and type(old) is float and junk == old
    return whole or (path[-1] == "conflict" and junk == []) or (path[-1] == "text" and junk == "")


def test_whatever_is_missing_in_a_plan_is_found(sound: tuple[Model, Rules, dict[str, Any]]) -> None:
    model, rules, found = sound
    for path in paths(found):
        if path[-2:-1] == ("conflict",) and path[-1] > 0:
            continue  # that fewer rules stand in the way is not looked into
        copy = json.loads(json.dumps(found))
        place = copy
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]
        assert verify(model, rules, copy), path
        if isinstance(place, dict) and path[0] != "rules":
            place[path[-1]] = found_at(found, path)
            place["more"] = 1
            assert verify(model, rules, copy), path


def found_at(found: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        found = found[key]
    return found


@pytest.mark.parametrize("junk", [None, [], {}, "plan", 3, float("nan"), {1: 2}])
def test_what_is_no_plan_at_all_is_found(junk: Any) -> None:
    (fault,) = verify(model_of([((0,), 10)], racks=[0]), LOOSE, junk)
    assert fault.rule == "shape"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda found: found.update(version=2), "only 1 is known"),
        (lambda found: found["rules"].update(racks=True), "made for other rules"),
        (lambda found: found.update(digest="sha256:0"), "made for another model"),
        (lambda found: found.update(seed=2), "made for another model"),
        (lambda found: found.update(estimates=["x"]), "something else was estimated"),
        (lambda found: found["moves"][0].update(id=2), "the move with id 2 is number 1"),
        (lambda found: found["moves"].insert(0, found["moves"].pop() | {"id": 1}), "the move with id 1 is number 2"),
        (lambda found: found["moves"][0].update(bytes=5), "who leads costs no bytes"),
        (lambda found: found["moves"][-1].pop("bytes"), "has no bytes"),
        (lambda found: found["after"].update(score=float("nan")), "after.score is nan, it must be a finite number"),
        (lambda found: found["violations"].append(found["violations"][0]), "says one of them twice"),
        (
            lambda found: found["violations"].append(
                {"rule": "racks", "place": "t-0", "text": "", "conflict": ["racks"]}
            ),
            "stays broken for 't-0', which is not so",
        ),
        (lambda found: found["violations"][0].update(conflict=["racks"]), "must be rules that there are, this one"),
        (lambda found: found["before"]["brokers"].reverse(), "they are not the brokers of the model"),
        (lambda found: found["after"]["disks"].pop(), "they are not the disks of the model"),
        (lambda found: found["after"]["disks"][0].update(bytes=0.5), "bytes of broker 0, /d0, in shares, is 0.5"),
        (lambda found: found["before"]["shares"].update(cpu=[0, 1]), "the least and the most of cpu is"),
        (lambda found: found["before"]["capacity"].update({"capacity.cpu": 0.5}), "the most that is used of capa"),
        (lambda found: found["after"].update(score=found["after"]["score"] + 0.001), "the score is"),
    ],
)
def test_a_fault_is_said_in_a_sentence(
    sound: tuple[Model, Rules, dict[str, Any]], change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    model, rules, found = sound
    copy = json.loads(json.dumps(found))
    change(copy)
    assert any(said in each.text for each in verify(model, rules, copy))
