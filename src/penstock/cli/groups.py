"""Inspect consumer groups and their lag, move their offsets, delete them.

examples:
  penstock groups list
  penstock groups describe reports
  penstock groups describe reports --members
  penstock groups reset reports --topic clicks --to earliest
  penstock groups reset reports --topic clicks:0,1 --to 2026-01-31T08:00Z --execute
  penstock groups delete reports
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from penstock.cli.common import (
    add_action,
    add_actions,
    add_bootstrap,
    add_flag,
    add_json,
    add_option,
    run_action,
    with_client,
)

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.groups import GroupMember, GroupState, Lag

SUMMARY = "inspect consumer groups and their lag, move their offsets, delete them"
STATES = ("stable", "empty", "preparingrebalance", "completingrebalance", "assigning", "reconciling", "dead")

run = run_action


def register(parser: argparse.ArgumentParser) -> None:
    from penstock.cli.group_reset import register as register_reset

    actions = add_actions(parser)
    list_ = add_action(actions, "list", list_action, "list groups").examples(
        "penstock groups list", "penstock groups list --state stable"
    )
    add_option(
        list_,
        "--state",
        "STATE",
        f"only groups in this state, one of {', '.join(STATES)}; repeatable",
        action="append",
        default=[],
        type=str.lower,
        choices=STATES,
    )
    list_.add_argument(
        "--type", action="append", default=[], choices=("classic", "consumer"), help="only groups of this type"
    )
    describe = add_action(
        actions, "describe", describe_action, "show a group's offset and lag in each partition, and its members"
    ).examples("penstock groups describe reports", "penstock groups describe reports --members --json")
    describe.add_argument("groups", nargs="+", metavar="GROUP", help="groups to describe")
    add_flag(describe, "--members", "one line per member instead of one per partition")
    reset = register_reset(actions)
    delete = add_action(
        actions, "delete", delete_action, "delete groups without members, or with --topic only their offsets of a topic"
    ).examples("penstock groups delete reports", "penstock groups delete reports --topic clicks")
    delete.add_argument("groups", nargs="+", metavar="GROUP", help="groups to delete, or to delete offsets of")
    add_option(delete, "--topic", "TOPIC", "delete only the offsets of this topic; repeatable", action="append")
    for action in (list_, describe, reset):
        add_json(action)
    for action in (list_, describe, reset, delete):
        add_bootstrap(action)


def list_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.cli.output import print_json, print_table
        from penstock.client.groups import list_groups

        groups = await list_groups(client, states=arguments.state, types=arguments.type)
        if arguments.json:
            print_json([asdict(group) for group in groups])
        elif groups:
            rows = [(each.group_id, each.type, each.state, each.coordinator) for each in groups]
            print_table(("group", "type", "state", "coordinator"), rows, right=("coordinator",))
        else:
            print("no such groups" if arguments.state or arguments.type else "there are no groups yet")
        return 0

    return with_client(arguments, job)


def describe_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.cli.main import say_error
        from penstock.cli.output import print_json
        from penstock.client.groups import describe_group, lags
        from penstock.errors import ErrorCode, RequestError

        found, missing = [], []
        for group_id in arguments.groups:
            try:
                state = await describe_group(client, group_id)
            except RequestError as error:
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise
                missing.append(str(error))
            else:
                found.append((state, await lags(client, state)))
        for sentence in missing:
            say_error(sentence)
        code = 1 if missing else 0
        if arguments.json:
            print_json([as_json(state, lag) for state, lag in found])
            return code
        for number, (state, lag) in enumerate(found):
            if number:
                print()
            print_group(state, lag, members=arguments.members)
        return code

    return with_client(arguments, job)


def as_json(state: GroupState, lag: list[Lag]) -> dict[str, Any]:
    """A group as one JSON object."""
    value = asdict(state)
    for member in value["members"]:
        for name in ("partitions", "target"):
            member[name] = [partition_name(partition) for partition in member[name]]
    value["partitions"] = [
        {
            "topic": each.partition[0],
            "partition": each.partition[1],
            "committed_offset": None if each.committed < 0 else each.committed,
            "log_start_offset": each.start,
            "end_offset": each.end,
            "lag": None if each.lag < 0 else each.lag,
            "member": None if each.member is None else each.member.member_id,
        }
        for each in lag
    ]
    value["lag"] = sum(max(0, each.lag) for each in lag)
    return value


def print_group(state: GroupState, lag: list[Lag], *, members: bool) -> None:
    """A group for people: a heading, then its partitions or its members."""
    from penstock.cli.output import BOLD, GREEN, YELLOW, paint, print_table

    colour = GREEN if state.state == "Stable" else YELLOW
    total = sum(max(0, each.lag) for each in lag)
    facts = [
        f"{state.type} group",
        paint(state.state, colour),
        f"{len(state.members)} member{'' if len(state.members) == 1 else 's'}",
        f"lag {total:,}",
    ]
    more = [
        f"assignor {state.assignor}" if state.assignor else "",
        f"epoch {state.epoch}" if state.epoch >= 0 else "",
        f"coordinator {state.coordinator}",
    ]
    print(f"{paint(state.group_id, BOLD)}: {', '.join(facts)}")
    print(f"  {', '.join(fact for fact in more if fact)}")
    if members:
        print_members(state)
        return
    names = labels(state.members)
    lines = [
        (
            partition_name(each.partition),
            "-" if each.committed < 0 else each.committed,
            "-" if each.end < 0 else each.end,
            "-" if each.lag < 0 else f"{each.lag:,}",
            "-" if each.member is None else names[each.member.member_id],
            "-" if each.member is None else each.member.host,
        )
        for each in lag
    ]
    if lines:
        print_table(
            ("partition", "committed", "end", "lag", "client", "host"), lines, right=("committed", "end", "lag")
        )


def print_members(state: GroupState) -> None:
    """A line a member. What may be long comes last."""
    from penstock.cli.output import print_table

    static = any(each.instance_id for each in state.members)
    head = ("client", "host", *(("instance",) if static else ()), "partitions", "which", "member")
    rows = [
        (
            each.client_id,
            each.host,
            *((each.instance_id or "-",) if static else ()),
            len(each.partitions),
            owned(each.partitions),
            each.member_id,
        )
        for each in state.members
    ]
    if rows:
        print_table(head, rows, right=("partitions",))


def labels(members: Sequence[GroupMember]) -> dict[str, str]:
    """Member ids to what tells members apart for people: the client, and where several have the same, its instance or
    the beginning of its member id."""
    clients = Counter(each.client_id for each in members)
    return {
        each.member_id: each.client_id
        if each.client_id and clients[each.client_id] == 1
        else f"{each.client_id} {each.instance_id or each.member_id.removeprefix(f'{each.client_id}-')[:8]}".lstrip()
        for each in members
    }


def partition_name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def owned(partitions: tuple[Partition, ...]) -> str:
    """Partitions by topic: `clicks:0,2-4 orders:2`."""
    topics: dict[str, list[list[int]]] = {}
    for topic, index in partitions:
        runs = topics.setdefault(topic, [])
        if runs and runs[-1][1] == index - 1:
            runs[-1][1] = index
        else:
            runs.append([index, index])
    return " ".join(f"{topic}:{','.join(map(run_text, runs))}" for topic, runs in topics.items()) or "-"


def run_text(run: list[int]) -> str:
    """Indexes from first to last, inclusive: `3`, `3,4`, `3-7`."""
    first, last = run
    return str(first) if first == last else f"{first}{',' if last == first + 1 else '-'}{last}"


def delete_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        failed = await (delete_topics(client, arguments) if arguments.topic else delete_whole(client, arguments))
        return 1 if failed else 0

    return with_client(arguments, job)


WHY_NOT = {
    "NON_EMPTY_GROUP": "it has members: stop them first",
    "GROUP_ID_NOT_FOUND": "there is no such group",
    "GROUP_SUBSCRIBED_TO_TOPIC": "a member subscribes to the topic: stop it first",
    "UNKNOWN_TOPIC_OR_PARTITION": "there is no such partition",
}


async def delete_whole(client: Client, arguments: argparse.Namespace) -> bool:
    """Deletes groups; whether one could not be."""
    from penstock.cli.main import say_error
    from penstock.client.groups import delete_groups

    failed = False
    for group_id, code in (await delete_groups(client, arguments.groups)).items():
        if code:
            failed = True
            say_error(f"group {group_id} is not deleted: {WHY_NOT.get(code.name, code.name)}")
        else:
            print(f"deleted {group_id}")
    return failed


async def delete_topics(client: Client, arguments: argparse.Namespace) -> bool:
    """Deletes the offsets of topics; whether one could not be."""
    from penstock.cli.main import say_error
    from penstock.client.groups import committed, delete_offsets

    failed = False
    for group_id in arguments.groups:
        held = [place for place in await committed(client, group_id) if place[0] in arguments.topic]
        for topic in arguments.topic:
            if not any(name == topic for name, _ in held):
                failed = True
                say_error(f"group {group_id} has no offsets of topic {topic}")
        if not held:
            continue
        for place, code in sorted((await delete_offsets(client, group_id, held)).items()):
            if code:
                failed = True
                say_error(f"{group_id}, {partition_name(place)}: {WHY_NOT.get(code.name, code.name)}")
            else:
                print(f"{group_id}: forgot {partition_name(place)}")
    return failed
