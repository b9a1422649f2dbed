"""A plan carried out: what changes shown as a diff, handed to the cluster, watched until it is done."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.cluster.directory_moves import (
    DirectoryMove,
    begin_directory_moves,
    total_text,
    watch_directory_moves,
)
from penstock.cli.cluster.words import ids_text, names_of
from penstock.cli.output import GREEN, RED, YELLOW, paint, size_text
from penstock.cli.progress import Lines
from penstock.client.view import View
from penstock.errors import PenstockError, RequestError
from penstock.placement.plan import Plan, Replicas, plan_json

if TYPE_CHECKING:
    from argparse import Namespace

    from penstock.client.client import Client, Partition
    from penstock.client.cluster import Ongoing, Outcome

Errors = list[tuple[tuple[str, int], RequestError]]
Finish = Callable[[], Awaitable[dict[str, Any]]]

SHOWN_MAX = 20
"""Lines of a diff that a run shows; a dry run shows all."""
PARTITIONS_AT_ONCE = 1000
"""Partitions in one request to the controller."""
LOOK_EVERY_S = 0.5
PATIENCE_S = 60.0
"""How long the cluster may be unreachable, or without a controller, while it is watched."""
BAR_WIDTH = 30


async def carry_out(
    client: Client,
    arguments: Namespace,
    view: View,
    plan: Plan,
    finish: Finish | None = None,
    *,
    directories: Sequence[DirectoryMove] = (),
) -> int:
    """Shows the plan's changes, makes them, and watches, as the arguments say. Returns the exit code.

    `finish` is called when all has moved; it returns its part of a JSON report, with `left` if not everything went
    well. `directories` are the replicas that are to lie in other directories, or get one where they are new; where one
    is refused, its partition stays on its brokers.
    """
    leaderless = [each for each in view.partitions if each.unavailable and each.key in plan]
    copies = [(key, each) for key, after in plan.items() for each in after if each not in view.replicas[key]]
    size_bytes = await bytes_to_copy(client, view, copies)
    if not arguments.json:
        print_changes(view, plan, directories, None if arguments.dry_run else SHOWN_MAX)
        print(summary(plan, copies, size_bytes, directories))
        if leaderless:
            print(f"nobody leads these, so that nothing is copied until somebody does: {names_of(leaderless)}")
    if arguments.save is not None and (plan or directories):
        save(arguments.save, view, plan, directories)
    state, more = "planned", {}
    errors: Errors = []
    if not arguments.dry_run:
        errors = await begin_directory_moves(client, directories)
        no_directory = {error[0] for error in errors}
        errors += await begin(client, {key: after for key, after in plan.items() if key not in no_directory})
        state = "begun"
        refused = {error[0] for error in errors}
        on_their_way = {each.key for each in directories if each.before is None and each.key in view.moving}
        moving = (plan.keys() | on_their_way) - refused - {each.key for each in leaderless}
        if not arguments.no_wait:
            if moving:
                await watch(client, moving)
            errors += await in_directories(client, [each for each in directories if each.key not in refused], moving)
        if not arguments.no_wait and not errors:
            more = {} if finish is None else await finish()
            state = "begun" if leaderless else "done"
    if arguments.json:
        from penstock.cli.output import print_json

        print_json({**report(view, plan, size_bytes, state, errors, directories=directories), **more})
    left = more.get("left") or (leaderless and not arguments.no_wait and not arguments.dry_run)
    return max(say_errors(errors), 1 if left else 0)


async def in_directories(client: Client, moves: Sequence[DirectoryMove], arrived: Collection[Partition]) -> Errors:
    """Waits until replicas are in their directories; returns what was refused.

    Those that have `arrived` from other brokers are asked for once more: a broker that was restarted meanwhile has
    forgotten which directory they were to take.
    """
    new = [each for each in moves if each.before is None and each.key in arrived]
    errors = await begin_directory_moves(client, new, arrived=True)
    refused = {error[0] for error in errors}
    awaited = [each for each in moves if each.key not in refused and (each.before is not None or each in new)]
    if awaited:
        await watch_directory_moves(client, awaited)
    return errors


async def bytes_to_copy(client: Client, view: View, copies: Sequence[tuple[Partition, int]]) -> int:
    """The bytes to copy: what each leader has on disk, once for each new replica."""
    from penstock.client.cluster import replica_sizes

    if not copies:
        return 0
    leaders = {each.key: each.leader for each in view.partitions}
    wanted = {leaders[key] for key, _ in copies} & set(view.live)
    sizes = await replica_sizes(client, wanted)
    return sum(sizes.get((*key, leaders[key]), 0) for key, _ in copies)


def print_diff(view: View, plan: Plan, shown_max: int | None) -> None:
    """Prints a line for each partition: its replicas before and after, which are added and which removed."""
    for key in sorted(plan)[:shown_max]:
        before, after = view.replicas[key], plan[key]
        come = [paint(f"+{each}", GREEN) for each in after if each not in before]
        go = [paint(f"-{each}", RED) for each in before if each not in after]
        leads = [paint(f"preferred leader {after[0]}", YELLOW)] if before[:1] != after[:1] else []
        notes = " ".join([*come, *go, *leads])
        print(f"{key[0]}-{key[1]}  {ids_text(before)} -> {ids_text(after)}  {notes}".rstrip())
    if shown_max is not None and len(plan) > shown_max:
        print(f"and {len(plan) - shown_max} more; --dry-run shows all")


def print_changes(view: View, plan: Plan, directories: Sequence[DirectoryMove], shown_max: int | None) -> None:
    """Prints what changes: partitions, then the directories of replicas."""
    print_diff(view, plan, shown_max)
    for move in directories[:shown_max]:
        print(move)
    if shown_max is not None and len(directories) > shown_max:
        print(f"and {len(directories) - shown_max} more directories; --dry-run shows all")


def summary(plan: Plan, copies: Sequence[object], size_bytes: int, directories: Sequence[DirectoryMove] = ()) -> str:
    within = total_text(directories)
    if not plan:
        return within or "nothing to change"
    text = f"partitions to change: {len(plan)}, replicas to copy: {len(copies)} ({size_text(size_bytes)})"
    return text if within is None else f"{text}, {within}"


def save(path: str, view: View, plan: Plan, directories: Sequence[DirectoryMove] = ()) -> None:
    """Writes how it was. An existing file is not overwritten: it may be the only way back."""
    before = {key: view.replicas[key] for key in {*plan, *(each.key for each in directories)}}
    log_dirs = {(*each.key, each.broker): each.before for each in directories if each.before is not None}
    with open(path, "x") as file:
        json.dump(plan_json(before, log_dirs), file)
        file.write("\n")


async def begin(client: Client, plan: Mapping[Partition, Replicas | None]) -> Errors:
    """Sends a plan to the controller; returns the partitions that were refused."""
    from penstock.client.cluster import alter_reassignments

    keys = sorted(plan)
    outcome: Outcome = {}
    for first in range(0, len(keys), PARTITIONS_AT_ONCE):
        some = keys[first : first + PARTITIONS_AT_ONCE]
        outcome |= await alter_reassignments(client, {key: plan[key] for key in some})
    return [(key, error) for key, error in outcome.items() if error is not None]


def say_errors(errors: Errors) -> int:
    """A line for each refusal, not all of too many; the exit code."""
    from penstock.cli.main import say_error

    for _, error in errors[:SHOWN_MAX]:
        say_error(str(error))
    if len(errors) > SHOWN_MAX:
        say_error(f"and {len(errors) - SHOWN_MAX} more were refused")
    return 1 if errors else 0


def report(
    view: View,
    plan: Plan,
    size_bytes: int,
    state: str,
    errors: Errors,
    *,
    directories: Sequence[DirectoryMove] = (),
) -> dict[str, Any]:
    """The plan and its outcome as one JSON object."""
    changes = [
        {"topic": topic, "partition": index, "from": view.replicas[topic, index], "to": after}
        for (topic, index), after in sorted(plan.items())
    ]
    refusals = [{"topic": key[0], "partition": key[1], "error": error.code.name} for key, error in errors]
    found = {"state": state, "changes": changes, "bytes_to_copy": size_bytes, "errors": refusals}
    return {**found, "directory_changes": [each.as_json() for each in directories]} if directories else found


async def watch(client: Client, keys: Iterable[Partition]) -> None:
    """Shows a progress bar until none of the partitions is being moved any more.

    The cluster may be without a controller for a while. Ctrl-C ends the watching, not the moving.
    """
    from penstock.client.cluster import describe_cluster, list_reassignments

    wanted = set(keys)
    lines = Lines(sys.stderr)
    answered_at = time.monotonic()
    try:
        while True:
            try:
                ongoing = await list_reassignments(client)
                left = {key: moving for key, moving in ongoing.items() if key in wanted}
                copied, total = await bytes_copied(client, left)
                live = {broker.id for broker in (await describe_cluster(client)).brokers if not broker.fenced}
                answered_at = time.monotonic()
            except PenstockError:
                if time.monotonic() > answered_at + PATIENCE_S:
                    raise
            else:
                away = sorted({each for moving in left.values() for each in moving.adding} - live)
                lines.show([progress_line(len(wanted), len(left), copied, total, away)], last=not left)
                if not left:
                    return
            await asyncio.sleep(LOOK_EVERY_S)
    except asyncio.CancelledError:
        lines.say("the cluster goes on moving; `penstock cluster reassign --watch` shows it, --cancel stops it")
        raise


async def bytes_copied(client: Client, left: Mapping[Partition, Ongoing]) -> tuple[int, int]:
    """The bytes already copied and the total, for the moves still running."""
    from penstock.client.cluster import replica_sizes

    if not left:
        return 0, 0
    nodes = {node for moving in left.values() for node in moving.replicas} & client.brokers.keys()
    sizes = await replica_sizes(client, nodes)
    copied = total = 0
    for key, moving in left.items():
        whole = max(sizes.get((*key, each), 0) for each in moving.replicas)
        total += whole * len(moving.adding)
        copied += sum(min(whole, sizes.get((*key, each), 0)) for each in moving.adding)
    return copied, total


def progress_line(partitions: int, left: int, copied_bytes: int, total_bytes: int, away: Sequence[int] = ()) -> str:
    """The line now: partitions still moving, bytes of those copied so far, brokers waited for that are not up."""
    part = copied_bytes / total_bytes if total_bytes else 0.0
    done = partitions - left
    filled = int(BAR_WIDTH * min(1.0, (done + part * left) / partitions))
    bar = "#" * filled + "." * (BAR_WIDTH - filled)
    text = f"[{bar}] {done} of {partitions} partitions"
    if left and total_bytes:
        text += f", {size_text(copied_bytes)} of {size_text(total_bytes)} of the others"
    if away:
        text += f"; not up: broker {ids_text(away)}"
    return text
