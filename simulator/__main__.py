"""Run the real code in simulated worlds, seed by seed, with crashes and faults of every kind.

A seed that breaks a rule is reported with that rule and the end of its trace; run again, it does the same.

examples:
  python -m simulator --seeds 1..100
  python -m simulator --scenario single --seeds 4711 --json
  python -m simulator --scenario clusters --seeds 1..20 --jobs 2 --twice 1
  python -m simulator --scenario consumers --seeds 1..40 --jobs 2 --twice 1
  python -m simulator --scenario transactional --seeds 1..20 --jobs 2 --twice 1
  python -m simulator --scenario users --seeds 1..50 --jobs 2 --twice 1
  python -m simulator --scenario limited --seeds 1..60 --jobs 2 --twice 1
  python -m simulator --scenario guardian --seeds 1..100 --jobs 2 --twice 1
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from penstock.cli.parser import Parser
from simulator.cluster.scenarios import SCENARIOS
from simulator.compacted.scenarios import COMPACTED_SCENARIOS
from simulator.groups.scenarios import GROUP_SCENARIOS
from simulator.jobs import HASH_SEEDS, Outcome, Task, run_all
from simulator.quotas.scenarios import QUOTA_SCENARIOS
from simulator.quotas.sharing import TENANT_SCENARIOS
from simulator.secured.scenarios import SECURED_SCENARIOS
from simulator.transactions.scenarios import TRANSACTION_SCENARIOS
from simulator.worlds import WORLDS, seed_range

FAMILIES = {
    "clusters": (*SCENARIOS, *COMPACTED_SCENARIOS),
    "consumers": tuple(GROUP_SCENARIOS),
    "transactional": tuple(TRANSACTION_SCENARIOS),
    "users": tuple(SECURED_SCENARIOS),
    "limited": (*QUOTA_SCENARIOS, *TENANT_SCENARIOS),
}
"""Scenarios that are run by one name, one after the other."""


def make_parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    parser = Parser(prog="python -m simulator", description=__doc__)
    parser.add_argument(
        "--seeds",
        type=seed_range,
        default=range(1, 21),
        metavar="A..B",
        help="range of seeds, both ends included (default: 1..20)",
    )
    parser.add_argument(
        "--scenario",
        "--world",
        dest="world",
        choices=[*FAMILIES, *sorted(WORLDS)],
        default="log",
        metavar="NAME",
        help=f"one of {', '.join(FAMILIES)}, for all of that kind, or of {', '.join(sorted(WORLDS))} (default: log)",
    )
    parser.add_argument(
        "--jobs", "-j", type=int, choices=range(1, len(HASH_SEEDS) + 1), default=1, help="processes (default: 1)"
    )
    parser.add_argument(
        "--twice",
        type=int,
        default=0,
        metavar="N",
        help="run the first N seeds of each scenario under two PYTHONHASHSEEDs and compare (default: 0)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object per seed")
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Runs the seeds; 1 if any broke a rule."""
    arguments = make_parser().parse_args(words)
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
        say(f"{name:24} {len(own):5} seeds, {sum(own) / max(1, len(own)):5.2f} CPU-s each")
    say(f"{took_s:.0f} s, {sum(outcome.cpu_s for outcome in outcomes):.0f} CPU-s")


def say(text: str) -> None:
    """A line on the standard output."""
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    sys.exit(main())
