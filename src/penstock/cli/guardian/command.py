"""Run Guardian, which looks after many clusters, tell it of them, and plan where replicas had better be.

A Guardian is one, three or five nodes that keep one log; any of them answers. Each node has a properties file of its
own. Format its directory once, with the same id on all nodes, then start it.

A model is a directory of Parquet files that says what each replica costs. A plan needs no cluster: it is made from a
model, checked, and printed; `kafka-reassign-partitions` reads it. The model of a registered cluster is made from what
Guardian sees of it.

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
  penstock guardian model export --cluster clicks model/
  penstock guardian plan --cluster clicks
  penstock guardian plan --model model/
  penstock guardian plan --model model/ --rules rules.json --json > plan.json
  penstock guardian plans submit plan.json --cluster clicks --rate 20M
  penstock guardian approve 1
  penstock guardian explain 1-17
  penstock guardian plan check plan.json --model model/
  penstock guardian twin --model model/ --plan plan.json --rate 5e7
  penstock guardian topics plan --model model/ --topic clicks --partitions 12 --replication-factor 3 --rate 5e7
"""

from __future__ import annotations

import argparse
from pathlib import Path

from penstock.cli.common import Actions, add_action, add_actions, add_json, add_option, check_modules, run_action
from penstock.cli.guardian import (
    alarms,
    asking,
    cluster_model,
    clusters,
    inventory,
    models,
    nodes,
    plans,
    upgrade,
    users,
)

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
    models.register(actions)
    below = asking.add_group(actions, "model", "check a model, or write that of a registered cluster")
    register_check(below)
    register_export(below)


def register_plan(actions: Actions[argparse.ArgumentParser]) -> None:
    planning = add_action(actions, "plan", plan_action, "plan moves that even out the load of a model").examples(
        "penstock guardian plan --model model/",
        "penstock guardian plan --cluster clicks --disk-rate 2e8",
        "penstock guardian plan --model model/ --rules rules.json --json > plan.json",
    )
    source = planning.add_mutually_exclusive_group()
    source.add_argument("--model", metavar="DIR", type=Path, help="directory of the model's Parquet files")
    source.add_argument("--cluster", metavar="NAME", help="a cluster that is registered with Guardian")
    asking.add_guardian(planning)
    cluster_model.add_capacities(planning)
    add_option(planning, "--rules", "FILE", "JSON file of rules and goals", type=Path)
    text = "Python file with allow(moves) or score(moves), which say what may be done"
    add_option(planning, "--policy", "FILE", text, type=Path)
    add_option(planning, "--seed", "N", "where the search begins: the same seed gives the same plan", type=int,
               default=SEED)  # fmt: skip
    add_option(planning, "--moves", "N", "moves to list, of all that the plan has", type=int, default=MOVES_SHOWN)
    add_json(planning)
    models.register_below_plan(planning)


def register_check(actions: Actions[argparse.ArgumentParser]) -> None:
    check = add_action(actions, "check", check_action, "say whether a model is sound, and what it has").examples(
        "penstock guardian model check model/"
    )
    check.add_argument("model", metavar="DIR", type=Path, help="directory of the model's Parquet files")
    add_json(check)


def register_export(actions: Actions[argparse.ArgumentParser]) -> None:
    export = add_action(actions, "export", export_action, "write the model of a registered cluster").examples(
        "penstock guardian model export --cluster clicks model/"
    )
    export.add_argument("directory", metavar="DIR", type=Path, help="where the Parquet files go")
    add_option(export, "--cluster", "NAME", "the cluster", required=True)
    asking.add_guardian(export)
    cluster_model.add_capacities(export)
    add_json(export)


def export_action(arguments: argparse.Namespace) -> int:
    check_modules("a model", MODULES, "guardian")
    return cluster_model.export_model(arguments)


def plan_action(arguments: argparse.Namespace) -> int:
    check_modules("planning", MODULES, "guardian")
    from penstock.cli.guardian.planning import make_plan

    return make_plan(arguments)


def check_action(arguments: argparse.Namespace) -> int:
    check_modules("a model", MODULES, "guardian")
    from penstock.cli.guardian.model_check import check_model

    return check_model(arguments)
