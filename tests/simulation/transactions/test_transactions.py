"""Transactions in simulated clusters: seeds keep every rule, and every planted fault breaks one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from itertools import chain

import pytest
from support.transaction_mutations import MUTATIONS, Mutation

from simulator.transactions.scenarios import TRANSACTION_SCENARIOS
from simulator.transactions.world import TransactionWorld
from simulator.world.checks import Violation

SEEDS = (1_000, 1_001)
MORE_SEEDS = range(1_002, 1_040)
SEARCHED_SEEDS = 60
REGRESSIONS = {
    "aborted transactions that only memory knew of were forgotten": ("transactions-full", 7),
    "a producer whose end was refused went on in the same epoch": ("transactions-calm", 31),
    "a log was looked at between the two renames of a move": ("transactions-directories", 55),
    "a replica was away for longer than markers stay": ("transactions-cleaned", 105),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TRANSACTION_SCENARIOS)
def test_transactions_keep_every_rule(name: str, seed: int) -> None:
    TransactionWorld(seed, TRANSACTION_SCENARIOS[name]).run()


@pytest.mark.long
@pytest.mark.parametrize("seed", MORE_SEEDS)
@pytest.mark.parametrize("name", TRANSACTION_SCENARIOS)
def test_transactions_keep_every_rule_for_long(name: str, seed: int) -> None:
    TransactionWorld(seed, TRANSACTION_SCENARIOS[name]).run()


@pytest.mark.parametrize("found", REGRESSIONS)
def test_a_seed_that_once_failed(found: str) -> None:
    name, seed = REGRESSIONS[found]
    TransactionWorld(seed, TRANSACTION_SCENARIOS[name]).run()


@pytest.mark.slow
def test_everything_happens_that_is_to_be_survived() -> None:
    happened: dict[str, int] = {}
    told = taken = 0
    for seed in range(1, 7):
        world = TransactionWorld(seed, TRANSACTION_SCENARIOS["transactions-zombies"])
        world.run()
        for what, count in world.transactions.happened.items():
            happened[what] = happened.get(what, 0) + count
        told += world.watcher.told
        taken += len(world.history.takers)
    assert happened["commits"] > 100, happened
    assert happened["aborts"] > 30, happened
    assert taken > 100
    assert told > 20
    for what in ("fenced", "hasty ends", "_is_replaced", "repeated WriteTxnMarkersRequest", "repeated EndTxnRequest"):
        assert happened.get(what, 0) > 2, (what, happened)


def test_members_of_a_group_lose_their_partitions_to_each_other() -> None:
    happened: dict[str, int] = {}
    for seed in (1, 2):
        world = TransactionWorld(seed, TRANSACTION_SCENARIOS["transactions-members"])
        world.run()
        for what, count in world.transactions.happened.items():
            happened[what] = happened.get(what, 0) + count
    assert happened.get("members lost", 0) > 0, happened
    assert happened.get("commits", 0) > 20, happened


def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    printed = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulator", "--scenario", "transactions-storm", "--seeds", "3", "--json"]
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
            TransactionWorld(seed, TRANSACTION_SCENARIOS[mutation.scenario]).run()
        except Violation as violation:
            if mutation.breaks(violation):
                return seed
    return None
