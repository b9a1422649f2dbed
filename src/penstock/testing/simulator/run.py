"""Runs seeds of a simulated world: `penstock simulate --scenario node --seeds 1..100`.

`log` is log directories alone, `raft` a metadata quorum alone, `node` a whole node with clients; the others are the
scenarios of a cluster (`penstock.testing.simulator.cluster.scenarios`), or of one with consumer groups
(`penstock.testing.simulator.groups.scenarios`).

Prints one line a seed with the hash of its trace, or the rule that was broken, the command that replays it and the end
of the trace. Exits with 1 if any seed failed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from penstock.testing.simulator.cluster.scenarios import SCENARIOS, Scenario
from penstock.testing.simulator.cluster_world import ClusterWorld
from penstock.testing.simulator.driver import Simulation
from penstock.testing.simulator.groups.scenarios import GROUP_SCENARIOS, GroupScenario
from penstock.testing.simulator.groups.world import GroupWorld
from penstock.testing.simulator.log_world import LogWorld
from penstock.testing.simulator.node_world import NodeWorld
from penstock.testing.simulator.raft_world import RaftWorld
from penstock.testing.simulator.timeline import Violation


def cluster_world(scenario: Scenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario."""
    return lambda seed: ClusterWorld(seed, scenario).run()


def group_world(scenario: GroupScenario) -> Callable[[int], Simulation]:
    """What runs one seed of a scenario with consumer groups."""
    return lambda seed: GroupWorld(seed, scenario).run()


WORLDS: dict[str, Callable[[int], Simulation]] = {
    "log": lambda seed: LogWorld(seed).run(),
    "node": lambda seed: NodeWorld(seed).run(),
    "raft": lambda seed: RaftWorld(seed).run(),
    **{name: cluster_world(scenario) for name, scenario in SCENARIOS.items()},
    **{name: group_world(scenario) for name, scenario in GROUP_SCENARIOS.items()},
}
SEEDS_MAX = 10_000_000


def seed_range(text: str) -> range:
    """`7` or `1..100`, both ends included.

    Raises:
        argparse.ArgumentTypeError: anything else.
    """
    first, _, last = text.partition("..")
    if not first.isdecimal() or (last and not last.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is no seed and no range of seeds such as 1..100")
    seeds = range(int(first), int(last or first) + 1)
    if not 0 < len(seeds) <= SEEDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is empty or has more than {SEEDS_MAX} seeds")
    return seeds


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(
        prog="penstock simulate", description="Run the real code on simulated disks and virtual time."
    )
    parser.add_argument("--seeds", type=seed_range, default=range(1, 101), help="one seed or a range: 1..100")
    parser.add_argument(
        "--scenario", "--world", dest="world", choices=sorted(WORLDS), default="node", help="what is simulated"
    )
    options = parser.parse_args(arguments)
    failed = 0
    for seed in options.seeds:
        try:
            simulation = WORLDS[options.world](seed)
        except Violation as violation:
            failed += 1
            sys.stdout.write(f"seed {seed} FAILED: {violation}\n")
        else:
            sys.stdout.write(f"seed {seed} ok {simulation.trace_hash[:16]}\n")
    sys.stdout.write(f"{len(options.seeds)} seeds, {failed} failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
