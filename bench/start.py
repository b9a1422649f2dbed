"""What starts cost: `penstock dev` until its ready line, the tests' fixture, and reading the settings alone.

CPU seconds of the process, the interpreter's start included, and wall seconds: least and median of some starts.

    python bench/start.py [--rounds 7]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import psutil

FIXTURE = """
import time
from penstock.testing.broker import LocalBroker
LocalBroker().start()
print("ready", flush=True)
time.sleep(60)
"""
SETTINGS = "import time, penstock.config.server; print('ready', flush=True); time.sleep(60)"
NOTHING = "import time; print('ready', flush=True); time.sleep(60)"


def start(*words: str) -> tuple[float, float]:
    """CPU and wall seconds until the process prints its first line."""
    began_s = time.perf_counter()
    with subprocess.Popen([sys.executable, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline(), "it ended before it was ready"
            wall_s = time.perf_counter() - began_s
            times = psutil.Process(process.pid).cpu_times()
            return times.user + times.system, wall_s
        finally:
            process.kill()


def dev() -> tuple[float, float]:
    """A new one-node cluster, by the command."""
    with tempfile.TemporaryDirectory() as data:
        words = ("dev", "--json", "--port", "0", "--metrics-port", "0", "--data", str(Path(data) / "node"))
        return start("-m", "penstock", *words)


def main() -> None:
    """Runs the starts in turns and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="starts of each (default: 7)")
    rounds = parser.parse_args().rounds
    starts: dict[str, Callable[[], tuple[float, float]]] = {
        "python alone": lambda: start("-c", NOTHING),
        "settings": lambda: start("-c", SETTINGS),
        "fixture": lambda: start("-c", FIXTURE),
        "penstock dev": dev,
    }
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in starts}
    for _ in range(rounds):
        for name, run in starts.items():
            taken[name].append(run())
    print(f"{'':14} {'CPU s, least':>13} {'median':>8} {'wall s, least':>14} {'median':>8}")
    for name, pairs in taken.items():
        cpu, wall = ([pair[which] for pair in pairs] for which in (0, 1))
        print(
            f"{name:14} {min(cpu):13.3f} {statistics.median(cpu):8.3f} {min(wall):14.3f} {statistics.median(wall):8.3f}"
        )


if __name__ == "__main__":
    main()
