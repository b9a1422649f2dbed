"""Three nodes of Guardian whose leader fails in every way: nothing is lost, nothing is done twice, one acts.

Each rule is shown to catch a planted bug.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from penstock.guardian.core import answering, quorum, state
from penstock.guardian.core.calls import Call, Known
from penstock.guardian.core.committed import Committed
from penstock.guardian.core.leader import Leader
from penstock.guardian.core.lease import Lease
from penstock.guardian.core.quorum import GuardianQuorum
from penstock.raft.core import Core
from penstock.raft.driver import Driver
from penstock.raft.states import Progress
from simulator.guardian.world import ANSWERED_ONCE, AS_OLD_AS_TOLD, ONE_ACTS, SAME, GuardianWorld
from simulator.world.checks import Violation

SEEDS = 10
TRIED_SEEDS = 200


@pytest.mark.slow
def test_what_was_answered_survives_and_one_node_acts(monkeypatch: pytest.MonkeyPatch) -> None:
    installed: list[int] = []
    real = Driver.snapshot_installed

    def noted(driver: Driver, *what: Any) -> None:
        installed.append(1)
        real(driver, *what)

    monkeypatch.setattr(Driver, "snapshot_installed", noted)
    changes = reads = failovers = 0
    for seed in range(1, SEEDS + 1):
        world = GuardianWorld(seed)
        world.run()
        changes += world.changes
        reads += world.reads
        failovers += world.failovers
    assert changes > 1_000
    assert reads > 1_000
    assert failovers > 10
    assert len(installed) > 0


def test_the_same_seed_gives_the_same_trace() -> None:
    assert GuardianWorld(3).run().trace_hash == GuardianWorld(3).run().trace_hash


def test_one_node_alone_is_a_quorum() -> None:
    world = GuardianWorld(1, nodes=1)
    world.run()
    assert world.changes > 30


Plant = Callable[[pytest.MonkeyPatch], None]


def the_lease_is_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Lease, "holds", lambda lease, contact_ms, now_ms: contact_ms is not None)


def voters_promise_nothing(patch: pytest.MonkeyPatch) -> None:
    real = quorum.raft_config
    patch.setattr(quorum, "raft_config", lambda settings: replace(real(settings), lease_ms=0, leader_grace_ms=20))


def a_lost_answer_counts_as_contact(patch: pytest.MonkeyPatch) -> None:
    """A fetch over any connection shows that the answer before it has arrived."""
    real = Progress.fetched

    def fetched(progress: Progress, offset: int, leader_end_offset: int, link: object, now_ms: int) -> None:
        real(progress, offset, leader_end_offset, progress.answered_link, now_ms)

    patch.setattr(Progress, "fetched", fetched)


def a_later_epoch_ends_a_promise(patch: pytest.MonkeyPatch) -> None:
    """A voter that goes on to a later epoch forgets what its leader from before may still count on."""
    real = Core._become

    def become(core: Core, role: Any, now_ms: int) -> None:
        before_ms = core.leased_until_ms
        real(core, role, now_ms)
        core.leased_until_ms = before_ms

    patch.setattr(Core, "_become", become)


def a_change_is_answered_before_it_is_committed(patch: pytest.MonkeyPatch) -> None:
    real = Leader.change

    def change(leader: Leader, call: Any, answered: Any, *seen: Any, holds_lease: bool) -> None:
        before = len(leader._waiting)
        real(leader, call, answered, *seen, holds_lease=holds_lease)
        if len(leader._waiting) > before:
            answered(leader._waiting.pop().reply, seen[-1])

    patch.setattr(Leader, "change", change)


def request_ids_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    real = answering.decide

    def decide(known: Known, call: Call, new_id: Callable[[], UUID]) -> answering.Change:
        return real(replace(known, state=replace(known.state, commands={})), call, new_id)

    patch.setattr(answering, "decide", decide)


def reads_are_always_of_now(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GuardianQuorum, "age_ms", lambda one, now_ms: 0)


def a_snapshot_forgets_the_commands(patch: pytest.MonkeyPatch) -> None:
    real = state.snapshot_records
    patch.setattr("penstock.guardian.core.committed.snapshot_records", lambda found: real(replace(found, commands={})))


def what_was_not_committed_is_kept(patch: pytest.MonkeyPatch) -> None:
    """A leader that is deposed takes what it had appended for committed."""
    real = Leader.renounce

    def renounce(leader: Leader, now_ms: int) -> None:
        for each in leader._appended:
            leader._committed.state = each.state
        real(leader, now_ms)

    patch.setattr(Leader, "renounce", renounce)


def a_snapshot_is_not_loaded(patch: pytest.MonkeyPatch) -> None:
    def load(committed: Committed, snapshot: Any) -> None:
        committed.applied_offset = committed.high_watermark = snapshot.end_offset

    patch.setattr(Committed, "load_snapshot", load)


QUICK = {
    the_lease_is_ignored: (ONE_ACTS,),
    a_change_is_answered_before_it_is_committed: (ANSWERED_ONCE, AS_OLD_AS_TOLD),
    request_ids_are_forgotten: (ANSWERED_ONCE,),
    reads_are_always_of_now: (AS_OLD_AS_TOLD,),
}
SEARCHED = {
    voters_promise_nothing: (ONE_ACTS,),
    a_lost_answer_counts_as_contact: (ONE_ACTS,),
    a_later_epoch_ends_a_promise: (ONE_ACTS,),
    a_snapshot_forgets_the_commands: (ANSWERED_ONCE, SAME),
    what_was_not_committed_is_kept: (SAME, ANSWERED_ONCE, AS_OLD_AS_TOLD),
    a_snapshot_is_not_loaded: (SAME, ANSWERED_ONCE, AS_OLD_AS_TOLD),
}


def broken_by(seed: int) -> str:
    """What a seed says is broken; nothing if all holds."""
    try:
        GuardianWorld(seed).run()
    except Violation as broken:
        return str(broken)
    return ""


def hunt(patch: pytest.MonkeyPatch, plant: Plant, rules: tuple[str, ...]) -> None:
    """Runs seeds until one breaks a rule, which must be one of these."""
    plant(patch)
    said = next(filter(None, map(broken_by, range(1, TRIED_SEEDS + 1))), "nothing is found")
    assert said.startswith(rules)


@pytest.mark.parametrize("plant", QUICK)
def test_planted_is_found_at_once(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    hunt(monkeypatch, plant, QUICK[plant])


@pytest.mark.slow
@pytest.mark.parametrize("plant", SEARCHED)
def test_planted_is_found_by_search(monkeypatch: pytest.MonkeyPatch, plant: Plant) -> None:
    hunt(monkeypatch, plant, SEARCHED[plant])
