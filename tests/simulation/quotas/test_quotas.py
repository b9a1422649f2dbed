"""Client quotas in simulated clusters: what was answered survives, and is the same on every broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.metadata import records
from penstock.metadata.client_quotas import ClientQuotas
from penstock.quota.levels import Entity, QuotaValues
from simulator.quotas.admins import SURVIVES
from simulator.quotas.scenarios import QUOTA_SCENARIOS
from simulator.quotas.world import EVERYWHERE, QuotaWorld
from simulator.world.checks import Violation

SEED = 1_000
"""One each: more are run by `make simulate`."""
SCENARIO = QUOTA_SCENARIOS["quotas"]
TRIED_SEEDS = 6


def test_quotas_survive_every_failover() -> None:
    world = QuotaWorld(SEED, SCENARIO)
    world.run()
    assert world.quota_admin.changes > 10
    assert len(world.quota_admin.known) > 3
    assert sum(world.faults.happened.values()) > 0


def found(patch: pytest.MonkeyPatch, owner: Any, name: str, planted: Any) -> str:
    """The rule that a planted fault breaks."""
    patch.setattr(owner, name, planted)
    for seed in range(1, TRIED_SEEDS + 1):
        try:
            QuotaWorld(seed, SCENARIO).run()
        except Violation as broken:
            return str(broken)
    return "none"


@pytest.mark.slow
def test_planted_a_checkpoint_without_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    said = found(monkeypatch, records, "quota_records", lambda quotas: ())
    assert SURVIVES in said or EVERYWHERE in said


@pytest.mark.slow
def test_planted_a_deletion_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ClientQuotas.with_changes

    def without_deletions(quotas: ClientQuotas, changes: Mapping[Entity, QuotaValues]) -> ClientQuotas:
        return real(quotas, {entity: values for entity, values in changes.items() if values})

    assert SURVIVES in found(monkeypatch, ClientQuotas, "with_changes", without_deletions)
