"""Measures how soon the simulator finds each planted fault: the seeds of its scenario one after another, to the first.

    python tools/mutation_score.py --seeds 1..300 --jobs 1
    python tools/mutation_score.py --seeds 1..300 --only "epoch" --scenario moves

A mutant is a fault that is patched in (tests/support/mutants.py). Prints a row each, as a Markdown table: its scenario,
the first seed that fails, how many were run for it, by which rule, and the seconds of CPU. Exits with 1 if any was not
found.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

import pytest
from support.mutants import ALL

from simulator.worlds import WORLDS, seed_range

RULE_LENGTH = 90
HEAD = "| Fault | Scenario | Seed | Rule | CPU s |\n|---|---|---|---|---|\n"


class Score(NamedTuple):
    """How a mutant was found: by which seed and rule; seed None if by none of those that were run."""

    name: str
    scenario: str
    seed: int | None
    rule: str
    cpu_s: float

    def row(self, tried: int) -> str:
        found = f"none of {tried}" if self.seed is None else str(self.seed)
        return f"| {self.name} | {self.scenario} | {found} | {self.rule} | {self.cpu_s:.0f} |\n"


@contextmanager
def collected_between_seeds() -> Iterator[None]:
    """A world is one large cycle: it is collected when it is over, and not while it runs."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def score(name: str, scenario: str, seeds: range) -> Score:
    """Runs the mutant until a seed fails."""
    started = time.process_time()
    with pytest.MonkeyPatch.context() as patch, collected_between_seeds():
        ALL[name].plant(patch)
        for seed in seeds:
            try:
                WORLDS[scenario](seed)
            except Exception as error:  # a Violation, or what the planted code raises
                rule = str(error).partition("\n")[0].replace("|", "/")[:RULE_LENGTH]
                return Score(name, scenario, seed, rule, time.process_time() - started)
            finally:
                gc.collect()
    return Score(name, scenario, None, "", time.process_time() - started)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description="Measures how soon the simulator finds each planted fault.")
    parser.add_argument("--seeds", type=seed_range, default=range(1, 301), help="a range: 1..300")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--only", default="", help="mutants whose name holds this")
    parser.add_argument("--scenario", choices=sorted(WORLDS), help="another scenario than the mutant's own")
    options = parser.parse_args(arguments)
    chosen = [(name, options.scenario or mutant.scenario) for name, mutant in ALL.items() if options.only in name]
    sys.stdout.write(HEAD)
    missed = 0
    with ProcessPoolExecutor(max(1, options.jobs), max_tasks_per_child=1) as pool:
        scores = [pool.submit(score, name, scenario, options.seeds) for name, scenario in chosen]
        for each in scores:
            found = each.result()
            missed += found.seed is None
            sys.stdout.write(found.row(len(options.seeds)))
            sys.stdout.flush()
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
