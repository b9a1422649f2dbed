"""Where pipelines have their state: an argument of every action of `penstock pipeline`."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.common import add_option


def add_state(parser: argparse.ArgumentParser) -> None:
    text = "directory of the pipelines' state (default: $PENSTOCK_STATE or ~/.local/state/penstock/pipelines)"
    add_option(parser, "--state", "DIR", text, type=Path)


def state_of(arguments: argparse.Namespace) -> Path:
    """The state directory that was asked for."""
    from penstock.pipelines.state import state_directory

    return (getattr(arguments, "state", None) or state_directory()).absolute()
