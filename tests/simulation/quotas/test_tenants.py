"""Tenants in simulated clusters: who has many connections has no more turns than who has one."""

from __future__ import annotations

import pytest

from penstock.node.connection import Connection
from penstock.node.tenants import Tenants
from simulator.quotas.sharing import GREEDY, MODEST, TENANT_SCENARIOS, TENANTS_IN_TURN, TenantWorld
from simulator.world.checks import Violation

SEED = 1_000
"""One each: more are run by `make simulate`."""
SCENARIO = TENANT_SCENARIOS["tenants"]
TRIED_SEEDS = 5


def test_tenants_have_their_turns() -> None:
    world = TenantWorld(SEED, SCENARIO)
    world.run()
    assert sum(watch.waited for watch in world.watches) > 50, "the modest tenant had to wait"
    answers = {GREEDY: 0, MODEST: 0}
    for asker in world.askers:
        answers[asker.client.client_id] += asker.answers
    assert answers[GREEDY] > 5 * answers[MODEST] > 200


def test_planted_turns_of_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of the clients is a host of its own: without their client ids each connection is a tenant."""

    def by_connection(tenants: Tenants, connection: Connection, client_id: str | None) -> None:
        connection.named = client_id

    monkeypatch.setattr(Tenants, "named", by_connection)
    with pytest.raises(Violation, match=TENANTS_IN_TURN):
        run_some()


def run_some() -> None:
    for seed in range(1, TRIED_SEEDS + 1):
        TenantWorld(seed, SCENARIO).run()
