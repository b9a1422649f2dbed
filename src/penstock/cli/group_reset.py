"""`penstock groups reset`: moves the offsets of a group without members. Shows the difference; --execute makes it.

Where an offset that was asked for lies outside of what the partition has, the nearest end is taken, as Kafka's own
tool does.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.cli.common import Actions, add_action, add_flag, add_option, with_client
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.groups import Committed

SHOWN_MAX = 50
"""Partitions that are shown one by one; of more, only those that change most."""


class Move(NamedTuple):
    """The effect of a reset on one partition; `before` is -1 if nothing was committed."""

    partition: Partition
    before: int
    after: int
    start: int
    end: int

    @property
    def records(self) -> int:
        """How many records are read again (below 0) or passed over (above)."""
        return self.after - (self.before if self.before >= 0 else self.after)


def register(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    reset = add_action(
        actions, "reset", reset_action, "move a group's offsets: a preview, unless --execute is given"
    ).examples(
        "penstock groups reset reports --topic clicks --to earliest",
        "penstock groups reset reports --topic clicks:0,1 --to 1000 --execute",
        "penstock groups reset reports --all-topics --to 2h --execute        where it was two hours ago",
        "penstock groups reset reports --topic clicks --by -100 --execute    the last hundred again",
    )
    reset.add_argument("group", metavar="GROUP", help="group whose offsets to move")
    what = reset.add_mutually_exclusive_group(required=True)
    add_option(what, "--topic", "TOPIC", "topic, or some of its partitions as TOPIC:0,2-4; repeatable", action="append")
    add_flag(what, "--all-topics", "all topics the group has offsets for")
    add_option(what, "--from-file", "FILE", "CSV lines topic,partition,offset, as for kafka-consumer-groups")
    where = reset.add_mutually_exclusive_group()
    add_option(where, "--to", "WHERE", "earliest, latest, an offset, or a time as for `consume --from`")
    add_option(where, "--by", "N", "shift by N records; negative goes back", type=int)
    add_flag(reset, "--execute", "apply the change")
    return reset


def reset_action(arguments: argparse.Namespace) -> int:
    if (arguments.to is None and arguments.by is None) != (arguments.from_file is not None):
        raise UsageError("say where to: --to or --by; with --from-file the file says it")

    async def job(client: Client) -> int:
        from penstock.client.groups import committed

        before = await committed(client, arguments.group)
        moves = await planned(client, arguments, before)
        if arguments.execute:
            await carry_out(client, arguments.group, moves)
        show(arguments, moves, await member_count(client, arguments.group))
        return 0

    return with_client(arguments, job)


async def member_count(client: Client, group_id: str) -> int:
    """How many members the group has; none if there is no such group yet."""
    from penstock.client.groups import describe_group
    from penstock.errors import ErrorCode, RequestError

    try:
        return len((await describe_group(client, group_id)).members)
    except RequestError as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        return 0


async def planned(client: Client, arguments: argparse.Namespace, before: Mapping[Partition, Committed]) -> list[Move]:
    """The moves to make. Raises UsageError for topics, partitions and offsets that do not make sense."""
    from penstock.client.groups import ends

    given = read_file(arguments.from_file) if arguments.from_file is not None else {}
    if given:
        wanted = list(given)
    elif arguments.all_topics:
        wanted = list(before)
        if not wanted:
            raise UsageError(f"group {arguments.group} has no offsets: name the topics with --topic")
    else:
        wanted = await named(client, arguments.topic)
    wanted = sorted(set(wanted))
    start, end = await ends(client, wanted)
    for name, index in wanted:
        if (name, index) not in end:
            raise UsageError(f"there is no partition {name}-{index}")
    target = given or await targets(client, arguments, wanted, before)
    moves = []
    for place in wanted:
        if place not in target:
            raise UsageError(f"{place[0]}-{place[1]} has no committed offset to go on from: use --to")
        low, high = start[place].offset, end[place].offset
        held = before[place].offset if place in before else -1
        moves.append(Move(place, held, min(max(target[place], low), high), low, high))
    return moves


async def targets(
    client: Client, arguments: argparse.Namespace, wanted: Sequence[Partition], before: Mapping[Partition, Committed]
) -> dict[Partition, int]:
    """The offset that each partition should move to."""
    from penstock.client.client import EARLIEST, LATEST

    if arguments.by is not None:
        return {place: before[place].offset + arguments.by for place in wanted if place in before}
    to: str = arguments.to
    if to.isdecimal():
        return dict.fromkeys(wanted, int(to))
    if to in ("earliest", "latest"):
        found = await client.offsets(wanted, EARLIEST if to == "earliest" else LATEST)
        return {place: at.offset for place, at in found.items()}
    at_time = await client.offsets(wanted, time_of(to))
    end = await client.offsets(wanted, LATEST)
    return {place: at.offset if at.offset >= 0 else end[place].offset for place, at in at_time.items()}


def time_of(text: str) -> int:
    """The time that --to names. Raises UsageError."""
    from penstock.cli.times import timestamp_ms

    try:
        return timestamp_ms(text, "--to")
    except UsageError:
        raise UsageError(
            f"--to {text}: it must be earliest, latest, an offset, or a time such as 2026-01-31T08:00Z, 2026-01-31, or "
            "15m for 15 minutes ago (s, m, h, d)"
        ) from None


async def named(client: Client, topics: Sequence[str]) -> list[Partition]:
    """The partitions that --topic names. Raises UsageError."""
    found: list[Partition] = []
    for text in topics:
        name, colon, indexes = text.partition(":")
        count = len((await client.topic(name)).leaders)
        try:
            chosen = [index for part in indexes.split(",") for index in run_of(part)] if colon else range(count)
        except ValueError:
            raise UsageError(f"--topic {text}: it must be like clicks, clicks:0,1 or clicks:0-3") from None
        for index in chosen:
            if not 0 <= index < count:
                raise UsageError(f"{name} has partitions 0 to {count - 1}, not {index}")
            found.append((name, index))
    return found


def run_of(text: str) -> range:
    """The indexes of `3` or `3-7`. Raises ValueError."""
    first, dash, last = text.partition("-")
    return range(int(first), int(last if dash else first) + 1)


def read_file(path: str) -> dict[Partition, int]:
    """Lines of topic,partition,offset. Raises UsageError naming the line."""
    found: dict[Partition, int] = {}
    with open(path, newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file), start=1):
            if not row:
                continue
            try:
                topic, partition, offset = row
                found[(topic.strip(), int(partition))] = int(offset)
            except ValueError:
                raise UsageError(f"{path}, line {number}: it must be topic,partition,offset") from None
    if not found:
        raise UsageError(f"{path} has no lines of topic,partition,offset")
    return found


async def carry_out(client: Client, group_id: str, moves: Sequence[Move]) -> None:
    """Commits the offsets that change. Raises RequestError, naming what was refused."""
    from penstock.client.groups import alter_offsets
    from penstock.errors import RequestError

    changes = {move.partition: move.after for move in moves if move.after != move.before}
    if not changes:
        return
    for (name, index), code in (await alter_offsets(client, group_id, changes)).items():
        if code:
            raise RequestError(code, f"{name}-{index}: {code.name}; the other partitions may be changed by now")


def show(arguments: argparse.Namespace, moves: Sequence[Move], members: int) -> None:
    """The difference, and whether it was made, or could be: not while the group has `members`."""
    from penstock.cli.output import BOLD, paint, print_json, print_table

    if arguments.json:
        names = ("topic", "partition", "before", "after", "log_start_offset", "end_offset")
        rows = [(*move.partition, move.before if move.before >= 0 else None, *move[2:]) for move in moves]
        changes = [dict(zip(names, row, strict=True)) for row in rows]
        print_json({"group_id": arguments.group, "executed": arguments.execute, "partitions": changes})
        return
    changed = [move for move in moves if move.after != move.before]
    shown = sorted(sorted(changed, key=lambda move: -abs(move.records))[:SHOWN_MAX])
    lines = [
        (
            f"{move.partition[0]}-{move.partition[1]}",
            "-" if move.before < 0 else move.before,
            move.after,
            f"{move.records:+,}" if move.before >= 0 else "new",
            f"{move.end - move.after:,}",
        )
        for move in shown
    ]
    if lines:
        print_table(
            ("partition", "from", "to", "records", "lag then"), lines, right=("from", "to", "records", "lag then")
        )
    if len(changed) > len(shown):
        print(f"... and {len(changed) - len(shown)} more")
    count = f"{len(changed)} partition{'' if len(changed) == 1 else 's'}"
    if not changed:
        print("nothing to change: the offsets are there already")
    elif arguments.execute:
        print(paint(f"moved {count} of {arguments.group}", BOLD))
    else:
        first = f"stop its {members} member{'' if members == 1 else 's'}, then " if members else ""
        print(f"{paint(f'{count} would change', BOLD)}; nothing was done: {first}add --execute")
