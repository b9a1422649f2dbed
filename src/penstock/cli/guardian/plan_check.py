"""`penstock guardian plan check`: what the verifier finds against a plan that somebody has in a file."""

from __future__ import annotations

import argparse

from penstock.cli.output import RED, counted, paint, print_json
from penstock.guardian.limits import PLAN_FAULTS_SHOWN
from penstock.guardian.model.plan_file import read_plan
from penstock.guardian.model.reading import read_model
from penstock.guardian.model.rules_file import rules_of_plan
from penstock.guardian.plan.verifier import verify


def check_plan(arguments: argparse.Namespace) -> int:
    """Checks and prints; the exit code is 1 if the plan has a fault."""
    found = read_plan(arguments.plan)
    model = read_model(arguments.model).model
    faults = verify(model, rules_of_plan(arguments.rules, found, model), found)
    if arguments.json:
        print_json({
            "sound": not faults,
            "faults": [{"rule": each.rule, "place": each.place, "text": each.text} for each in faults],
        })  # fmt: skip
        return 1 if faults else 0
    if not faults:
        moves, unmet = counted(len(found["moves"]), "move"), counted(len(found["violations"]), "violation")
        print(f"{arguments.plan} is sound: {moves}, {unmet} that it says itself; every rule and figure comes out")
        return 0
    for each in faults[:PLAN_FAULTS_SHOWN]:
        print(paint(f"{each.rule}: {each.place}: {each.text}", RED))
    if (more := len(faults) - PLAN_FAULTS_SHOWN) > 0:
        print(f"... and {counted(more, 'more fault')}; --json lists all")
    return 1
