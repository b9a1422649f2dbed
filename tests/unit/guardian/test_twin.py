"""The twin: cases worked out by hand, to the second."""

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
from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import BYTES, Model
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.verifier import verify
from penstock.guardian.twin.changes import add, grow, kill
from penstock.guardian.twin.document import outcome_document
from penstock.guardian.twin.links import fair_rates
from penstock.guardian.twin.simulation import Outcome, Settings, simulate

FREE = 1e6
"""A capacity that bounds nothing."""


def idle(partitions: list[tuple[tuple[int, ...], float]], brokers: int, disks: int = 1) -> Model:
    """Replicas with bytes that cost nothing else; links of 100 bytes/s into and out of brokers, 1,000 a disk."""
    model = model_of(partitions, [0] * brokers, disks=disks, capacity=FREE)
    for load in (model.leading, model.following):
        load[:, [k for k in range(12) if k % 6 != BYTES]] = 0
    each = np.ones(brokers)
    return replace(
        model,
        brokers=replace(model.brokers, net_in_capacity=each * 100, net_out_capacity=each * 100),
        disks=replace(model.disks, rate_capacity=np.full(brokers * disks, 1_000.0)),
    )


def moves(*ways: tuple[int, str, Any, Any]) -> dict[str, Any]:
    """A plan by hand: partition of topic t, kind, from, to; a place is a broker, or a broker and a disk."""

    def end(kind: str, place: Any) -> dict[str, Any]:
        broker, disk = place if isinstance(place, tuple) else (place, 0)
        return {"broker": broker} if kind == "leader" else {"broker": broker, "dir": f"/d{disk}"}

    return {
        "moves": [
            {"id": number, "topic": "t", "partition": p, "kind": kind, "from": end(kind, a), "to": end(kind, b)}
            for number, (p, kind, a, b) in enumerate(ways, start=1)
        ]
    }


def run(model: Model, plan: dict[str, Any], **settings: Any) -> Outcome:
    return simulate(model, plan, Settings(**settings))


def test_one_copy_over_one_link_takes_its_bytes_by_its_rate() -> None:
    outcome = run(idle([((0,), 500)], 2), moves((0, "replica", 0, 1)))
    assert outcome.seconds == 5.0
    assert outcome.copied.tolist() == [500.0]
    assert outcome.peaks["net_out"].fraction == outcome.peaks["net_in"].fraction == 1.0
    assert outcome.peaks["disk_rate"].fraction == 0.1
    assert outcome.disk.tolist() == [1]


def test_two_copies_share_a_link_and_the_longer_one_then_has_it_alone() -> None:
    """Both at 50 bytes/s until 4 s; the 100 bytes that are left go at 100."""
    outcome = run(idle([((0,), 200), ((0,), 300)], 2), moves((0, "replica", 0, 1), (1, "replica", 0, 1)))
    assert outcome.ends.tolist() == [4.0, 5.0]


def test_one_after_the_other_where_only_one_may_copy_at_once() -> None:
    plan = moves((0, "replica", 0, 1), (1, "replica", 0, 1))
    outcome = run(idle([((0,), 200), ((0,), 300)], 2), plan, copies_per_broker=1)
    assert outcome.ends.tolist() == [2.0, 5.0]


def test_copies_over_different_links_do_not_wait_for_each_other() -> None:
    outcome = run(idle([((0,), 200), ((2,), 300)], 4), moves((0, "replica", 0, 1), (1, "replica", 2, 3)))
    assert outcome.ends.tolist() == [2.0, 3.0]


def test_between_disks_of_a_broker_only_the_disks_count() -> None:
    outcome = run(idle([((0,), 5_000)], 1, disks=2), moves((0, "disk", 0, (0, 1))))
    assert outcome.seconds == 5.0
    assert outcome.peaks["net_in"].fraction == 0.0
    assert outcome.carried.tolist()[:2] == [5_000.0, 5_000.0]


def test_a_rate_bounds_the_copies_of_a_broker() -> None:
    plan = moves((0, "replica", 0, 1), (1, "replica", 0, 1))
    assert run(idle([((0,), 100), ((0,), 100)], 2), plan, rate=20.0).ends.tolist() == [10.0, 10.0]


def test_what_is_there_anyhow_leaves_less_to_copies() -> None:
    model = idle([((0,), 400), ((0,), 10)], 2)
    model.leading[1, 5] = model.leading[1, 11] = 60  # of network out, so that 40 are left
    outcome = run(model, moves((0, "replica", 0, 1)))
    assert outcome.seconds == 10.0
    assert outcome.peaks["net_out"].fraction == 1.0
    assert outcome.end.tolist() == outcome.begin.tolist()


