"""A broker of the tree that is on the path, for bench/turns.py: prints its port, and goes on until its input ends."""

from __future__ import annotations

import sys

from penstock.testing.broker import LocalBroker


def main() -> None:
    """Runs it."""
    with LocalBroker() as broker:
        broker.create_topic("cost")
        print(broker.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
