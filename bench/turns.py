"""What fair turns cost, and what a tenant with one connection gets beside one with many.

    node      the CPU time of a node for small requests, without sockets and disks: one at a time, or on many
              connections at once as in a busy turn of the loop, of one tenant or of several; and how the requests that
              are executed divide over a tenant with 200 connections and one with a single one (turns_node.py)
    broker    the CPU time of a broker for requests of four connections (turns_broker.py)

    python bench/turns.py                          # this tree
    python bench/turns.py --against ../other       # this tree and another one, in turns, and the ratios
    python bench/turns.py --rounds 9

Trees are measured in turns. Of a node the best of many short passes counts, and of a broker the best of short runs:
what else the machine does makes them only longer.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

from quota_clients import Load, Tenant

BROKER_RUNS = 5
"""In each round."""
LOADS = {
    "produce 100 B": Load("produce", "cost", connections=4, size_bytes=100, in_flight=4, requests=8_000),
    "fetch 16 KB": Load("fetch", "cost", connections=4, size_bytes=16_384, requests=4_000),
}
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def started(tree: Path, script: str) -> subprocess.Popen[str]:
    """A script that runs the code of a tree."""
    path = os.pathsep.join(str(tree / part) for part in ("src", "", "tests"))
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, str(HERE / script)]
    return subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def of_node(tree: Path) -> dict[str, float]:
    """The figures of a tree's node."""
    with started(tree, "turns_node.py") as process:
        output, _ = process.communicate()
    found: dict[str, float] = json.loads(output)
    return found


def cpu_s(process: subprocess.Popen[str]) -> float:
    """The CPU time of all threads of a process so far."""
    return sum(int(each.read_text().split()[0]) for each in Path(f"/proc/{process.pid}/task").glob("*/schedstat")) / 1e9


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def of_brokers(trees: list[Path]) -> dict[Path, dict[str, float]]:
    """The figures of the brokers of all trees, which run together and work in turns."""
    processes = {tree: started(tree, "turns_broker.py") for tree in trees}
    found: dict[Path, dict[str, float]] = {tree: {} for tree in trees}
    try:
        ports = {
            tree: (process.stdout.readline() if process.stdout else "").strip() for tree, process in processes.items()
        }
        filling = Load("produce", "cost", size_bytes=9_000, requests=500)
        for port in ports.values():
            Tenant(f"127.0.0.1:{port}", filling).wait()
        for number in range(BROKER_RUNS):
            for tree in trees if number % 2 == 0 else reversed(trees):
                for name, load in LOADS.items():
                    before_s = cpu_s(processes[tree])
                    Tenant(f"127.0.0.1:{ports[tree]}", load).wait()
                    each_us = (cpu_s(processes[tree]) - before_s) / load.requests * 1e6
                    figure = f"broker: {name}, us a request"
                    found[tree][figure] = min(each_us, found[tree].get(figure, each_us))
    finally:
        for process in processes.values():
            process.communicate()
    return found


def main() -> None:
    """Runs the rounds and prints the best of each figure and, against another tree, ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of all trees (default: 5)")
    parser.add_argument("--against", type=Path, help="another working tree, measured in turns with this one")
    parser.add_argument("--only", default="node,broker", help="parts, with commas (default: all)")
    options = parser.parse_args()
    only = options.only.split(",")
    trees = [ROOT] if options.against is None else [ROOT, options.against.resolve()]
    rounds: list[dict[Path, dict[str, float]]] = []
    for number in range(options.rounds):
        order = trees if number % 2 == 0 else trees[::-1]
        figures: dict[Path, dict[str, float]] = of_brokers(order) if "broker" in only else {tree: {} for tree in trees}
        if "node" in only:
            for tree in order:
                figures[tree] |= of_node(tree)
        rounds.append(figures)
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