def test_on_a_full_link_copies_get_a_twentieth() -> None:
    model = idle([((0,), 10), ((0,), 10)], 2)
    model.leading[1, 5] = 200
    outcome = run(model, moves((0, "replica", 0, 1)))
    assert outcome.seconds == 2.0
    assert outcome.peaks["net_out"].fraction == 2.05


def test_what_is_written_meanwhile_is_copied_too() -> None:
    model = idle([((0,), 500)], 2)
    model.following[0, 4] = 20  # comes in at 20 bytes/s, so the copy gains 80
    outcome = run(model, moves((0, "replica", 0, 1)))
    assert outcome.seconds == 6.25
    assert outcome.copied.tolist() == [625.0]


def test_a_copy_that_is_slower_than_its_writers_waits_until_it_has_more_room() -> None:
    """At 15 bytes/s of 20 that are written it falls behind by 100/3 until the other ends; then it gains 10."""
    model = idle([((0,), 500), ((1,), 100)], 3)
    model.following[0, 4] = 20
    outcome = run(model, moves((0, "replica", 0, 2), (1, "replica", 1, 2)), rate=30.0)
    assert np.allclose(outcome.ends, [60.0, 100 / 15])


def test_a_copy_that_is_always_slower_than_its_writers_never_ends() -> None:
    model = idle([((0,), 500), ((1,), 100)], 3)
    model.following[0, 4] = 20
    plan = moves((0, "replica", 0, 2), (1, "replica", 1, 2))
    outcome = run(model, plan, rate=20.0)
    assert outcome.ends[1] == 10.0
    document = outcome_document(model, plan, outcome)
    assert document["never"] == [{"id": 1, "topic": "t", "partition": 0}]
    assert document["finish"] == {"min": 10.0, "median": 10.0, "max": 10.0}


def test_the_leader_changes_when_the_copies_of_its_partition_have_ended() -> None:
    model = idle([((0, 1), 500)], 3)
    model.leading[:, 5] = 30  # who leads sends 30 bytes/s
    outcome = run(model, moves((0, "leader", 0, 2), (0, "replica", 1, 2)))
    assert outcome.ends.tolist() == [500 / 70] * 2
    brokers = 3
    out = outcome.end[3 + brokers :]
    assert out.tolist() == [0.0, 0.0, 0.3]
    assert run(model, moves((0, "leader", 0, 1))).ends.tolist() == [0.0]


def test_bytes_are_on_both_disks_while_they_are_copied() -> None:
    model = idle([((0,), 300), ((1,), 100)], 2)
    model = replace(model, disks=replace(model.disks, bytes_capacity=np.array([400.0, 350.0])))
    outcome = run(model, moves((0, "replica", 0, 1), (1, "replica", 1, 0)))
    first, most, last = outcome.full
    assert first.tolist() == [0.75, 100 / 350]
    assert most.tolist() == [1.0, 400 / 350]
    assert last.tolist() == [0.25, 300 / 350]
    found = outcome_document(model, moves((0, "replica", 0, 1), (1, "replica", 1, 0)), outcome)["over"]
    assert [each["place"] for each in found["meanwhile_bytes"]["worst"]] == ["broker 1, /d0"]
    assert found["before"]["count"] == found["after"]["count"] == 0


def test_from_what_is_dead_nothing_is_copied() -> None:
    model = kill(idle([((0,), 100), ((0, 1), 100)], 3), [0])
    assert model.leader.tolist() == [0, 2]
    outcome = run(model, moves((0, "replica", 0, 2), (1, "replica", 0, 2)))
    assert np.isnan(outcome.ends[0])
    assert outcome.ends[1] == 1.0


def test_fair_rates() -> None:
    """Three copies over a link of 30, one of them also over one of 4: it has 4, the others 13 each."""
    rates = fair_rates(np.array([30.0, 4.0]), np.array([[0, 1], [0, -1], [0, -1]]))
    assert rates.tolist() == [4.0, 13.0, 13.0]
    assert fair_rates(np.array([0.0]), np.array([[0]])).tolist() == [0.0]


