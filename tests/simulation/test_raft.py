"""The quorum alone under crashes, power failures, partitions and changes of its voters.

Each rule is shown to catch a planted bug: the hunt tries the seeds of the plant, and the first that breaks a rule ends
it. `make test-all` hunts through more seeds; the everyday run replays those that are known to catch it.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from simulation.raft_plants import CAUGHT_BY, PLANTS

from simulator.raft.world import RaftWorld
from simulator.world.checks import Violation

REACHING_SEEDS = 15
SEEDS = 40
HUNT_SEEDS = 300
FULL_DISKS_SEEDS = 6


@pytest.mark.parametrize("first", range(REACHING_SEEDS + 1, SEEDS + 1, 5))
def test_the_quorum_keeps_what_it_has_committed(first: int) -> None:
    for seed in range(first, first + 5):
        RaftWorld(seed).run()


@pytest.mark.slow
def test_the_first_runs_keep_it_too_and_reach_what_they_are_to_test() -> None:
    elections_held = cuts = snapshots = changes = acknowledged = 0
    for seed in range(1, REACHING_SEEDS + 1):
        world = RaftWorld(seed)
        world.run()
        elections_held += world.rules.elections
        cuts += world.rules.truncations
        snapshots += world.snapshots_installed
        changes += world.voter_changes
        acknowledged += world.rules.acknowledged_count
    assert elections_held > 45
    assert cuts > 5
    assert snapshots > 40
    assert changes > 1
    assert acknowledged > 3_000


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trace_under_every_hash_seed() -> None:
    program = "\n".join([
        "from simulator.raft.world import RaftWorld",
        "for seed in (2, 3, 11): print(RaftWorld(seed).run().trace_hash)",
    ])  # fmt: skip
    hashes = set()
    for hash_seed in ("0", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", program]
        hashes.add(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(hashes) == 1, hashes


def catches(seed: int) -> bool:
    """Whether a seed finds what is planted: a broken rule, or an error of the code itself."""
    try:
        RaftWorld(seed).run()
    except (Violation, Exception):
        return True
    return False


@pytest.mark.parametrize("name", sorted(PLANTS))
def test_planted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed that is known to catch it does so, and is well without it; those up to `SEEDS` are run above."""
    if CAUGHT_BY[name] > SEEDS:
        assert not catches(CAUGHT_BY[name])
    PLANTS[name](monkeypatch)
    assert catches(CAUGHT_BY[name]), f"seed {CAUGHT_BY[name]} passes over: {name}"


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(PLANTS))
def test_planted_is_found_by_search(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTS[name](monkeypatch)
    assert any(catches(seed) for seed in range(1, HUNT_SEEDS + 1)), name


def test_a_quorum_whose_disks_run_full_goes_on_and_keeps_what_it_has_committed() -> None:
    ran_out = 0
    for seed in range(1, FULL_DISKS_SEEDS + 1):
        world = RaftWorld(seed, full_disks=True)
        world.run()
        ran_out += world.ran_out
    assert ran_out > 2 * FULL_DISKS_SEEDS


@pytest.mark.long
@pytest.mark.parametrize("first", range(FULL_DISKS_SEEDS + 1, HUNT_SEEDS + 1, 10))
def test_many_quorums_whose_disks_run_full_do(first: int) -> None:
    for seed in range(first, first + 10):
        RaftWorld(seed, full_disks=True).run()
