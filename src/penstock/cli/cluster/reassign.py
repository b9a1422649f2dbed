"""`penstock cluster reassign`: replicas to other brokers, by a plan made here or given; a plan that is given may name
the log directories of replicas, too."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.cli.cluster import throttle
from penstock.cli.cluster.directory_moves import DirectoryMove, find_directory_moves
from penstock.cli.cluster.moves import begin, carry_out, say_errors, watch
from penstock.cli.cluster.words import ids_text, parse_ids
from penstock.cli.common import with_client
from penstock.cli.output import size_text
from penstock.client.view import View, look
from penstock.errors import ErrorCode, PenstockError, UsageError
from penstock.placement.plan import Plan, Replica, Replicas, changed, parse_log_dirs, parse_plan
from penstock.placement.spread import spread

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.cluster import Ongoing


KEPT = "`penstock cluster reassign --watch --topic TOPIC` takes it away when it has seen the end"


def reassign_action(arguments: argparse.Namespace) -> int:
    """Plans and moves, cancels, or watches."""
    check(arguments)

    async def job(client: Client) -> int:
        from penstock.client.cluster import list_reassignments

        if arguments.cancel or arguments.watch:
            moving = await list_reassignments(client)
            chosen = {key: each for key, each in moving.items() if not arguments.topic or key[0] in arguments.topic}
            return await (cancel if arguments.cancel else follow)(client, arguments, chosen)
        given, log_dirs = (None, {}) if arguments.plan is None else read_plan(arguments.plan)
        topics = sorted({name for name, _ in given}) if given is not None else arguments.topic
        view = await look(client, topics)
        plan = planned(view, arguments) if given is None else checked(view, given)
        directories = await find_directory_moves(client, log_dirs) if log_dirs else []
        return await throttled(client, arguments, view, changed(view.replicas, plan), directories)

    return with_client(arguments, job)


def check(arguments: argparse.Namespace) -> None:
    """Raises UsageError for what does not go together."""
    factor = arguments.replication_factor
    ways = (arguments.to, arguments.plan, factor)
    if all(way is None for way in ways) and not arguments.cancel and not arguments.watch:
        raise UsageError("say where to: --to 1,2,3 or --plan FILE or --replication-factor N; or --watch or --cancel")
    if factor is not None and factor < 1:
        raise UsageError(f"--replication-factor {factor}: it must be at least 1")
    if factor is not None and (arguments.plan is not None or arguments.cancel or arguments.watch):
        raise UsageError("--replication-factor goes with --to or alone: a plan has its replicas itself")
    if arguments.plan is not None and arguments.topic:
        raise UsageError("--topic does not go with --plan, which names its topics itself")
    if arguments.throttle is not None and (arguments.cancel or arguments.watch):
        raise UsageError("--throttle goes with a plan only")
    if arguments.save is not None and (arguments.cancel or arguments.watch):
        raise UsageError("--save goes with a plan only")


def read_plan(path: str) -> tuple[dict[Partition, Replicas], dict[Replica, str]]:
    """The plan in a file or, named -, on the standard input, and the directories in it. Raises UsageError."""
    if path == "-":
        text, source = sys.stdin.read(), "stdin"
    else:
        with open(path, encoding="utf-8") as file:
            text, source = file.read(), path
    return parse_plan(text, source), parse_log_dirs(text, source)


def planned(view: View, arguments: argparse.Namespace) -> dict[Partition, Replicas]:
    """A plan over the brokers asked for, or all that are up. Raises UsageError."""
    targets = view.live if arguments.to is None else parse_ids(arguments.to, "--to")
    for target in targets:
        if view.broker(target).fenced:
            raise UsageError(f"--to {arguments.to}: broker {target} is fenced, it cannot take replicas")
    return spread(view.replicas, targets, view.racks, arguments.replication_factor)


def checked(view: View, plan: Plan) -> Plan:
    """A plan that was given, if it is one of this cluster. Raises UsageError."""
    for key, replicas in plan.items():
        if key not in view.replicas:
            raise UsageError(f"the plan has {key[0]}-{key[1]}, and the topic has no such partition")
        for replica in replicas:
            view.broker(replica)
    return plan


async def throttled(
    client: Client,
    arguments: argparse.Namespace,
    view: View,
    plan: Plan,
    directories: Sequence[DirectoryMove] = (),
) -> int:
    """Carries a plan out, under a throttle if one is asked for; that is taken away when all has moved."""
    if arguments.throttle is None or arguments.dry_run or not plan:
        return await carry_out(client, arguments, view, plan, directories=directories)
    topics = {name for name, _ in plan}

    await throttle.begin(client, view.live, {key: view.replicas[key] for key in plan}, plan, arguments.throttle)
    if not arguments.json:
        print(f"throttle: {size_text(arguments.throttle)}/s for each broker, taken away when all has moved")
        if arguments.no_wait:
            print(f"  {KEPT}")
    try:
        code = await carry_out(client, arguments, view, plan, directories=directories)
        if not arguments.no_wait:  # nothing of it moves any more, also when some was refused
            await throttle.end(client, view.live, topics)
    except (asyncio.CancelledError, PenstockError):
        print(f"the throttle stays: {KEPT}", file=sys.stderr)
        raise
    return code


async def cancel(client: Client, arguments: argparse.Namespace, moving: Mapping[Partition, Ongoing]) -> int:
    """Cancels moves and takes their throttles away, also of those that end meanwhile."""
    outcome = [] if arguments.dry_run or not moving else await begin(client, dict.fromkeys(moving))
    ended = {key for key, error in outcome if error.code is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS}
    errors = [(key, error) for key, error in outcome if key not in ended]
    refused = {key for key, _ in errors}
    if not arguments.dry_run:
        topics = {name for name, _ in moving}.union(arguments.topic or ())
        await unthrottle(client, topics - {name for name, _ in refused})
    verb = "would cancel" if arguments.dry_run else "cancelled"
    cancelled = sorted(moving.keys() - refused - ended)
    if arguments.json:
        from penstock.cli.output import print_json

        print_json({verb.replace(" ", "_"): [{"topic": name, "partition": i} for name, i in cancelled]})
    elif not moving:
        print("nothing is being moved")
    else:
        for key in cancelled:
            print(f"{verb} {key[0]}-{key[1]}: {described(moving[key])}")
        for key in sorted(ended):
            print(f"{key[0]}-{key[1]}: its move has ended already")
    return say_errors(errors)


async def follow(client: Client, arguments: argparse.Namespace, moving: Mapping[Partition, Ongoing]) -> int:
    """Shows what is being moved, until it is done."""
    if arguments.json:
        from penstock.cli.output import print_json

        entries = [
            {"topic": key[0], "partition": key[1], "replicas": each.replicas, "to": each.target}
            for key, each in sorted(moving.items())
        ]
        print_json({"moving": entries})
    else:
        for key, each in sorted(moving.items()):
            print(f"{key[0]}-{key[1]}: {described(each)}")
        if not moving:
            print("nothing is being moved")
    if moving and not arguments.no_wait:
        await watch(client, moving)
    if not arguments.no_wait:
        await unthrottle(client, {name for name, _ in moving}.union(arguments.topic or ()))
    return 0


async def unthrottle(client: Client, topics: Collection[str]) -> None:
    """Takes away the throttles under which topics were moved, if there are any."""
    if topics:
        await throttle.end(client, (await look(client, sorted(topics))).live, topics)


def described(moving: Ongoing) -> str:
    """A reassignment in words."""
    return f"replicas {ids_text(moving.replicas)}, to come {ids_text(moving.adding)}, to go {ids_text(moving.removing)}"
