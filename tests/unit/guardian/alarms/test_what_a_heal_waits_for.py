"""A plan that heals takes a replica from where it is dead: it neither waits for it nor holds it back."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.sights import CLUSTER, START_MS

from penstock.guardian.core.work.admission import state_obstacle
from penstock.guardian.core.work.looks import Look, Placed
from penstock.guardian.core.work.plans import HEAL, RUNNING, Move, Plan
from penstock.guardian.core.work.throttles import wanted_limits

MOVE = Move(1, "t", UUID(int=1), 0, 1, (3, 1, 2), (4, 1, 2))


def plan(action: str) -> Plan:
    return Plan(1, CLUSTER.id, action, "User:ann", START_MS, rate_bytes=1_000, thin=True, state=RUNNING, moves=(MOVE,))


def look(*in_sync: int) -> Look:
    found = Look(frozenset((1, 2, 4)), min_isr={"t": 2})
    found.partitions["t", 0] = Placed((3, 1, 2), in_sync, 1)
    return found


@pytest.mark.parametrize(
    ("action", "in_sync", "said"),
    [
        (HEAL, (1, 2), None),
        (HEAL, (1,), "the replicas on broker 2 are not in sync"),
        ("balance", (1, 2), "the replicas on broker 3 are not in sync"),
    ],
)
def test_only_the_dead_replica_is_not_waited_for(action: str, in_sync: tuple[int, ...], said: str | None) -> None:
    found = state_obstacle(plan(action), MOVE, look(*in_sync))
    assert (found.sentence if found is not None else None) == said


def test_a_dead_broker_gets_no_throttle() -> None:
    """It could not be set there, and the move would wait for it for ever."""
    limits = wanted_limits([(plan(HEAL), MOVE)], 1_000)
    assert sorted(name for kind, name, _ in limits if kind == "broker") == ["1", "2", "4"]
    assert "3" in [name for kind, name, _ in wanted_limits([(plan("balance"), MOVE)], 1_000) if kind == "broker"]
