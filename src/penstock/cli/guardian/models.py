"""What else can be asked of a model without a cluster: whether a plan fits it."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.common import Actions, add_action, add_json, add_option, check_modules

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


def register(actions: Actions[argparse.ArgumentParser]) -> None:
    """The actions on models."""
    topics = actions.add_parser("topics", help="plan topics", description="Plan topics.")
    below = topics.add_subparsers(dest="topics_action", metavar="ACTION", title="actions", required=True)
    text = "say where the partitions of a new topic, or of one that grows, had best be"
    plan = add_action(below, "plan", plan_topic_action, text).examples(
        "penstock guardian topics plan --model model/ --topic clicks --partitions 12 --replication-factor 3 --rate 5e7",
    )
    add_option(plan, "--model", "DIR", "directory of the model's Parquet files", type=Path, required=True)
    add_option(plan, "--topic", "NAME", "topic; one that the model has is to grow", required=True)
    add_option(plan, "--partitions", "N", "partitions that it is to have in all", type=int, required=True)
    add_option(plan, "--replication-factor", "N", "replicas of each partition", type=int, required=True)
    text = "bytes/s that producers will write to all of its partitions together"
    add_option(plan, "--rate", "BYTES", text, type=float, required=True)
    add_option(plan, "--rules", "FILE", "JSON file of rules", type=Path)
    add_json(plan)


def plan_topic_action(arguments: argparse.Namespace) -> int:
    check_modules("placing", MODULES, "guardian")
    from penstock.cli.guardian.placing import plan_topic

    return plan_topic(arguments)


def check_action(arguments: argparse.Namespace) -> int:
    check_modules("checking a plan", MODULES, "guardian")
    from penstock.cli.guardian.plan_check import check_plan

    return check_plan(arguments)
