"""Where the partitions of new and growing topics go."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.skewed_models import Shape, skewed
from support.small_models import model_of

from penstock.cli.main import main
from penstock.guardian.model.writing import write_model
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.placement import NoPlace, Placement, Wanted, extended, place
from penstock.guardian.plan.placement_document import placement_plan, spread
from penstock.guardian.plan.rules import Capacity, Flight, Rules

ANYWHERE = Rules(racks=False, hosts=False, capacity=Capacity(1, 1, 1, 1))


def placed(model: Model, wanted: Wanted, rules: Rules = ANYWHERE) -> list[list[int]]:
    """The brokers of each new partition; no rule is broken by it."""
    found = placement_plan(model, rules, wanted)
    assert found["violations"] == []
    return [each["replicas"] for each in found["reassignment"]["partitions"]]


def test_a_new_topic_goes_to_where_there_is_least() -> None:
    model = model_of([((0,), 100), ((1,), 10), ((2,), 10)], racks=[0] * 3)
    assert {replicas[0] for replicas in placed(model, Wanted("new", 2, 1, 40))} == {1, 2}


def test_an_even_cluster_gets_an_even_topic() -> None:
    model = model_of([((0, 1), 10), ((1, 2), 10), ((2, 0), 10)], racks=[0] * 3)
    found = placed(model, Wanted("new", 6, 2, 60))
    assert sorted(replicas[0] for replicas in found) == [0, 0, 1, 1, 2, 2], "leaders"
    assert sorted(broker for replicas in found for broker in replicas) == [0] * 4 + [1] * 4 + [2] * 4


def test_replicas_go_to_different_racks_and_hosts() -> None:
    model = model_of([((0,), 1)], racks=[0, 0, 1, 1])
    found = placed(model, Wanted("new", 8, 2, 8), replace(ANYWHERE, racks=True))
    assert all({broker // 2 for broker in replicas} == {0, 1} for replicas in found)
    model = model_of([((0,), 1)], racks=[0] * 3, hosts=[0, 0, 1])
    assert all(2 in replicas for replicas in placed(model, Wanted("new", 4, 2, 8), replace(ANYWHERE, hosts=True)))


@pytest.mark.parametrize(
    "rules",
    [
        replace(ANYWHERE, cordoned=(1,)),
        replace(ANYWHERE, drained=(1,)),
        replace(ANYWHERE, excluded_brokers=(1,)),
        replace(ANYWHERE, pinned={"t": (0, 2)}),
        replace(ANYWHERE, replicas_per_broker_max=5),
    ],
)
def test_brokers_that_take_nothing_get_nothing(rules: Rules) -> None:
    model = model_of([((0,), 10), ((2,), 10)] + [((1,), 0.001)] * 5, racks=[0] * 3, topics={2: "u", 3: "u"})
    grown = Wanted("t", 5 + 4, 1, 20)
    assert 1 in [replicas[0] for replicas in placed(model, grown)]
    assert all(1 not in replicas for replicas in placed(model, grown, rules))


def test_dead_brokers_and_disks_get_nothing() -> None:
    model = model_of([((0,), 10)], racks=[0] * 3, disks=2, dead=[1], dead_disks=[4])
    found = placement_plan(model, ANYWHERE, Wanted("new", 6, 1, 6))["reassignment"]["partitions"]
    assert {each["replicas"][0] for each in found} == {0, 2}
    assert all(each["log_dirs"] == ["/d1"] for each in found if each["replicas"] == [2])


def test_what_does_not_fit_finds_no_place_and_why_is_said() -> None:
    model = model_of([((0,), 10), ((1,), 10)], racks=[0, 0], capacity=100)
    with pytest.raises(NoPlace, match=r"new-0 finds no broker for replica 1 of 1; .* capacity.net_in: 2"):
        place(model, ANYWHERE, Wanted("new", 1, 1, 95))
    with pytest.raises(NoPlace, match=r"new-0 finds no broker for replica 2 of 2; .* cordoned.*: 1, one replica of a"):
        place(model, replace(ANYWHERE, cordoned=(1,)), Wanted("new", 1, 2, 1))
    flights = (Flight("t", 0, (1,)),)
    place(model, ANYWHERE, Wanted("new", 1, 1, 40))
    with pytest.raises(NoPlace):
        place(model, replace(ANYWHERE, in_flight=flights, cordoned=(0,)), Wanted("new", 1, 1, 40))


def test_a_topic_that_grows_keeps_what_it_has() -> None:
    model = model_of([((0, 1), 10), ((1, 0), 10)], racks=[0] * 4)
    found = placement_plan(model, ANYWHERE, Wanted("t", 4, 2, 40))
    assert found["replica_assignment"].startswith("0:1,1:0,")
    new = found["reassignment"]["partitions"]
    assert [each["partition"] for each in new] == [2, 3]
    assert {broker for each in new for broker in each["replicas"]} == {2, 3}


def test_what_a_replica_will_cost_is_what_replicas_here_cost() -> None:
    model = skewed(Shape(6, 30, disks=2, topics=3))
    placement = place(model, Rules(), Wanted("new", 10, 3, 3e6))
    leads = model.leads()
    assert np.isclose(placement.leading[4], 3e5)
    assert np.isclose(placement.leading[0] / 3e5, model.leading[leads, 0].sum() / model.leading[leads, 4].sum())
    after = extended(model, Wanted("new", 10, 3, 3e6), placement)
    assert np.isclose(after.load()[:, 4].sum() - model.load()[:, 4].sum(), 3 * 3e6)
    assert after.replicas == model.replicas + 30
    assert (after.leader[np.isin(after.topic, [after.topics.index("new")])] % 3 == 0).all()


def test_an_empty_cluster_takes_a_topic() -> None:
    model = model_of([((0,), 0)], racks=[0, 0])
    found = placement_plan(model, ANYWHERE, Wanted("new", 4, 2, 40))
    assert "nothing is written here yet" in found["estimates"][0]
    assert found["after"]["leaders"] is not None


def round_robin(model: Model, wanted: Wanted) -> Placement:
    """One broker after the other, as if all carried the same."""
    brokers = len(model.brokers.ids)
    ours = place(model, Rules(), wanted)
    disks = tuple(
        tuple(int(model.disks.first[(number + at) % brokers]) for at in range(wanted.factor))
        for number in range(wanted.partitions)
    )
    return replace(ours, disks=disks)


@pytest.mark.parametrize("seed", range(1, 6))
def test_it_is_more_even_than_round_robin(seed: int) -> None:
    model = skewed(Shape(12, 200, disks=2, topics=10, skew=0.4, fill=0.3, seed=seed))
    wanted = Wanted("new", 24, 3, float(model.load()[model.leads(), 4].sum()) / 3)
    ours = spread(extended(model, wanted, place(model, Rules(), wanted)), Rules())
    theirs = spread(extended(model, wanted, round_robin(model, wanted)), Rules())
    for name in ("cpu", "bytes", "disk_write", "net_in", "net_out"):
        mine, other = ours[name], theirs[name]
        assert mine is not None
        assert other is not None
        assert mine[1] - mine[0] < 0.7 * (other[1] - other[0]), name


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(skewed(Shape(6, 12, disks=2, topics=2)), tmp_path / "model")

    def planned(*words: str) -> tuple[int, str]:
        words = ("--model", str(tmp_path / "model"), "--replication-factor", "3", *words)
        code = main(["guardian", "topics", "plan", *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    wanted = ("--topic", "new", "--partitions", "4", "--rate", "1000")
    code, said = planned(*wanted, "--json")
    found: dict[str, Any] = json.loads(said)
    assert code == 0
    assert len(found["replica_assignment"].split(",")) == 4
    assert [each["topic"] for each in found["reassignment"]["partitions"]] == ["new"] * 4
    assert planned(*wanted, "--json") == (code, said), "the same every time"
    code, said = planned(*wanted)
    assert said.startswith(f"--replica-assignment {found['replica_assignment']}\n")
    for words, wrong in (
        (("--topic", "topic-000000", "--partitions", "1", "--rate", "1"), "partitions already"),
        (("--topic", "new", "--partitions", "0", "--rate", "1"), "there must be 1 at least"),
        (("--topic", "new", "--partitions", "100000", "--rate", "1"), "at most 200,000 in all"),
        (("--topic", "new", "--partitions", "1", "--rate", "nan"), "it must be 0 to"),
        (("--topic", "new", "--partitions", "1", "--rate", "1e14"), "finds no broker for replica 1 of 3"),
        (("--topic", "", "--partitions", "1", "--rate", "1"), "a name has 1 to 249"),
        ((*wanted, "--replication-factor", "7"), "it must be 1 to 6, the brokers"),
    ):
        code, said = planned(*words)
        assert code != 0
        assert wrong in said
