"""`penstock cluster drain` and `undrain`: a broker freed of its leaderships, or of all it has, and back.

Nobody can order who leads a partition; the preferred leader is the first of its replicas. So a broker is drained by
putting it last among the replicas wherever it is, which moves no data, and electing the preferred leaders. It stays
that way when brokers restart or the cluster balances its leaders.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from typing import TYPE_CHECKING, Any

from penstock.cli.cluster.elect import elected
from penstock.cli.cluster.moves import carry_out, say_errors
from penstock.cli.cluster.plan import Plan, changed, demoted, emptied, filled_up, promoted
from penstock.cli.cluster.view import PartitionView, View, look, names_of
from penstock.cli.common import UsageError, with_client

if TYPE_CHECKING:
    from penstock.client.client import Client

SETTLED_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.1


def drain_action(arguments: argparse.Namespace) -> int:
    """Drains a broker."""

    async def job(client: Client) -> int:
        view = await look(client)
        broker_id = view.broker(arguments.broker).id
        others = [each for each in view.live if each != broker_id]
        if not others:
            raise UsageError(f"there is no other broker that could take over from {broker_id}")
        if arguments.replicas:
            led = {each.key: view.replicas[each.key] for each in view.partitions if not each.unavailable}
            plan = emptied(led, broker_id, others, view.racks)  # what nobody leads cannot be copied
        else:
            in_sync = {each.key: each.in_sync for each in view.partitions}
            plan = demoted(view.replicas, broker_id, in_sync)

        plan = changed(view.replicas, plan)

        async def finish() -> dict[str, Any]:
            return told_of_rest(arguments, await settled(client, view, plan, broker_id, leads=False), broker_id)

        return await carry_out(client, arguments, view, plan, finish)

    return with_client(arguments.bootstrap, job)


def undrain_action(arguments: argparse.Namespace) -> int:
    """Gives a broker its share."""

    async def job(client: Client) -> int:
        view = await look(client)
        broker = view.broker(arguments.broker)
        if broker.fenced:
            raise UsageError(f"broker {broker.id} is fenced: start it first")
        plan = view.replicas
        if arguments.replicas:
            plan = filled_up(plan, broker.id, view.live, view.racks)
        plan = changed(view.replicas, promoted(plan, broker.id, view.live))

        async def finish() -> dict[str, Any]:
            return told_of_share(arguments, await settled(client, view, plan, broker.id, leads=True), broker.id)

        return await carry_out(client, arguments, view, plan, finish)

    return with_client(arguments.bootstrap, job)


async def settled(client: Client, before: View, plan: Plan, broker_id: int, *, leads: bool) -> View:
    """Elects the preferred leaders of what a plan has changed, and where a broker that is to lead does not, or one
    that is not to lead does. Gives the cluster when it tells of all of it."""
    from penstock.client.cluster import ElectionType

    target = {**before.replicas, **plan}
    keys = {
        each.key
        for each in before.partitions
        if each.key in plan
        or (leads and target[each.key][0] == broker_id != each.leader)
        or (not leads and target[each.key][0] != broker_id == each.leader)
    }
    outcome = await elected(client, ElectionType.PREFERRED, sorted(keys))
    refused = [(key, error) for key, error in outcome.items() if error is not None]
    say_errors(refused)
    keys -= {key for key, _ in refused}

    def told(each: PartitionView) -> bool:
        return set(each.replicas) == set(target[each.key]) and each.leader == target[each.key][0]

    deadline_s = time.monotonic() + SETTLED_TIMEOUT_S
    while True:
        view = await look(client)
        if all(told(each) for each in view.partitions if each.key in keys) or time.monotonic() > deadline_s:
            return view
        await asyncio.sleep(LOOK_EVERY_S)


def told_of_rest(arguments: argparse.Namespace, view: View, broker_id: int) -> dict[str, Any]:
    """Says what a drained broker has left."""
    leads = [each for each in view.partitions if each.leader == broker_id]
    has = [each for each in view.partitions if broker_id in each.replicas]
    stuck = [each for each in has if each.unavailable and each.in_sync == (broker_id,)]
    if not arguments.json:
        print(f"broker {broker_id}: leaderships {len(leads)}, replicas {len(has)}")
        if leads:
            print(f"  no other replica of these is in sync: {names_of(leads)}")
            print("  --replicas moves them away; or wait until others have caught up, or add replicas")
        if stuck:
            print(f"  nobody leads these until it is up, and they cannot be copied: {names_of(stuck)}")
    left = has if arguments.replicas else [*leads, *stuck]
    return {"leaders": len(leads), "replicas": len(has), "left": len(left)}


def told_of_share(arguments: argparse.Namespace, view: View, broker_id: int) -> dict[str, Any]:
    """Says what a broker has that has come back."""
    share = view.shares()[broker_id]
    if not arguments.json:
        print(f"broker {broker_id}: leaderships {share.leaders}, replicas {share.replicas}")
    return {"leaders": share.leaders, "replicas": share.replicas}
