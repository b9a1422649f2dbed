"""`penstock cluster unregister`: a broker that will not come back, forgotten."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from penstock.cli.cluster.words import names_of
from penstock.cli.common import with_client
from penstock.cli.output import print_json
from penstock.client.view import View, look
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client


def unregister_action(arguments: argparse.Namespace) -> int:
    """Has the cluster forget a broker."""

    async def job(client: Client) -> int:
        from penstock.client.cluster import unregister_broker

        view = await look(client)
        check(view, arguments.broker, sure=arguments.yes)
        await unregister_broker(client, arguments.broker)
        if arguments.json:
            print_json({"unregistered": arguments.broker})
        else:
            print(f"broker {arguments.broker} is not registered any more")
        return 0

    return with_client(arguments, job)


def check(view: View, broker_id: int, *, sure: bool) -> None:
    """Raises UsageError if the broker is up, or has replicas and --yes is not given."""
    if not view.broker(broker_id).fenced:
        raise UsageError(f"broker {broker_id} is up: drain and stop it first, or it registers again when it restarts")
    has = [each for each in view.partitions if broker_id in each.replicas]
    if has and not sure:
        raise UsageError(
            f"broker {broker_id} still has replicas of {names_of(has)}\n"
            f"  `penstock cluster drain {broker_id} --replicas` moves them to others; --yes forgets it all the same"
        )
