"""`penstock guardian twin`: what a plan will take and do, on a model."""

from __future__ import annotations

import argparse
import json
from typing import Any

from penstock.cli.common import pairs
from penstock.cli.output import RED, counted, paint, print_table, size_text
from penstock.config.nearest import did_you_mean
from penstock.errors import PenstockError, UsageError
from penstock.guardian.limits import TWIN_BROKERS_MAX, TWIN_MOVES_MAX
from penstock.guardian.model.plan_file import read_plan
from penstock.guardian.model.reading import read_model
from penstock.guardian.model.rules_file import read_rules, rules_of_plan
from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.verifier import verify
from penstock.guardian.twin.changes import add, grow, kill
from penstock.guardian.twin.document import outcome_document
from penstock.guardian.twin.simulation import Settings, simulate

SEED = 1
FACTOR_MAX = 1_000.0


def run_twin(arguments: argparse.Namespace) -> int:
    """Carries a plan out in the twin and prints what came of it; the exit code is 1 if a move never ends."""
    settings = settings_of(arguments)
    model = changed(arguments, read_model(arguments.model).model)
    found = plan_of(arguments, model)
    if len(found["moves"]) > TWIN_MOVES_MAX:
        raise PenstockError(f"the plan has {len(found['moves']):,} moves; the twin carries out {TWIN_MOVES_MAX:,}")
    outcome = outcome_document(model, found, simulate(model, found, settings))
    if arguments.json:
        print(json.dumps({**outcome, "violations": found["violations"]}, ensure_ascii=False, allow_nan=False))
    else:
        show(outcome)
    return 1 if outcome["never"] else 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """How the plan is carried out. Raises UsageError."""
    if arguments.rate is not None and not 0 < arguments.rate < float("inf"):
        raise UsageError(f"--rate {arguments.rate:g}: it must be above 0")
    if arguments.copies < 1:
        raise UsageError(f"--copies {arguments.copies}: it must be 1 at least")
    return Settings(arguments.rate, arguments.copies)


def changed(arguments: argparse.Namespace, model: Model) -> Model:
    """The model after what happens to it. Raises UsageError."""
    ids = set(model.brokers.ids.tolist())
    for each in arguments.kill:
        if each not in ids:
            raise UsageError(f"--kill {each}: the model has no such broker")
    if not 0 <= arguments.add <= TWIN_BROKERS_MAX:
        raise UsageError(f"--add {arguments.add}: it must be 0 to {TWIN_BROKERS_MAX:,}")
    for topic, text in pairs(arguments.grow, "--grow").items():
        if topic not in model.topics:
            raise UsageError(f"--grow: the model has no topic {topic}{did_you_mean(topic, model.topics)}")
        model = grow(model, topic, factor_of(text))
    if arguments.kill:
        model = kill(model, arguments.kill)
    return add(model, arguments.add) if arguments.add else model


def factor_of(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= FACTOR_MAX:
        raise UsageError(f"--grow ...={text}: it must be a number above 0, at most {FACTOR_MAX:g}")
    return factor


def plan_of(arguments: argparse.Namespace, model: Model) -> dict[str, Any]:
    """The plan of the file, if it fits, or one that is made. Raises UsageError, ConfigError or PenstockError."""
    if arguments.plan is None:
        return plan(model, read_rules(arguments.rules, model), SEED)
    if arguments.kill or arguments.add or arguments.grow:
        raise UsageError("--plan: a plan is for a model as it is; without it, one is made for what happens")
    found = read_plan(arguments.plan)
    if faults := verify(model, rules_of_plan(arguments.rules, found, model), found):
        raise PenstockError(f"{arguments.plan} does not fit the model: {faults[0].text}; "
                            "`penstock guardian plan check` says more")  # fmt: skip
    return dict(found)


def show(outcome: dict[str, Any]) -> None:
    """What came of it, for a person."""
    print(
        f"{counted(outcome['moves'], 'move')}, {size_text(int(outcome['bytes']))} copied in {outcome['seconds']:,.1f} s"
    )
    finish = outcome["finish"]
    if finish["max"] is not None:
        print(f"moves end after {finish['min']:,.1f} s, {finish['median']:,.1f} s (median), {finish['max']:,.1f} s")
    print()
    rows = [
        (kind, each["place"] or "-", f"{each['used']:.0%}", f"{each.get('seconds', 0.0):,.1f} s")
        for kind, each in outcome["peaks"].items()
    ]
    print_table(("resource", "used most of", "at most", "first at"), rows, right=("at most", "first at"))
    for when, words in (("before", "at first"), ("meanwhile_bytes", "meanwhile"), ("after", "at last")):
        over = outcome["over"][when]
        for each in over["worst"]:
            print(paint(f"{words}: {each['place']} has {each['used']:.0%} of its {each['resource']}", RED))
    for each in outcome["never"]:
        print(paint(f"never ends: move {each['id']}, {each['topic']}-{each['partition']}", RED))
