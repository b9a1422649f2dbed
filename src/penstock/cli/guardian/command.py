"""Run Guardian, which looks after many clusters, tell it of them, and plan where replicas had better be.

A Guardian is one, three or five nodes that keep one log; any of them answers. Each node has a properties file of its
own. Format its directory once, with the same id on all nodes, then start it.

A model is a directory of Parquet files that says what each replica costs. A plan needs no cluster: it is made from a
model, checked, and printed; `kafka-reassign-partitions` reads it.

examples:
  penstock guardian format conf/guardian-1.properties --guardian-id 5L6g3nShT-eMCtK--X86sw
  penstock guardian start conf/guardian-1.properties
  penstock guardian clusters add clicks --bootstrap 10.0.0.7:9092 --kind kafka --idc north
  penstock guardian clusters set-mode clicks balance=advise
  penstock guardian clusters list --json
  penstock guardian inventory clicks
  penstock guardian alarms --cluster clicks
  penstock guardian users add ann --role operator@clicks
  penstock guardian model check model/
  penstock guardian plan --model model/
  penstock guardian plan --model model/ --rules rules.json --json > plan.json
  penstock guardian plans submit plan.json --cluster clicks --rate 20M
  penstock guardian approve 1
  penstock guardian explain 1-17
"""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.common import Actions, add_action, add_actions, add_json, add_option, check_modules, run_action
from penstock.cli.guardian import alarms, clusters, inventory, nodes, plans, upgrade, users

SUMMARY = "run Guardian, which looks after many clusters; plan where replicas had better be"
MODULES = ("numpy", "numba", "pyarrow")
SEED = 1
MOVES_SHOWN = 10

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    actions = add_actions(parser)
    nodes.register(actions)
    upgrade.register(actions)
    clusters.register(actions)
    inventory.register(actions)
    alarms.register(actions)
    plans.register(actions)
    users.register(actions)
    register_plan(actions)
    model = actions.add_parser("model", help="check a model", description="Check a model.")
    below = model.add_subparsers(dest="model_action", metavar="ACTION", title="actions", required=True)
    register_check(below)


def register_plan(actions: Actions[argparse.ArgumentParser]) -> None:
    planning = add_action(actions, "plan", plan_action, "plan moves that even out the load of a model").examples(
        "penstock guardian plan --model model/",
        "penstock guardian plan --model model/ --rules rules.json --json > plan.json",
    )
    add_option(planning, "--model", "DIR", "directory of the model's Parquet files", type=Path, required=True)
    add_option(planning, "--rules", "FILE", "JSON file of rules and goals", type=Path)
    add_option(planning, "--seed", "N", "where the search begins: the same seed gives the same plan", type=int,
               default=SEED)  # fmt: skip
    add_option(planning, "--moves", "N", "moves to list, of all that the plan has", type=int, default=MOVES_SHOWN)
    add_json(planning)


def register_check(actions: Actions[argparse.ArgumentParser]) -> None:
    check = add_action(actions, "check", check_action, "say whether a model is sound, and what it has").examples(
        "penstock guardian model check model/"
    )
    check.add_argument("model", metavar="DIR", type=Path, help="directory of the model's Parquet files")
    add_json(check)


def plan_action(arguments: argparse.Namespace) -> int:
    check_modules("planning", MODULES, "guardian")
    from penstock.cli.guardian.planning import make_plan

    return make_plan(arguments)


def check_action(arguments: argparse.Namespace) -> int:
    check_modules("a model", MODULES, "guardian")
    from penstock.cli.guardian.model_check import check_model

    return check_model(arguments)
