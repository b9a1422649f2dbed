"""Changes files of logs in every way and sends them through recovery, reads, look-ups by time and the cleaner.

    python tools/mutate_segments.py --cases 10000 --seed 1

What must hold is in tests/support/mutated_logs.py. Prints how often what happened. Ends with a traceback at the first
case that breaks a rule; `--seed` with its number and `--cases 1` shows it alone.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.mutated_logs import run_case

TOLD_EVERY = 1000


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="how many logs (default: 10000)")
    parser.add_argument("--seed", type=int, default=1, help="of the first (default: 1)")
    options = parser.parse_args()
    outcomes: Counter[str] = Counter()
    for number in range(options.cases):
        outcomes += run_case(options.seed + number)
        if (number + 1) % TOLD_EVERY == 0:
            say(f"{number + 1} logs")
    say(f"{options.cases} logs with something changed, and no rule broken:")
    for what, count in sorted(outcomes.items()):
        say(f"  {count:9,} {what}")


if __name__ == "__main__":
    main()
