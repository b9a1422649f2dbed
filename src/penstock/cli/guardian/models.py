"""What else can be asked of a model without a cluster: whether a plan fits it."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.common import add_action, add_json, add_option, check_modules

MODULES = ("numpy", "numba", "pyarrow")


def register_below_plan(planning: argparse.ArgumentParser) -> None:
    """The actions on plans that there are already; without one, a plan is made."""
    actions = planning.add_subparsers(dest="plan_action", metavar="ACTION", title="actions", required=False)
    check = add_action(actions, "check", check_action, "check every rule and figure of a plan against its model")
    check.examples(
        "penstock guardian plan check plan.json --model model/",
        "penstock guardian plan check plan.json --model model/ --rules rules.json --json",
    )
    check.add_argument("plan", metavar="PLAN", type=Path, help="JSON file of the plan")
    add_option(check, "--model", "DIR", "directory of the model's Parquet files", type=Path, required=True)
    text = "JSON file of the rules for which the plan is to be made (default: those that it says itself)"
    add_option(check, "--rules", "FILE", text, type=Path)
    add_json(check)


def check_action(arguments: argparse.Namespace) -> int:
    check_modules("checking a plan", MODULES, "guardian")
    from penstock.cli.guardian.plan_check import check_plan

    return check_plan(arguments)
