"""Consumer groups in simulated clusters: seeds keep every rule, and every planted fault breaks one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain

import pytest
from support.group_mutations import MUTATIONS, Mutation

from simulator.groups.scenarios import GROUP_SCENARIOS
from simulator.groups.world import GroupWorld
from simulator.world.checks import Violation

SEEDS = (1_000, 1_001)
MORE_SEEDS = range(1_002, 1_040)
SEARCHED_SEEDS = 60
REGRESSIONS = {
    "a join whose group cannot be stored is answered once": ("groups-storm", 7),
    "partitions of the last consumer stay without an owner when a classic member replaces it": (
        "groups-migration",
        2115,
    ),
    "the coordinator moves between a member's join and its sync": ("groups-zombies", 11),
    "what a member had is not given away when its group changes its protocol": ("groups-migration", 23),
    "who could not leave has no session any more": ("groups-storm", 2084),
    "a controller that will not commit refuses a change of replicas for ever": ("groups-zombies", 2073),
    "a coordinator leads again while its disk still writes": ("groups-storm", 12),
    "a coordinator cannot read its log once": ("groups-storm", 123),
    "an assignment that is not replicated in time is answered once": ("groups-zombies", 6),
    "partitions are withheld for a static member that came back and has none": ("groups-calm", 1015),
    "a static member is given again what another had in the generation that it missed": ("groups-storm", 415),
    "a classic member that was silent for a session is taken in again by a consumer group": ("groups-migration", 134),
    "a process that stands still does not stop before it goes on": ("groups-storm", 50),
    "a group that was classic for a moment gives its members another session": ("groups-migration", 507),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", GROUP_SCENARIOS)
def test_groups_keep_every_rule(name: str, seed: int) -> None:
    world = GroupWorld(seed, GROUP_SCENARIOS[name])
    world.run()
    assert (world.passes > 0) is GROUP_SCENARIOS[name].cleaned, "the cleaner has something to do where it should"


@pytest.mark.long
@pytest.mark.parametrize("seed", MORE_SEEDS)
@pytest.mark.parametrize("name", GROUP_SCENARIOS)
def test_groups_keep_every_rule_for_long(name: str, seed: int) -> None:
    GroupWorld(seed, GROUP_SCENARIOS[name]).run()


@pytest.mark.parametrize("found", REGRESSIONS)
def test_a_seed_that_once_failed(found: str) -> None:
    name, seed = REGRESSIONS[found]
    GroupWorld(seed, GROUP_SCENARIOS[name]).run()


@pytest.mark.slow
def test_coordinators_fail_and_members_are_fenced_while_groups_go_on() -> None:
    killed = fenced = commits = acquired = 0
    for seed in range(1, 5):
        world = GroupWorld(seed, GROUP_SCENARIOS["groups"])
        world.run()
        killed += world.faults.happened.get("coordinator_killed", 0)
        for group in world.groups:
            fenced += group.history.fenced
            commits += group.history.commits
            acquired += group.history.acquired
    assert killed > 5
    assert fenced > 3
    assert commits > 100
    assert acquired > 50


def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    printed = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulator.worlds", "--scenario", "groups-storm", "--seeds", "3"]
        printed.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1, printed


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTATIONS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutation = MUTATIONS[name]
    mutation.plant(monkeypatch)
    assert found(mutation, tried(mutation)) is not None


def tried(mutation: Mutation) -> Iterable[int]:
    """The seed that is known to find a fault, and others: a change of the code makes another world of each seed."""
    return chain([mutation.found_by], range(1, SEARCHED_SEEDS + 1))


def found(mutation: Mutation, seeds: Iterable[int]) -> int | None:
    """The first seed that finds a fault, by a rule that names it."""
    for seed in seeds:
        try:
            GroupWorld(seed, GROUP_SCENARIOS[mutation.scenario]).run()
        except Violation as violation:
            if mutation.breaks(violation):
                return seed
    return None
