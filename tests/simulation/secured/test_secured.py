"""Users and their rights in simulated clusters: seeds keep every rule, and a planted fault breaks the one it should."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import chain

import pytest
from support.secured_mutations import MUTATIONS

from simulator.secured.scenarios import SECURED_SCENARIOS
from simulator.secured.world import SecuredWorld
from simulator.worlds import WORLDS

SEED = 1_000
"""One each: more are run by `make simulate`."""
SEARCHED_SEEDS = 60


@pytest.fixture(autouse=True)
def collected_between_tests() -> Iterator[None]:
    """A world is one large cycle: it is collected when it is over, and not while it runs."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("name", SECURED_SCENARIOS)
def test_who_may_do_what_is_decided_by_the_image(name: str) -> None:
    world = SecuredWorld(SEED, SECURED_SCENARIOS[name])
    world.run()
    assert sum(rules.judged for rules in world.rules.values()) > 50
    assert sum(rules.judged_elsewhere for rules in world.rules.values()) > 5, "in an Envelope"
    assert sum(guest.answers for guest in world.guests) > sum(guest.refusals for guest in world.guests) > 5
    assert world.acl_admin.changes > 5
    assert world.holder.changes > 5
    assert sum(bearer.logins for bearer in world.holder.bearers) > 5
    assert sum(bearer.login.refusals for bearer in world.holder.bearers) > 1


def test_a_process_that_stood_still_serves_no_session_for_longer() -> None:
    SecuredWorld(1, SECURED_SCENARIOS["secured"]).run()


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    mutation.plant(monkeypatch)
    found = []
    for seed in chain([mutation.found_by], range(1, SEARCHED_SEEDS + 1)):
        try:
            WORLDS[mutation.scenario](seed)
        except Exception as error:
            found.append(str(error)[:300])
            if mutation.breaks(error):
                return
    pytest.fail(f"not found; others: {found}")
