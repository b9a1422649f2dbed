"""Raise the feature level of Guardian's log, once all of its nodes have been upgraded."""

from __future__ import annotations

import argparse

from penstock.cli.common import Actions, add_option
from penstock.cli.guardian.asking import add_asking, call, done

FEATURE = "/v1/feature"


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """Adds the action."""
    upgrading = add_asking(
        actions, "upgrade", upgrade_action, "let the log hold what the newest software writes, once every node runs it"
    ).examples("penstock guardian upgrade", "penstock guardian upgrade --to 2")
    add_option(upgrading, "--to", "LEVEL", "feature level (default: the highest that every node knows)", type=int)


def upgrade_action(arguments: argparse.Namespace) -> int:
    """Raises the level, and prints what it is now."""
    before = call(arguments, "GET", FEATURE).body["level"]
    answer = call(arguments, "PATCH", FEATURE, {} if arguments.to is None else {"level": arguments.to})
    level = answer.body["level"]
    said = f"Guardian is at feature level {level}" + (", as before." if level == before else f"; it was {before}.")
    return done(arguments, answer, said)
