"""Run the real code in simulated worlds, seed by seed, with crashes and faults of every kind.

A seed that breaks a rule says which, shows the end of its trace, and can be run again with the same outcome.

examples:
  penstock simulate --seeds 1..100
  penstock simulate --scenario single --seeds 4711 --json
"""

from __future__ import annotations

import argparse
import json
import sys

from penstock.testing.simulator.run import WORLDS, seed_range
from penstock.testing.simulator.timeline import Violation

SUMMARY = "run the real code in simulated worlds, with crashes and faults"


def register(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.add_argument("--seeds", type=seed_range, default=range(1, 21), metavar="A..B", help="both included (1..20)")
    parser.add_argument(
        "--scenario", "--world", dest="world", choices=sorted(WORLDS), default="log", help="what is simulated (log)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a seed")


def run(arguments: argparse.Namespace) -> int:
    """Runs the seeds; 1 if any broke a rule."""
    failed = 0
    for seed in arguments.seeds:
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[Kseed {seed}\r")
        broken, trace = "", None
        try:
            trace = WORLDS[arguments.world](seed).trace_hash
        except Violation as violation:
            failed += 1
            broken = str(violation)
        if arguments.json:
            say(json.dumps({"seed": seed, "trace": trace, "broken": broken or None}))
        elif broken:
            say(f"seed {seed} breaks a rule: {broken}")
    if not arguments.json:
        say(f"{len(arguments.seeds)} seeds, {failed} broke a rule")
    return 1 if failed else 0


def say(text: str) -> None:
    """A line on the standard output."""
    sys.stdout.write(f"{text}\n")
