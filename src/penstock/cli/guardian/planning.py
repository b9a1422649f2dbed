"""`penstock guardian plan`: makes a plan, has it checked, and prints it."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from penstock.cli.common import warn
from penstock.cli.guardian.cluster_model import tables_of_cluster
from penstock.cli.output import RED, counted, paint, print_table, size_text
from penstock.errors import UsageError
from penstock.guardian.model.reading import model_of, read_model
from penstock.guardian.model.rules_file import read_rules
from penstock.guardian.plan.document import plan
from penstock.guardian.plan.verifier import verify

KINDS = ("leader", "disk", "replica", "swap")
SEED_MAX = 2**63


def make_plan(arguments: argparse.Namespace) -> int:
    """Plans and prints; the exit code is 1 if a rule stays broken."""
    if not 0 <= arguments.seed < SEED_MAX:
        raise UsageError(f"--seed {arguments.seed}: it must be 0 to {SEED_MAX - 1}")
    of_cluster = arguments.cluster is not None
    read = model_of(tables_of_cluster(arguments)) if of_cluster else read_model(arguments.model)
    if read.unused:
        warn(f"columns that mean nothing here: {', '.join(read.unused)}")
    rules = read_rules(arguments.rules, read.model)
    found = plan(read.model, rules, arguments.seed)
    faults = verify(read.model, rules, found)
    if faults:
        said = "\n".join(f"{each.rule}: {each.text}" for each in faults[:5])
        raise AssertionError(f"the plan is not sound and is not printed; {len(faults)} faults:\n{said}")
    if arguments.json:
        print(json.dumps(found, ensure_ascii=False))
    else:
        show(found, arguments.moves)
    return 1 if found["violations"] else 0


def show(found: dict[str, Any], moves_max: int) -> None:
    """The plan for a person: what moves, how load lies before and after, and what stays broken."""
    kinds = Counter(move["kind"] for move in found["moves"])
    size = size_text(sum(move["bytes"] for move in found["moves"]))
    if not kinds:
        print("Nothing to move: all is within its share, or a move would not be worth its bytes.")
    else:
        said = ", ".join(f"{kinds[kind]:,} {kind}" for kind in KINDS if kinds[kind])
        print(f"{counted(len(found['moves']), 'move')} ({said}), {size} to copy")
    print()
    print_table(("resource", "of", "before", "after"), share_rows(found), right=("before", "after"))
    print()
    print_table(("capacity at p95, most used", "before", "after"), capacity_rows(found), right=("before", "after"))
    if found["moves"] and moves_max > 0:
        print()
        rows = [move_row(move) for move in found["moves"][:moves_max]]
        print_table(("partition", "kind", "from", "to", "size", "why"), rows, right=("size",))
        if (more := len(found["moves"]) - moves_max) > 0:
            print(f"... and {counted(more, 'more move')}; --moves N lists more, --json all")
    for each in found["estimates"]:
        print(f"\nestimated: {each}")
    for each in found["violations"]:
        print()
        print(paint(f"not met: {each['rule']}: {each['text']}", RED))
        if len(each["conflict"]) > 1:
            print(f"  in conflict: {', '.join(each['conflict'])}")


def share_rows(found: dict[str, Any]) -> Iterator[tuple[str, str, str, str]]:
    """The least and the most of each resource, in shares."""
    for part, what in (("shares", "a broker's share"), ("disk_shares", "a disk's share")):
        for name in found["before"][part]:
            before, after = (found[when][part][name] for when in ("before", "after"))
            if before is not None and after is not None:
                yield name, what, f"{before[0]:.2f} to {before[1]:.2f}", f"{after[0]:.2f} to {after[1]:.2f}"


def capacity_rows(found: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """What is used most of each capacity, of what the rules allow."""
    for name, before in found["before"]["capacity"].items():
        yield name.removeprefix("capacity."), f"{before:.0%}", f"{found['after']['capacity'][name]:.0%}"


def move_row(move: dict[str, Any]) -> tuple[str, ...]:
    ends = (" ".join(map(str, move[end].values())) for end in ("from", "to"))
    return (f"{move['topic']}-{move['partition']}", move["kind"], *ends, size_text(move["bytes"]), move["why"])
