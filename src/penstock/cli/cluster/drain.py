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
from penstock.cli.cluster.words import names_of
from penstock.cli.common import with_client
from penstock.client.view import PartitionView, View, look
from penstock.errors import UsageError
from penstock.placement.one_broker import demoted, emptied, filled_up, promoted
from penstock.placement.plan import Plan, changed

if TYPE_CHECKING:
    from penstock.client.client import Client

ELECTED_TIMEOUT_S = 10.0
LOOK_EVERY_S = 0.1


def drain_action(arguments: argparse.Namespace) -> int:
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
            after = await with_preferred_leaders(client, view, plan, broker_id, leads=False)
            return told_of_rest(arguments, after, broker_id)

        return await carry_out(client, arguments, view, plan, finish)

    return with_client(arguments, job)


def undrain_action(arguments: argparse.Namespace) -> int:
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
            after = await with_preferred_leaders(client, view, plan, broker.id, leads=True)
            return told_of_share(arguments, after, broker.id)

        return await carry_out(client, arguments, view, plan, finish)

    return with_client(arguments, job)


async def with_preferred_leaders(client: Client, before: View, plan: Plan, broker_id: int, *, leads: bool) -> View:
    """Elects the preferred leaders of partitions that a plan has changed, and of those that a broker should lead and
    does not, or leads and should not. Returns the cluster as soon as it reports all of that.
    """
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

    deadline_s = time.monotonic() + ELECTED_TIMEOUT_S
    while True:
        view = await look(client)
        if all(told(each) for each in view.partitions if each.key in keys) or time.monotonic() > deadline_s:
            return view
        await asyncio.sleep(LOOK_EVERY_S)


def told_of_rest(arguments: argparse.Namespace, view: View, broker_id: int) -> dict[str, Any]:
    """Prints (unless for JSON) and returns what a drained broker still has."""
    leads = [each for each in view.partitions if each.leader == broker_id]
    has = [each for each in view.partitions if broker_id in each.replicas]
    stuck = [each for each in has if each.unavailable and each.in_sync == (broker_id,)]
    if not arguments.json:
        print(f"broker {broker_id}: leaderships {len(leads)}, replicas {len(has)}")
        alone = [each for each in leads if len(each.replicas) == 1]
        ahead = [each for each in leads if len(each.replicas) > 1]
        if alone:
            print(f"  {names_of(alone)} {'has' if len(alone) == 1 else 'have'} no other replica")
        if ahead:
            print(f"  {names_of(ahead)} {'has' if len(ahead) == 1 else 'have'} no other replica in sync")
        if leads:
            print("  --replicas moves the data away; or add replicas, or wait until they have caught up")
        if stuck:
            print(f"  unavailable until the broker is up, and impossible to copy: {names_of(stuck)}")
    left = has if arguments.replicas else [*leads, *stuck]
    return {"leaders": len(leads), "replicas": len(has), "left": len(left)}


def told_of_share(arguments: argparse.Namespace, view: View, broker_id: int) -> dict[str, Any]:
    """Prints (unless for JSON) and returns what a broker that was taken back has."""
    share = view.shares()[broker_id]
    if not arguments.json:
        print(f"broker {broker_id}: leaderships {share.leaders}, replicas {share.replicas}")
    return {"leaders": share.leaders, "replicas": share.replicas}
