"""What the counters of telemetry cost on the data path: this tree against one without them, pass by pass.

Each tree runs in a process of its own, a node without sockets and with a disk that forgets; they take turns, a few
milliseconds each, hundreds of times, so that what else the machine does falls on both. Printed are, for produce
requests of 1 KB and for fetches of as much, the best pass of each tree and the median of the ratios of pairs.

    git worktree add --detach ../before COMMIT
    python bench/telemetry_cost.py --against ../before
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORKER = """
import gc, sys, time
from turns_node import a_node, answers_of_turn
from support.broker import Node
from support.requests import batch, fetch, produce, wanted

def node_of(kind):
    if kind == "produce":
        node = a_node()
        return node, produce("t", batch(b"x" * 1_000)), 9
    node = Node()
    node.create_topic("t")
    node.connect().ask(produce("t", batch(b"x" * 1_000)), 9)
    return node, fetch("t", wanted(0, 0)), 12

made = {}
for kind in ("produce", "fetch"):
    node, message, version = node_of(kind)
    clients = [node.connect() for _ in range(10)]
    made[kind] = node, [(client.number, memoryview(client.frame(message, version))) for client in clients]
for line in sys.stdin:
    node, frames = made[line.strip()]
    gc.collect()
    gc.disable()
    began = time.process_time_ns()
    for _ in range(20):
        for number, frame in frames:
            node.broker.received(number, frame, node.now_ms)
        assert answers_of_turn(node) == 10
    print((time.process_time_ns() - began) / 200, flush=True)
    gc.enable()
"""


class Tree:
    """A process that runs the code of a tree."""

    def __init__(self, tree: Path) -> None:
        path = os.pathsep.join(str(part) for part in (tree / "src", tree, tree / "tests", tree / "bench"))
        command = [sys.executable, "-c", WORKER]
        environment = {**os.environ, "PYTHONPATH": path}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def pass_ns(self, kind: str) -> float:
        """CPU time of a request, in ns, in one pass."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline())

    def end(self) -> None:
        self._process.communicate()


def main() -> None:
    """Runs the passes and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path, required=True, help="a working tree without the counters")
    parser.add_argument("--passes", type=int, default=400)
    options = parser.parse_args()
    trees = [Tree(ROOT), Tree(options.against.resolve())]
    for kind in ("produce", "fetch"):
        pairs: list[tuple[float, float]] = []
        for number in range(options.passes):
            order = trees if number % 2 else trees[::-1]
            found = {tree: tree.pass_ns(kind) for tree in order}
            pairs.append((found[trees[0]], found[trees[1]]))
        ours, others = (min(each) / 1000 for each in zip(*pairs, strict=True))
        ratio = median(a / b for a, b in pairs)
        print(
            f"{kind:8} best {ours:6.2f} us, without {others:6.2f} us: {ours / others:.3f}   median of pairs {ratio:.3f}"
        )
    for tree in trees:
        tree.end()


if __name__ == "__main__":
    main()