def test_brokers_come_where_racks_are_smallest_and_are_filled() -> None:
    model = add(skewed(Shape(7, 60, disks=2, racks=3, topics=3)), 2)
    assert model.brokers.ids.tolist() == list(range(9))
    assert model.brokers.rack[7:].tolist() == [1, 2]
    assert model.disks.dirs[-2:] == ("/data/0", "/data/1")
    found = plan(model, Rules(), 1)
    assert verify(model, Rules(), found) == []
    outcome = simulate(model, found, Settings())
    assert not np.isnan(outcome.ends).any()
    assert np.bincount(model.disks.broker[outcome.disk], minlength=9)[7:].min() > 0


def test_a_topic_grows() -> None:
    model = skewed(Shape(6, 30, disks=2, topics=3))
    grown = grow(model, "topic-000001", 3.0)
    mine = (model.topic == 1)[model.partition]
    assert np.allclose(grown.load()[mine], 3 * model.load()[mine])
    assert np.array_equal(grown.load()[~mine], model.load()[~mine])


@pytest.mark.parametrize("seed", range(1, 4))
def test_the_twin_ends_where_the_plan_ends_and_no_byte_is_lost(seed: int) -> None:
    model = skewed(Shape(9, 60, disks=2, topics=5, seed=seed))
    found = plan(model, Rules(), seed)
    outcome = simulate(model, found, Settings(rate=3e7, copies_per_broker=3))
    brokers = {(each["topic"], each["partition"]): each["replicas"] for each in found["partitions"]}
    for p in range(len(model.topic)):
        name = (model.topics[model.topic[p]], int(model.number[p]))
        ids = model.brokers.ids[model.disks.broker[outcome.disk[model.first[p] : model.first[p + 1]]]].tolist()
        if name in brokers:
            assert sorted(ids) == sorted(brokers[name])
            leader = int(model.brokers.ids[model.disks.broker[outcome.disk[outcome.leader[p]]]])
            assert leader == brokers[name][0]
    disks, count = len(model.disks.broker), len(model.brokers.ids)
    sent = outcome.carried[disks + count : disks + 2 * count].sum()
    assert np.isclose(outcome.carried[disks : disks + count].sum(), sent)
    between = [at for at, each in enumerate(found["moves"]) if each["kind"] in ("replica", "swap")]
    assert np.isclose(sent, outcome.copied[between].sum())
    assert np.isclose(outcome.carried[:disks].sum(), 2 * outcome.copied.sum())
    load = model.following.copy()
    load[outcome.leader] = model.leading[outcome.leader]
    rate = np.bincount(outcome.disk, load[:, 2] + load[:, 3], disks) / model.disks.rate_capacity
    assert np.allclose(outcome.end[:disks], rate), "what is used at last is what is there then"
    assert all(each["bytes"] <= outcome.copied[at] * (1 + 1e-9) + 1 for at, each in enumerate(found["moves"]))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_model(skewed(Shape(6, 12, disks=2, topics=2)), tmp_path / "model")

    def asked(*words: str) -> tuple[int, str]:
        code = main(["guardian", "twin", "--model", str(tmp_path / "model"), *words])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    assert main(["guardian", "plan", "--model", str(tmp_path / "model"), "--json"]) == 0
    (tmp_path / "plan.json").write_text(capsys.readouterr().out)
    code, said = asked("--plan", str(tmp_path / "plan.json"), "--copies", "1", "--rate", "1e9", "--json")
    found = json.loads(said)
    assert (code, found["never"]) == (0, [])
    assert 0 < found["finish"]["median"] <= found["seconds"]
    assert asked("--copies", "1", "--rate", "1e9", "--json") == (code, said), "the same plan, made anew, takes the same"
    for words in (("--kill", "3"), ("--add", "2"), ("--grow", "topic-000001=3")):
        code, said = asked(*words)
        assert " copied in " in said
    for words, wrong in (
        (("--kill", "9"), "--kill 9: the model has no such broker"),
        (("--add", "-1"), "it must be 0 to 1,000"),
        (("--grow", "topic-00000=3"), "the model has no topic topic-00000; did you mean"),
        (("--grow", "topic-000001=0"), "it must be a number above 0"),
        (("--rate", "0"), "--rate 0: it must be above 0"),
        (("--copies", "0"), "--copies 0: it must be 1 at least"),
        (("--plan", str(tmp_path / "plan.json"), "--add", "1"), "a plan is for a model as it is"),
        (("--plan", str(tmp_path / "none.json")), "No such file"),
    ):
        code, said = asked(*words)
        assert code != 0
        assert wrong in said
    (tmp_path / "plan.json").write_text("{}")
    code, said = asked("--plan", str(tmp_path / "plan.json"))
    assert code == 1
    assert "does not fit the model: the plan has no version" in said
