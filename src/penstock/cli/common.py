"""What several commands share."""

from __future__ import annotations

import argparse
import os

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """Adds --bootstrap, which PENSTOCK_BOOTSTRAP sets for a whole shell."""
    parser.add_argument(
        "--bootstrap",
        metavar="HOST:PORT",
        default=os.environ.get("PENSTOCK_BOOTSTRAP", DEFAULT_BOOTSTRAP),
        help=f"brokers to begin with, separated by commas (PENSTOCK_BOOTSTRAP, else {DEFAULT_BOOTSTRAP})",
    )
