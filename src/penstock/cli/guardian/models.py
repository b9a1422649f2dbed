"""What else can be asked of a model without a cluster: whether a plan fits it."""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.common import Actions, add_action, add_json, add_option, check_modules
from penstock.cli.guardian.asking import add_group

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
    register_twin(actions)
    below = add_group(actions, "topics", "plan topics")
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


def register_twin(actions: Actions[argparse.ArgumentParser]) -> None:
    """The twin."""
    text = "say what a plan will take and do, or what happens if brokers die or come or a topic grows"
    twin = add_action(actions, "twin", twin_action, text).examples(
        "penstock guardian twin --model model/ --plan plan.json --rate 5e7",
        "penstock guardian twin --model model/ --kill 3",
        "penstock guardian twin --model model/ --add 10 --grow clicks=3 --json",
    )
    add_option(twin, "--model", "DIR", "directory of the model's Parquet files", type=Path, required=True)
    text = "JSON file of the plan (default: one that is made for the model after what happens to it)"
    add_option(twin, "--plan", "FILE", text, type=Path)
    add_option(twin, "--rules", "FILE", "JSON file of rules for the plan that is made", type=Path)
    add_option(twin, "--kill", "BROKER", "a broker that dies; repeatable", type=int, action="append", default=[])
    add_option(twin, "--add", "N", "brokers that come, empty, as large as the others", type=int, default=0)
    text = "a topic all of whose loads are so many times as much; repeatable"
    add_option(twin, "--grow", "TOPIC=FACTOR", text, action="append", default=[])
    add_option(twin, "--rate", "BYTES", "bytes/s that each broker may copy in, and out (default: no bound)", type=float)
    add_option(twin, "--copies", "N", "copies from and to a broker at once", type=int, default=5)
    add_json(twin)


def twin_action(arguments: argparse.Namespace) -> int:
    check_modules("the twin", MODULES, "guardian")
    from penstock.cli.guardian.twin import run_twin

    return run_twin(arguments)


def plan_topic_action(arguments: argparse.Namespace) -> int:
    check_modules("placing", MODULES, "guardian")
    from penstock.cli.guardian.placing import plan_topic

    return plan_topic(arguments)


def check_action(arguments: argparse.Namespace) -> int:
    check_modules("checking a plan", MODULES, "guardian")
    from penstock.cli.guardian.plan_check import check_plan

    return check_plan(arguments)
