"""Every planted fault is found: in CI by the seed that found it, in `make test-all` by searching."""

from __future__ import annotations

import pytest
from support import cluster_mutations, compacted_mutations
from support.cluster_mutations import Mutation

from simulator.worlds import WORLDS

MUTATIONS = {**cluster_mutations.MUTATIONS, **compacted_mutations.MUTATIONS}
TRIED_SEEDS = 12
SEARCHED_SEEDS = 200


@pytest.mark.long
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_fault_is_found_where_it_was_found_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    mutation.plant(monkeypatch)
    assert found(mutation, range(mutation.found_by, mutation.found_by + TRIED_SEEDS)) is not None


@pytest.mark.long
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_fault_is_found_within_two_hundred_seeds(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    mutation.plant(monkeypatch)
    assert found(mutation, range(10_000, 10_000 + SEARCHED_SEEDS)) is not None


def found(mutation: Mutation, seeds: range) -> int | None:
    """The first seed that finds a fault, by a rule that names it."""
    for seed in seeds:
        try:
            WORLDS[mutation.scenario](seed)
        except Exception as error:
            if mutation.breaks(error):
                return seed
    return None
