"""`penstock cluster drain` and `undrain`: a broker freed of its leaderships, or of all it has, and back.

Nobody can order who leads a partition; the preferred leader is the first of its replicas. So a broker is drained by
putting it last among the replicas wherever it is, which moves no data, and electing the preferred leaders. It stays
that way when brokers restart or the cluster balances its leaders.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.cli.cluster.elect import elected
from penstock.cli.cluster.moves import carry_out, say_errors
from penstock.cli.cluster.plan import changed, demoted, emptied, filled_up, promoted
from penstock.cli.cluster.view import PartitionView, View, look
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
            plan = emptied(view.replicas, broker_id, others, view.racks)
        else:
            in_sync = {each.key: each.in_sync for each in view.partitions}
            plan = demoted(view.replicas, broker_id, in_sync)

        async def finish() -> dict[str, Any]:
            return await leave(client, arguments, broker_id)

        return await carry_out(client, arguments, view, changed(view.replicas, plan), finish)

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
            return await come_back(client, arguments, broker.id)

        return await carry_out(client, arguments, view, plan, finish)

    return with_client(arguments.bootstrap, job)


async def leave(client: Client, arguments: argparse.Namespace, broker_id: int) -> dict[str, Any]:
    """Elects other leaders where the broker is not the preferred one, and says what it has left."""
    view = await elect_preferred(
        client, lambda each: each.leader == broker_id and each.replicas[0] != broker_id, await look(client)
    )
    leads = [each for each in view.partitions if each.leader == broker_id]
    has = [each for each in view.partitions if broker_id in each.replicas]
    if not arguments.json:
        print(f"broker {broker_id}: leaderships {len(leads)}, replicas {len(has)}")
        if leads:
            names = ", ".join(map(str, leads[:10])) + (", ..." if len(leads) > 10 else "")
            print(f"  no other replica of these is in sync: {names}")
            print("  --replicas moves them away, wait for the others to catch up, or add replicas first")
    return {"leaders": len(leads), "replicas": len(has), "left": len(has if arguments.replicas else leads)}


async def come_back(client: Client, arguments: argparse.Namespace, broker_id: int) -> dict[str, Any]:
    """Elects the broker where it is the preferred leader, and says what it has."""
    view = await elect_preferred(
        client, lambda each: each.leader != broker_id and each.replicas[:1] == (broker_id,), await look(client)
    )
    share = view.shares()[broker_id]
    if not arguments.json:
        print(f"broker {broker_id}: leaderships {share.leaders}, replicas {share.replicas}")
    return {"leaders": share.leaders, "replicas": share.replicas}


async def elect_preferred(client: Client, needs: Callable[[PartitionView], bool], view: View) -> View:
    """Elects preferred leaders of partitions until the cluster tells of them; gives the cluster as it is then."""
    from penstock.client.cluster import ElectionType

    def needed() -> list[PartitionView]:
        return [each for each in view.partitions if needs(each)]

    outcome = await elected(client, ElectionType.PREFERRED, [each.key for each in needed()])
    say_errors([(key, error) for key, error in outcome.items() if error is not None])
    refused = {key for key, error in outcome.items() if error is not None}
    deadline_s = time.monotonic() + SETTLED_TIMEOUT_S
    while any(each.key not in refused for each in needed()) and time.monotonic() < deadline_s:
        await asyncio.sleep(LOOK_EVERY_S)
        view = await look(client)
    return view
