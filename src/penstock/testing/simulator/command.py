"""Run the real code in simulated worlds, seed by seed, with crashes and faults of every kind.

A seed that breaks a rule says which, shows the end of its trace, and can be run again with the same outcome.

examples:
  penstock simulate --seeds 1..100
  penstock simulate --scenario log --seeds 4711..4711
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from importlib import import_module
from typing import Any

from penstock.errors import ConfigError

SUMMARY = "run the real code in simulated worlds, with crashes and faults"
SCENARIOS = {"log": "penstock.testing.simulator.log_world:LogWorld"}
"""Worlds by name. Each is made with a seed; its `run` gives a Simulation, or raises Violation."""
SEEDS = re.compile(r"(\d+)(?:\.\.(\d+))?")


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--seeds", default="1..20", metavar="A..B", help="both included; or one number (1..20)")
    parser.add_argument(
        "--scenario", "--world", choices=tuple(SCENARIOS), default="log", help="what is simulated (log)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a seed")


def run(arguments: argparse.Namespace) -> int:
    """Runs the seeds; 1 at the first that breaks a rule."""
    from penstock.testing.simulator.timeline import Violation

    first, last = seeds_of(arguments.seeds)
    world = load(SCENARIOS[arguments.scenario])
    began = time.perf_counter()
    for seed in range(first, last + 1):
        progress(f"seed {seed}")
        try:
            simulation = world(seed).run()
        except Violation as violation:
            progress("")
            say(f"seed {seed} breaks a rule\n{violation}")
            return 1
        if arguments.json:
            report(seed, simulation)
    progress("")
    if not arguments.json:
        say(f"{last - first + 1} seeds hold every rule ({time.perf_counter() - began:.1f} s)")
    return 0


def seeds_of(text: str) -> tuple[int, int]:
    """First and last of `A..B`. Raises ConfigError."""
    found = SEEDS.fullmatch(text)
    if found is None or int(found[2] or found[1]) < int(found[1]):
        raise ConfigError(f"--seeds {text}: it must be A..B with A no greater than B, or one number")
    return int(found[1]), int(found[2] or found[1])


def load(name: str) -> Any:
    """The class of a world."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


def report(seed: int, simulation: Any) -> None:
    import json

    say(json.dumps({"seed": seed, "trace": simulation.trace_hash}))


def progress(text: str) -> None:
    """A line that changes in place, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def say(text: str) -> None:
    """A line on the standard output."""
    sys.stdout.write(f"{text}\n")
