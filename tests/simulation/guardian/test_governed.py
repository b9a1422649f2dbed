"""Plans on simulated clusters while Guardian's leader and brokers fail. Each rule is shown to catch a planted bug."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.guardian.core.lease import Lease
from penstock.guardian.core.work import admission
from penstock.guardian.core.work.executor import Executor
from penstock.guardian.core.work.steps import Write
from penstock.guardian.core.work.throttling import Throttling
from simulator.guardian import governed
from simulator.guardian.governed import (
    CAPS_HOLD,
    INTENDED_FIRST,
    NO_THROTTLE,
    GovernedWorld,
)
from simulator.guardian.world import ONE_ACTS
from simulator.world.checks import Violation

SEEDS = range(1, 4)
TRIED_SEEDS = range(1, 41)


@pytest.mark.slow
def test_plans_are_carried_out_whoever_leads() -> None:
    begun = failovers = 0
    for seed in SEEDS:
        world = GovernedWorld(seed)
        world.run()
        begun += sum(len(each.begun) for each in world.clusters)
        failovers += world.failovers
    assert begun > 10
    assert failovers > 3


Plant = Callable[[pytest.MonkeyPatch], None]


def the_intent_is_not_waited_for(patch: pytest.MonkeyPatch) -> None:
    real = Executor._do

    def do(one: Executor, running: Any, step: Any, now_ms: int) -> None:
        if isinstance(step, Write):
            one.write(step.records, lambda *_: None, now_ms)
            one._go_on(running, running.turn, None, now_ms)
        else:
            real(one, running, step, now_ms)

    patch.setattr(Executor, "_do", do)


def the_lease_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "holds", lambda lease, contact_ms, now_ms: contact_ms is not None)


def throttles_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    def forget(one: Throttling, look: Any) -> Iterator[Any]:
        from penstock.guardian.core.work.replaying import removal_record

        gone = [each for place, each in one._limits().items() if place not in one._wanted()]
        yield from one._worker.write([removal_record(each.key) for each in gone])

    patch.setattr(Throttling, "restore", forget)


def caps_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission, "cap_obstacle", lambda plan, move, look, flying: None)
    patch.setattr(admission.InFlight, "add", lambda one, move, look: None)


PLANTED = {
    the_intent_is_not_waited_for: INTENDED_FIRST,
    the_lease_is_ignored: ONE_ACTS,
    throttles_are_forgotten: NO_THROTTLE,
    caps_are_not_counted: CAPS_HOLD,
}


def broken_by(seed: int) -> str:
    """What a seed says is broken; nothing if all holds."""
    try:
        GovernedWorld(seed).run()
    except Violation as broken:
        return str(broken)
    return ""


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED)
def test_planted_is_found(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    plant(monkeypatch)
    monkeypatch.setattr(governed, "END_MS", 40_000)
    rule = PLANTED[plant]
    found = (said for said in map(broken_by, TRIED_SEEDS) if rule in said)  # a seed may break another rule first
    assert rule in next(found, "nothing is found")
