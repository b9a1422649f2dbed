"""`penstock topics tail`: how topics grow, live, and with --lag how far the groups are that read them.

On a terminal the lines are redrawn; elsewhere each look is a block of lines, or with --json one object a line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.cli.common import Actions, add_action, add_flag, add_option, with_client
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition

GROUPS_LOOKED_UP_EVERY = 10
"""After so many looks the list of groups is asked for again."""


class Look(NamedTuple):
    """One look at the cluster: next offsets by partition, and by group the lag in each topic."""

    at_s: float
    ends: Mapping[Partition, int]
    lags: Mapping[str, Mapping[str, int]]


def register(actions: Actions[argparse.ArgumentParser]) -> argparse.ArgumentParser:
    tail = add_action(
        actions, "tail", tail_action, "watch topics grow; with --lag, also the groups that read them"
    ).examples("penstock topics tail clicks --lag", "penstock topics tail clicks orders --every 5 --json")
    tail.add_argument("topics", nargs="+", metavar="TOPIC", help="topics to watch")
    add_flag(tail, "--lag", "include the lag of each group with offsets there")
    add_option(tail, "--every", "SECONDS", "interval between updates", type=float, default=1.0)
    add_option(tail, "--count", "N", "stop after N updates", type=int)
    return tail


def tail_action(arguments: argparse.Namespace) -> int:
    """Watches until Ctrl-C."""
    if not arguments.every > 0:
        raise UsageError(f"--every {arguments.every:g}: it must be more than 0")

    async def job(client: Client) -> int:
        await watch(client, arguments)
        return 0

    return with_client(arguments, job)


async def watch(client: Client, arguments: argparse.Namespace) -> None:
    """Looks, and shows what has changed since the last look."""
    import sys

    from penstock.cli.progress import Lines

    lines = Lines(sys.stdout)
    before: Look | None = None
    groups: list[str] = []
    looks = 0
    while arguments.count is None or looks < arguments.count:
        if arguments.lag and looks % GROUPS_LOOKED_UP_EVERY == 0:
            groups = await group_names(client)
        now = await look(client, arguments.topics, groups)
        if arguments.json:
            print(json.dumps(as_json(now, before)), flush=True)
        elif lines.is_terminal:
            lines.show(shown(now, before))
        else:
            print("\n".join(shown(now, before)), flush=True)
        before = now
        looks += 1
        if arguments.count is None or looks < arguments.count:
            await asyncio.sleep(arguments.every)


async def group_names(client: Client) -> list[str]:
    from penstock.client.groups import list_groups

    return [group.group_id for group in await list_groups(client)]


async def look(client: Client, topics: list[str], groups: list[str]) -> Look:
    """Asks for all offsets. Groups that have none in these topics are left out."""
    from penstock.client.client import LATEST
    from penstock.client.groups import committed

    places = [(topic, index) for topic in topics for index in range(len((await client.topic(topic)).leaders))]
    ends = {place: at.offset for place, at in (await client.offsets(places, LATEST)).items()}
    offsets = await asyncio.gather(*(committed(client, group_id) for group_id in groups))
    lags: dict[str, dict[str, int]] = {}
    for group_id, held in zip(groups, offsets, strict=True):
        for (topic, index), at in held.items():
            if (topic, index) in ends:
                behind = lags.setdefault(group_id, {})
                behind[topic] = behind.get(topic, 0) + max(0, ends[(topic, index)] - at.offset)
    return Look(time.monotonic(), ends, lags)


def rate(now: Look, before: Look | None, place: Partition) -> float:
    """Records a second since the last look; 0 at the first."""
    if before is None or place not in before.ends:
        return 0.0
    return (now.ends[place] - before.ends[place]) / (now.at_s - before.at_s)


def shown(now: Look, before: Look | None) -> list[str]:
    """One update as lines of text."""
    topics: dict[str, list[Partition]] = {}
    for place in now.ends:
        topics.setdefault(place[0], []).append(place)
    lines = []
    for topic, places in topics.items():
        total = sum(now.ends[place] for place in places)
        grown = sum(rate(now, before, place) for place in places)
        lines.append(f"{topic}: {len(places)} partitions, next offsets {total:,} in all, {grown:,.0f} records/s")
        for group_id, lag in now.lags.items():
            if topic in lag:
                earlier = None if before is None else before.lags.get(group_id, {}).get(topic)
                lines.append(f"  group {group_id}: lag {lag[topic]:,}{trend(lag[topic], earlier)}")
    return lines


def trend(lag: int, earlier: int | None) -> str:
    """Whether a group falls behind."""
    if earlier is None or lag == earlier:
        return ""
    return f" ({lag - earlier:+,})"


def as_json(now: Look, before: Look | None) -> dict[str, Any]:
    """A look as one JSON object."""
    partitions = [
        {
            "topic": place[0],
            "partition": place[1],
            "end_offset": end,
            "records_per_s": round(rate(now, before, place), 1),
        }
        for place, end in now.ends.items()
    ]
    return {"partitions": partitions, "groups": now.lags}
