"""Client quotas in simulated clusters: what was answered survives, and is the same on every broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.metadata import records
from penstock.metadata.client_quotas import ClientQuotas
from penstock.node.connection import Connection
from penstock.quota import levels
from penstock.quota.levels import Entity, QuotaValues
from penstock.quota.rate import Rate
from penstock.quota.usages import Usage
from simulator.quotas.admins import SURVIVES
from simulator.quotas.scenarios import QUOTA_SCENARIOS
from simulator.quotas.slowed import HELD, MUTE, ONCE, SPECIFIC
from simulator.quotas.world import EVERYWHERE, QuotaWorld
from simulator.world.checks import Violation

SEED = 1_000
"""One each: more are run by `make simulate`."""
SCENARIO = QUOTA_SCENARIOS["quotas"]
TRIED_SEEDS = 60


def test_quotas_survive_every_failover() -> None:
    world = QuotaWorld(SEED, SCENARIO)
    world.run()
    assert world.quota_admin.changes > 5
    assert sum(watch.slowed for watch in world.watches) > 0
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

    said = found(monkeypatch, ClientQuotas, "with_changes", without_deletions)
    assert SURVIVES in said or EVERYWHERE in said, "a node that has read a checkpoint knows better"


@pytest.mark.slow
def test_planted_frames_that_slip_through_a_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "unmute", lambda *_: None)
    assert MUTE in found(monkeypatch, Connection, "mute", lambda *_: None)


@pytest.mark.slow
def test_planted_bytes_that_are_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Usage.count

    def twice(usage: Usage, amount: float, now_ms: int) -> int:
        real(usage, amount, now_ms)
        return real(usage, amount, now_ms)

    assert ONCE in found(monkeypatch, Usage, "count", twice)


@pytest.mark.slow
def test_planted_a_window_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(rate: Rate, now_ms: int) -> None:
        del rate._samples[:-1]
        rate._total = rate._samples[-1][2] if rate._samples else 0.0

    assert HELD in found(monkeypatch, Rate, "forget", forget)


@pytest.mark.slow
def test_planted_the_wrong_level(monkeypatch: pytest.MonkeyPatch) -> None:
    real = levels.levels_of
    planted = lambda user, client_id: tuple(reversed(real(user, client_id)))  # noqa: E731 - one fault, in one line
    assert SPECIFIC in found(monkeypatch, levels, "levels_of", planted)
