"""`penstock cluster elect`: leaders where they belong, or one at all where only a replica that lags is left."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.cli.cluster.moves import say_errors
from penstock.cli.cluster.words import ids_text
from penstock.cli.common import with_client
from penstock.client.view import PartitionView, View, look
from penstock.errors import ErrorCode, RequestError, UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.cluster import ElectionType, Outcome


def elect_action(arguments: argparse.Namespace) -> int:
    async def job(client: Client) -> int:
        from penstock.client.cluster import ElectionType

        wanted = [parse_partition(text) for text in arguments.partitions]
        view = await look(client, sorted({name for name, _ in wanted}) or None)
        chosen = select(view, wanted)
        if arguments.kind == "preferred":
            needed = [each for each in chosen if each.replicas[:1] != (each.leader,)]
            election = ElectionType.PREFERRED
        else:
            needed = [each for each in chosen if each.unavailable]
            election = ElectionType.UNCLEAN
            if needed and not arguments.yes:
                confirm(needed)
        outcome = await elected(client, election, [each.key for each in needed])
        after = await look(client, sorted({each.topic for each in needed})) if needed else view
        leaders = {each.key: each.leader for each in after.partitions}
        return tell(arguments, needed, outcome, leaders)

    return with_client(arguments, job)


def parse_partition(text: str) -> tuple[str, int | None]:
    """`TOPIC` or `TOPIC:PARTITION`. Raises UsageError."""
    name, colon, index = text.partition(":")
    if not name or (colon and not index.isdecimal()):
        raise UsageError(f"{text}: it must be TOPIC or TOPIC:PARTITION, such as clicks:3")
    return name, int(index) if colon else None


def select(view: View, wanted: Sequence[tuple[str, int | None]]) -> list[PartitionView]:
    """The partitions named, or all. Raises UsageError for a partition that its topic does not have."""
    if not wanted:
        return list(view.partitions)
    keys = {partition.key for partition in view.partitions}
    for name, index in wanted:
        if index is not None and (name, index) not in keys:
            count = sum(key[0] == name for key in keys)
            raise UsageError(f"{name}:{index}: the topic has partitions 0 to {count - 1}")
    return [each for each in view.partitions if (each.topic, None) in wanted or each.key in wanted]


def confirm(needed: Sequence[PartitionView]) -> None:
    """Asks whether records may be lost. Raises UsageError without a terminal, or if the answer is no."""
    what = "an unclean election loses the records that only replicas which are away have"
    if not sys.stdin.isatty():
        raise UsageError(f"{what}: --yes says that this is meant ({ids_text(needed)})")
    for each in needed:
        print(f"{each}: replicas {ids_text(each.replicas)}, last in sync {ids_text(each.in_sync)}", file=sys.stderr)
    print(f"{what}. Elect? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise UsageError("nothing was changed")


async def elected(client: Client, election: ElectionType, keys: Iterable[Partition]) -> Outcome:
    """Elects leaders of partitions, none if there are none. One whose topic is gone meanwhile needs none."""
    from penstock.client.cluster import elect_leaders

    wanted = list(keys)
    outcome = await elect_leaders(client, election, wanted) if wanted else {}
    gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return {key: error for key, error in outcome.items() if error is None or error.code is not gone}


def tell(
    arguments: argparse.Namespace, needed: Sequence[PartitionView], outcome: Outcome, leaders: Mapping[Partition, int]
) -> int:
    """Prints who was elected; returns the exit code."""
    done = [each for each in needed if each.key in outcome and outcome[each.key] is None]
    errors = [(key, error) for key, error in outcome.items() if error is not None]
    if arguments.json:
        from penstock.cli.output import print_json

        print_json(report(done, errors, leaders))
    elif not needed:
        print("no partition needs an election")
    else:
        for each in done:
            before = each.leader if each.leader >= 0 else "none"
            print(f"{each}: leader {leaders.get(each.key, -1)}, was {before}")
    return say_errors(errors)


def report(
    done: Sequence[PartitionView], errors: Sequence[tuple[Partition, RequestError]], leaders: Mapping[Partition, int]
) -> dict[str, Any]:
    """The outcome in one JSON object."""
    return {
        "elected": [
            {"topic": each.topic, "partition": each.index, "leader": leaders.get(each.key, -1), "was": each.leader}
            for each in done
        ],
        "errors": [{"topic": key[0], "partition": key[1], "error": error.code.name} for key, error in errors],
    }
