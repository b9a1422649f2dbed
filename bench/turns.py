"""What fair turns cost, and what a tenant with one connection gets beside one with many.

The CPU time of a node for small requests: one at a time, or on many connections at once as in a busy turn of the loop,
of one tenant or of several. And how the requests that are executed divide over a tenant with 200 connections and one
with a single one.

    python bench/turns.py                          # this tree
    python bench/turns.py --against ../other       # this tree and another one, in turns, and the ratios
    python bench/turns.py --rounds 9

Each measurement (turns_node.py) runs in a process of its own, without sockets and disks. The best of many short passes
counts: what else the machine does makes them only longer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def measured(tree: Path) -> dict[str, float]:
    """The figures of a tree."""
    path = os.pathsep.join(str(tree / part) for part in ("src", "", "tests"))
    command = [sys.executable, str(HERE / "turns_node.py")]
    output = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, float] = json.loads(output)
    return found


def main() -> None:
    """Runs the rounds and prints the best of each figure and, against another tree, ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of each tree (default: 5)")
    parser.add_argument("--against", type=Path, help="another working tree, measured in turns with this one")
    options = parser.parse_args()
    trees = [ROOT] if options.against is None else [ROOT, options.against.resolve()]
    rounds: list[dict[Path, dict[str, float]]] = []
    for number in range(options.rounds):
        rounds.append({tree: measured(tree) for tree in (trees if number % 2 == 0 else reversed(trees))})
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
    for name in rounds[0][ROOT]:
        best = {tree: min(each[tree][name] for each in rounds) for tree in trees}
        line = f"{name:53} {best[ROOT]:8.2f}"
        for other in trees[1:]:
            ratios = sorted(each[ROOT][name] / each[other][name] for each in rounds)
            line += f"  against {best[other]:8.2f}: ratio {best[ROOT] / best[other]:5.3f}"
            line += f"  (of rounds {ratios[0]:.3f}, {median(ratios):.3f}, {ratios[-1]:.3f})"
        print(line)


if __name__ == "__main__":
    main()
