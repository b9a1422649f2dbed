"""One node behind a network that fails: the clients, faults and rules of a cluster where they are easiest to follow."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from simulator.cluster.producers import IdempotentProducer
from simulator.cluster.scenarios import SCENARIOS
from simulator.cluster.world import ClusterWorld
from simulator.world.checks import Violation

SINGLE = SCENARIOS["single"]
HUNT_SEEDS = 40


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1, 61, 20))
def test_clients_that_time_out_and_come_again_lose_and_repeat_nothing(first: int) -> None:
    for seed in range(first, first + 20):
        ClusterWorld(seed, SINGLE).run()


@pytest.mark.slow
def test_the_runs_reach_what_they_are_to_test() -> None:
    faults = acknowledged = changes = reads = 0
    trace = ""
    for seed in range(1, 17):
        world = ClusterWorld(seed, SINGLE)
        world.run()
        faults += sum(world.faults.happened.values())
        acknowledged += sum(producer.acknowledged for producer in world.producers)
        changes += sum(admin.changes for admin in world.admins)
        reads += sum(reader.reads for reader in world.readers)
        trace += world.simulation.trace_tail
    assert faults > 40
    assert acknowledged > 2_000
    assert changes > 100
    assert reads > 1_000


def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    printed = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-m", "simulator.worlds", "--scenario", "single", "--seeds", "1..3"]
        printed.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(printed) == 1, printed


def test_planted_a_producer_repeats_with_a_new_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients themselves are held to the rules: what this one does, no broker can tell from new records."""
    real = IdempotentProducer._repeat

    def forgetful(producer: IdempotentProducer) -> None:
        for batch in producer.window:
            batch.base_sequence, producer._sequence = producer._sequence, producer._sequence + len(batch.values)
        real(producer)

    monkeypatch.setattr(IdempotentProducer, "_repeat", forgetful)

    def hunt() -> None:
        for seed in range(1, HUNT_SEEDS + 1):
            ClusterWorld(seed, SINGLE).run()

    with pytest.raises(Violation, match=r"replay with: python -m simulator --scenario single --seeds \d+\n") as broken:
        hunt()
    rule = str(broken.value).split(":")[0]
    assert rule in ("nothing is there twice", "a producer's state survives")
