"""Clusters of three to five nodes, seed by seed, under every kind of fault."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from penstock.metadata.features import ELR_VERSION
from simulator.cluster.scenarios import SCENARIOS
from simulator.cluster.world import ClusterWorld

CLUSTERS = [name for name in SCENARIOS if name != "single"]
SEEDS = (1_000,)
"""One each: hundreds more are run by `make simulate`."""
MORE_SEEDS = range(1_001, 1_040)
REGRESSIONS = {
    "a broker that was fenced rejoins the ISRs of idle partitions": ("crashes", 2),
    "an answer whose file was cut meanwhile": ("network", 101),
    "a leader that was cut off refuses a sequence": ("storm", 38),
    "retention looks at a log that has closed for a swap": ("directories", 8010),
    "a forwarded request that times out names its topics": ("storm", 22),
    "a leader that stops is not answered by one of the others": ("crashes", 7308),
    "a refusal spoke of a change that was undone": ("splits", 306),
    "an answer that a closed log could not take is asked for again": ("directories", 1062),
    "the last in sync stopped uncleanly once eligible leaders were off and on again": ("chaos", 1011),
    "a log that has closed hears where its leader's begins": ("tempest", 45),
    "a new controller hands over to a broker that had died": ("controllers", 119),
    "one that is in sync is elected, and has never recovered": ("swarm", 65),
    "a clock ahead by more than a day has a log forget its producers": ("storm", 5),
    "a disk is taken out of the machine that the controller then leaves as the last in sync": ("takeouts", 1006),
    "a broker that stopped before it was registered had stopped cleanly before": ("eligible", 1019),
    "who was elected long ago begins to lead after the next leader": ("eligible", 1006),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_keeps_every_rule(name: str, seed: int) -> None:
    ClusterWorld(seed, SCENARIOS[name]).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MORE_SEEDS)
@pytest.mark.parametrize("name", CLUSTERS)
def test_a_cluster_keeps_every_rule_for_long(name: str, seed: int) -> None:
    ClusterWorld(seed, SCENARIOS[name]).run()


@pytest.mark.slow
@pytest.mark.parametrize("found", REGRESSIONS)
def test_a_seed_that_once_failed(found: str) -> None:
    name, seed = REGRESSIONS[found]
    ClusterWorld(seed, SCENARIOS[name]).run()


@pytest.mark.slow
def test_a_storm_reaches_what_it_is_to_test() -> None:
    storm = SCENARIOS["storm"]
    happened: set[str] = set()
    acknowledged = elections = incarnations = 0
    for seed in range(1, 8):
        world = ClusterWorld(seed, storm)
        world.run()
        happened |= set(world.faults.happened)
        acknowledged += sum(producer.acknowledged for producer in world.producers)
        elections += world.checker.elections
        incarnations += sum(machine.incarnation for machine in world.machines)
    assert happened >= {kind.__name__ for kind in storm.kinds}
    assert acknowledged > 1_000
    assert elections > 100
    assert incarnations > 30


@pytest.mark.slow
def test_partitions_and_replicas_are_moved_and_voters_change_while_it_lasts() -> None:
    moves = changes = directory_moves = 0
    for seed in (1, 2):
        moving = ClusterWorld(seed, SCENARIOS["moves"])
        moving.run()
        moves += sum(mover.moves for mover in moving.movers)
        tidying = ClusterWorld(seed, SCENARIOS["directories"])
        tidying.run()
        directory_moves += sum(mover.moves for mover in tidying.directory_movers)
        voting = ClusterWorld(seed, SCENARIOS["voters"])
        voting.run()
        assert voting.voter_admin is not None
        changes += voting.voter_admin.changes
    assert moves > 20
    assert directory_moves > 20
    assert changes > 4


@pytest.mark.slow
def test_admins_change_what_the_load_stands_on() -> None:
    done: dict[str, int] = {}
    deleted = lost_by_right = 0
    for seed in range(1, 6):
        world = ClusterWorld(seed, SCENARIOS["chaos"])
        world.run()
        for admin in world.chaos_admins:
            for name, count in admin.changes.items():
                done[name] = done.get(name, 0) + count
        deleted += sum(partition.may_start_at for partition in world.partitions)
        lost_by_right += sum(partition.unclean for partition in world.partitions)
    kinds = ("UnregisterBroker", "IncrementalAlterConfigs", "UpdateFeatures", "CreatePartitions", "DeleteRecords")
    assert min(done[name] for name in kinds) >= 2
    assert deleted > 50
    assert lost_by_right


def test_power_fails_again_and_again_without_a_flush_and_nothing_is_lost() -> None:
    losses = 0
    for name in ("unflushed", "eligible"):
        world = ClusterWorld(2, SCENARIOS[name])
        world.run()
        losses += world.faults.happened.get("power_loss_of_one", 0)
        features = world.checker.image.features
        assert features.get(ELR_VERSION, 0) == (1 if name == "eligible" else 0)
    assert losses > 1


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    printed = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulator", "--scenario", "storm", "--seeds", "1..2", "--json"]
        printed.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1, printed
