"""`penstock guardian topics plan`: where the partitions of a new or growing topic had best be."""

from __future__ import annotations

import argparse
import json
from typing import Any

from penstock.cli.output import RED, paint, print_table
from penstock.errors import PenstockError, UsageError
from penstock.guardian.limits import PLACED_REPLICAS_MAX
from penstock.guardian.model.reading import read_model
from penstock.guardian.model.rules_file import read_rules
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.placement import NoPlace, Wanted, existing
from penstock.guardian.plan.placement_document import placement_plan

RATE_MAX = 1e15


def plan_topic(arguments: argparse.Namespace) -> int:
    """Places and prints; the exit code is 1 if a rule cannot be kept."""
    model = read_model(arguments.model).model
    rules = read_rules(arguments.rules, model)
    wanted = wanted_of(arguments, model)
    try:
        found = placement_plan(model, rules, wanted)
    except NoPlace as error:
        raise PenstockError(str(error)) from None
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False, allow_nan=False))
    else:
        show(found)
    return 1 if found["violations"] else 0


def wanted_of(arguments: argparse.Namespace, model: Model) -> Wanted:
    """What was asked for. Raises UsageError."""
    partitions, factor, rate = arguments.partitions, arguments.replication_factor, arguments.rate
    there = existing(model, arguments.topic)
    if not arguments.topic or len(arguments.topic) > 249:
        raise UsageError("--topic: a name has 1 to 249 characters")
    if partitions <= len(there):
        have = f"{arguments.topic} has {len(there)} partitions already" if len(there) else "there must be 1 at least"
        raise UsageError(f"--partitions {partitions}: {have}")
    if not 1 <= factor <= len(model.brokers.ids):
        raise UsageError(f"--replication-factor {factor}: it must be 1 to {len(model.brokers.ids)}, the brokers")
    if partitions * factor > PLACED_REPLICAS_MAX:
        raise UsageError(f"{partitions} partitions with {factor} replicas: at most {PLACED_REPLICAS_MAX:,} in all")
    if not 0 <= rate <= RATE_MAX:
        raise UsageError(f"--rate {rate:g}: it must be 0 to {RATE_MAX:g} bytes/s")
    return Wanted(arguments.topic, partitions, factor, rate)


def show(found: dict[str, Any]) -> None:
    """The placement for a person."""
    print(f"--replica-assignment {found['replica_assignment']}")
    print()
    rows = [
        (name, *(f"{ends[0]:.2f} to {ends[1]:.2f}" for ends in (before, found["after"][name])))
        for name, before in found["before"].items()
        if before is not None and found["after"][name] is not None
    ]
    print_table(("resource, of a broker's share", "before", "after"), rows, right=("before", "after"))
    for each in found["estimates"]:
        print(f"\nestimated: {each}")
    for each in found["violations"]:
        print(paint(f"not met: {each['rule']}: {each['text']}", RED))
