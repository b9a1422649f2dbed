"""How long Guardian takes to plan, and how good its plans are: models of known shapes, without a cluster.

    python bench/guardian.py plan [--shape million|forty|hundred-and-fifty]

Each line has a shape: seconds of processor time from arrays to a verified plan (the plan and its check apart), the peak
of memory, moves, bytes to copy between brokers of all bytes, and how far brokers and disks are from their shares after
it. The compiled loops are warm: their compilation, once on a machine, is said first.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.skewed_models import Shape, skewed

from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import BYTES
from penstock.guardian.plan.rules import Rules
from penstock.guardian.plan.verifier import verify

SHAPES = {
    "forty": Shape(40, 16_667, racks=10, disks=1, topics=1_000),
    "hundred-and-fifty": Shape(150, 66_667, racks=10, disks=1, topics=3_000),
    "million": Shape(1_000, 333_334, disks=4, topics=1_000),
}
"""Two of the size of Cruise Control's own random clusters, and a large one."""
SMALL = Shape(6, 20, disks=2)


def measure(name: str, shape: Shape) -> None:
    """Plans a shape and prints what that took and gave."""
    model = skewed(shape)
    began = time.process_time()
    found = plan(model, Rules(), 1)
    planned = time.process_time()
    faults = verify(model, Rules(), found)
    ended = time.process_time()
    kinds = Counter(move["kind"] for move in found["moves"])
    copied = sum(move["bytes"] for move in found["moves"] if move["kind"] in ("replica", "swap"))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{name}: {shape.brokers} brokers, {model.replicas:,} replicas")
    print(
        f"  {planned - began:.2f} s to plan, {ended - planned:.2f} s to verify, {len(faults)} faults; peak {peak_mb} MB"
    )
    print(f"  {dict(kinds)}, {copied / model.load()[:, BYTES].sum():.1%} of all bytes go to other brokers")
    for part in ("shares", "disk_shares"):
        low = min(each[0] for each in found["after"][part].values() if each)
        high = max(each[1] for each in found["after"][part].values() if each)
        print(f"  {part}: {low:.3f} to {high:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("part", choices=("plan",))
    parser.add_argument("--shape", choices=tuple(SHAPES))
    arguments = parser.parse_args()
    began = time.process_time()
    plan(skewed(SMALL), Rules(), 1)
    print(f"compiled or loaded in {time.process_time() - began:.1f} s")
    for name, shape in SHAPES.items():
        if arguments.shape in (None, name):
            measure(name, shape)


if __name__ == "__main__":
    main()
