"""Whoever leads, and whatever is lost: each move is asked for once, within caps, with all replicas in sync, after its
intent was committed and by who holds the lease; and no throttle is left. Each rule is shown to find a planted fault.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from support.fake_cluster import FakeCluster
from support.plans_at_work import AtWork, reassigning

from penstock.guardian.core.work import admission, executor, throttling
from penstock.guardian.core.work.plans import ENDED_MOVES, VERIFIED, Move
from penstock.guardian.core.work.steps import Write

BROKERS, PARTITIONS = 5, 8
FINAL_MS = 200_000
LATE_MS = 300
"""What is found by a look is acted on within so long."""


class Story:
    """One run: a plan, and what happens meanwhile."""

    def __init__(self, seed: int, changes: list[tuple[int, str]], lost: float) -> None:
        random = Random(seed)
        self.cluster = FakeCluster(BROKERS, copies_ms=random.choice((300, 3_000)), min_isr=1)
        brokers = range(1, BROKERS + 1)
        self.before = [random.sample(brokers, 3) for _ in range(PARTITIONS)]
        self.cluster.add("a", *self.before)
        self.target = []
        for replicas in self.before:
            outside = [each for each in brokers if each not in replicas]
            target = list(replicas)
            target[random.randrange(3)] = random.choice(outside)
            random.shuffle(target)
            self.target.append(target)
        self.work = AtWork(self.cluster, seed, lost=lost)
        self.changes = changes
        self.random = random

    def run(self) -> None:
        """Runs to the end, and checks."""
        work = self.work
        work.run(self.random.randrange(1_000))
        plan = reassigning(
            *(("a", index, target) for index, target in enumerate(self.target)),
            leaders=[{"topic": "a", "partition": index, "broker": each[0]} for index, each in enumerate(self.target)],
        )
        number = work.submit(plan, rate_bytes=2_000_000, caps={"cluster": 3, "broker_in": 2})
        for delay_ms, change in self.changes:
            work.run(delay_ms)
            self.befall(change)
        self.cluster.alive = set(range(1, BROKERS + 1))
        work.node.lease = True
        work.finish(number, FINAL_MS)
        self.check(work.moves(number))

    def befall(self, change: str) -> None:
        """One thing that happens."""
        match change:
            case "leader":
                self.work.depose()
            case "lease":
                self.work.node.lease = not self.work.node.lease
            case "broker":
                broker = self.random.randrange(1, BROKERS + 1)
                if len(self.cluster.alive) == BROKERS:
                    self.cluster.alive.discard(broker)
                else:
                    self.cluster.alive = set(range(1, BROKERS + 1))

    def check(self, moves: list[Move]) -> None:
        """What must be true at the end."""
        cluster = self.cluster
        assert all(move.state in ENDED_MOVES for move in moves)
        for move in moves:
            part = cluster.part("a", move.partition)
            assert part.target is None
            if move.state == VERIFIED:
                assert part.replicas == self.target[move.partition]
                assert cluster.begun["a", move.partition] == 1
        assert cluster.most["all"] <= 3, "the cap of the cluster"
        assert max(cluster.most[each] for each in range(1, BROKERS + 1)) <= 2, "the cap of a broker"
        assert cluster.thin_ms < LATE_MS, "all replicas were in sync when a move began"
        assert cluster.configs == {}, "no throttle is left"


changes = st.lists(
    st.tuples(st.integers(10, 2_500), st.sampled_from(["leader", "leader", "lease", "broker"])), max_size=12
)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), changes=changes, lost=st.sampled_from([0.0, 0.1, 0.3]))
def test_whoever_leads(seed: int, changes: list[tuple[int, str]], lost: float) -> None:
    Story(seed, changes, lost).run()


def stories() -> list[Story]:
    """Some runs in which much happens."""
    found = []
    for seed in range(25):
        random = Random(seed)
        some = [(random.randrange(10, 2_500), random.choice(("leader", "lease", "broker"))) for _ in range(12)]
        found.append(Story(seed, some, 0.1))
    return found


def run_all(some: list[Story]) -> None:
    for story in some:
        story.run()


Plant = Callable[[pytest.MonkeyPatch], None]


def the_intent_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    real = executor.Executor._do

    def do(one: executor.Executor, running: Any, step: Any, now_ms: int) -> None:
        if isinstance(step, Write):
            one.write(step.records, lambda *_: None, now_ms)
            one._go_on(running, running.turn, None, now_ms)
        else:
            real(one, running, step, now_ms)

    patch.setattr(executor.Executor, "_do", do)


def the_lease_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(executor.Executor, "may_act", lambda one, now_ms: True)


def throttles_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(throttling.Throttling, "restore", lambda one, look: iter(()))
    patch.setattr(throttling.Throttling, "left_behind", lambda one, look: False)


def nobody_asks_who_is_in_sync(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "state_obstacle", lambda plan, move, look: None)


def caps_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission.InFlight, "add", lambda one, move, look: None)


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (the_intent_is_not_waited_for, "is asked for when it is"),
        (the_lease_is_ignored, "without the lease"),
        (throttles_are_forgotten, "no throttle is left"),
        (nobody_asks_who_is_in_sync, "all replicas were in sync"),
        (caps_are_not_counted, "the cap of"),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_planted_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant, said: str) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError, match=said):
        run_all(stories())
