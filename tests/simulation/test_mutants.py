"""Faults that were once in the code are found again, each by the seed that is known to do so, or one soon after it."""

from __future__ import annotations

import pytest
from mutation_score import score
from support.mutants import MUTANTS, UNSEEN

TRIED_SEEDS = 8
FOUND = [name for name, mutant in MUTANTS.items() if mutant.found_by is not None]


@pytest.mark.long
@pytest.mark.parametrize("name", FOUND)
def test_a_past_fault_is_found_again(name: str) -> None:
    mutant = MUTANTS[name]
    assert mutant.found_by is not None
    found = score(name, mutant.scenario, range(mutant.found_by, mutant.found_by + TRIED_SEEDS))
    assert found.seed is not None
    assert found.rule.startswith(mutant.rules)


@pytest.mark.parametrize("name", [*MUTANTS, *UNSEEN])
def test_what_is_planted_is_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The names that a plant takes the place of still exist, whether anything finds it or not."""
    plant = UNSEEN[name] if name in UNSEEN else MUTANTS[name].plant
    plant(monkeypatch)
