"""`--throttle` of `penstock cluster reassign`: how many bytes a second the copies may take, while they are made.

As Kafka's tool does: brokers get the rates, topics the replicas that they hold for. Leaders are held back in what they
give to the new replicas, and those in what they ask for; replicas that are in sync are not.
"""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from penstock.errors import UnreachableError
from penstock.placement.plan import Plan

if TYPE_CHECKING:
    from penstock.client.admin import Resource
    from penstock.client.client import Client

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS, FOLLOWERS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def rate(text: str) -> int:
    """Bytes a second, as `10M` or `500000`."""
    digits = text.upper().removesuffix("B").rstrip("KMG")
    unit = text.upper().removesuffix("B")[len(digits) :]
    if not digits.isdecimal() or int(digits) == 0 or (unit and unit not in UNITS):
        raise argparse.ArgumentTypeError(f"{text}: it must be bytes a second, such as 10M or 500K")
    return int(digits) * UNITS.get(unit, 1)


def throttled_replicas(before: Plan, plan: Plan) -> dict[str, tuple[list[str], list[str]]]:
    """By topic, the replicas that leaders may be at, and those that are to come, as `partition:broker`."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for (topic, index), after in sorted(plan.items()):
        leaders, followers = found.setdefault(topic, ([], []))
        leaders += [f"{index}:{each}" for each in before[topic, index]]
        followers += [f"{index}:{each}" for each in after if each not in before[topic, index]]
    return found


async def begin(client: Client, brokers: Iterable[int], before: Plan, plan: Plan, bytes_per_second: int) -> None:
    """Sets the throttles, before anything moves."""
    from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType, alter_configs

    for broker_id in brokers:
        changes = [Change(name, ConfigOperation.SET, str(bytes_per_second)) for name in RATES]
        await alter_configs(client, Resource(ResourceType.BROKER, str(broker_id)), changes)
    for topic, (leaders, followers) in throttled_replicas(before, plan).items():
        wanted = ((LEADERS, leaders), (FOLLOWERS, followers))
        changes = [Change(name, ConfigOperation.SET, ",".join(replicas)) for name, replicas in wanted if replicas]
        await alter_configs(client, Resource(ResourceType.TOPIC, topic), changes)


async def end(client: Client, brokers: Iterable[int], topics: Collection[str]) -> None:
    """Takes the throttles of topics away; those of brokers, unless something else is still being moved."""
    from penstock.client.admin import Resource, ResourceType
    from penstock.client.cluster import list_reassignments

    for topic in sorted(topics):
        await clear(client, Resource(ResourceType.TOPIC, topic), (LEADERS, FOLLOWERS))
    if not await list_reassignments(client):
        for broker_id in brokers:
            with suppress(UnreachableError):  # it has just died; without topics that name replicas its rates do nothing
                await clear(client, Resource(ResourceType.BROKER, str(broker_id)), RATES)


async def clear(client: Client, resource: Resource, names: Iterable[str]) -> None:
    """Deletes these configs, set or not: a broker may not know of them yet."""
    from penstock.client.admin import Change, ConfigOperation, alter_configs

    await alter_configs(client, resource, [Change(name, ConfigOperation.DELETE, None) for name in names])
