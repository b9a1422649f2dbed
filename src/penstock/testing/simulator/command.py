"""Run the real code in simulated worlds, seed by seed, with crashes and faults of every kind.

A seed that breaks a rule says which, shows the end of its trace, and can be run again with the same outcome.

examples:
  penstock simulate --seeds 1..100
  penstock simulate --scenario single --seeds 4711 --json
  penstock simulate --scenario clusters --seeds 1..20 --jobs 2 --twice 1
  penstock simulate --scenario consumers --seeds 1..40 --jobs 2 --twice 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from penstock.testing.simulator.cluster.scenarios import SCENARIOS
from penstock.testing.simulator.groups.scenarios import GROUP_SCENARIOS
from penstock.testing.simulator.jobs import HASH_SEEDS, Outcome, Task, run_all
from penstock.testing.simulator.run import WORLDS, seed_range

SUMMARY = "run the real code in simulated worlds, with crashes and faults"
FAMILIES = {"clusters": tuple(SCENARIOS), "consumers": tuple(GROUP_SCENARIOS)}
"""Scenarios that are run by one name, one after the other."""


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--seeds", type=seed_range, default=range(1, 21), metavar="A..B", help="both included (1..20)")
    parser.add_argument(
        "--scenario",
        "--world",
        dest="world",
        choices=[*FAMILIES, *sorted(WORLDS)],
        default="log",
        help="what is simulated; clusters: all of a cluster's, consumers: all with consumer groups (log)",
    )
    parser.add_argument(
        "--jobs", "-j", type=int, choices=range(1, len(HASH_SEEDS) + 1), default=1, help="processes (1)"
    )
    parser.add_argument(
        "--twice",
        type=int,
        default=0,
        metavar="N",
        help="run the first N seeds of each scenario under two PYTHONHASHSEEDs, and compare (0)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a seed")


def run(arguments: argparse.Namespace) -> int:
    """Runs the seeds; 1 if any broke a rule."""
    names = FAMILIES.get(arguments.world, (arguments.world,))
    seeds: range = arguments.seeds
    once: list[Task] = [(name, seed) for seed in seeds[arguments.twice :] for name in names]
    twice: list[Task] = [(name, seed) for seed in seeds[: arguments.twice] for name in names]
    count = len(names) * len(seeds)
    before_s = time.monotonic()
    outcomes: list[Outcome] = []
    for outcome in run_all(once, processes=arguments.jobs, twice=twice):
        outcomes.append(outcome)
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{len(outcomes)} of {count}: {outcome.scenario} {outcome.seed}\r")
        if arguments.json:
            line = {"seed": outcome.seed, "trace": outcome.trace, "broken": outcome.broken}
            say(json.dumps(line if len(names) == 1 else {"scenario": outcome.scenario, **line}))
        elif outcome.broken is not None:
            say(f"seed {outcome.seed} breaks a rule: {outcome.broken}")
    failed = [outcome for outcome in outcomes if outcome.broken is not None]
    if not arguments.json:
        summarise(names, outcomes, time.monotonic() - before_s)
        say(f"{count} seeds, {len(failed)} broke a rule")
    return 1 if failed else 0


def summarise(names: Sequence[str], outcomes: Sequence[Outcome], took_s: float) -> None:
    """What several scenarios have cost; nothing of a single one."""
    if len(names) == 1:
        return
    for name in names:
        own = [outcome.cpu_s for outcome in outcomes if outcome.scenario == name]
        say(f"{name:16} {len(own):5} seeds, {sum(own) / max(1, len(own)):5.2f} CPU-s each")
    say(f"{took_s:.0f} s, {sum(outcome.cpu_s for outcome in outcomes):.0f} CPU-s")


def say(text: str) -> None:
    """A line on the standard output."""
    sys.stdout.write(f"{text}\n")
