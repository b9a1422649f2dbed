"""The verifier finds each kind of fault: plans that are sound, with one thing changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from support.small_models import model_of

from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.rules import Capacity, Flight, Rules
from penstock.guardian.plan.verifier import verify

LOOSE = Rules(racks=False, hosts=False)
EMPTY = {"version": 1, "partitions": [], "leaders": [], "moves": [], "violations": []}


def move(partition: int, source: int, target: int, replicas: list[int]) -> dict[str, Any]:
    """A plan by hand: the leading replica of a partition of topic t goes from one broker to another."""
    ends = {"from": {"broker": source, "dir": "/d0"}, "to": {"broker": target, "dir": "/d0"}}
    dirs = ["/d0" if broker == target else "any" for broker in replicas]
    return EMPTY | {
        "moves": [{"id": 1, "topic": "t", "partition": partition, "kind": "replica", **ends, "bytes": 10, "why": ""}],
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
