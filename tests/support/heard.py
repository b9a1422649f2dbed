"""Waits until brokers have heard of all that their controller has done so far: Penstock's, Apache Kafka's, or of both.

    until_heard(cluster.bootstrap)

A broker answers by what it has heard, which may be less than the controller has answered already; and a client that
knows several brokers asks any of them. Brokers hear of changes in the order in which they were made. So one more is
made, of a group that nobody else uses, and whoever tells of it has heard of all before.
"""

from __future__ import annotations

import asyncio
from itertools import count

from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType, alter_configs, describe_configs
from penstock.client.client import Client

TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.01
NOBODYS = Resource(ResourceType.GROUP, "nobody-s")
NAME = "consumer.session.timeout.ms"
LOWEST_MS, VALUES = 45_000, 15_000
"""What may be set by default, in Kafka as in Penstock."""
_numbers = count()


def until_heard(bootstrap: str) -> None:
    """Waits until each of these brokers has heard of everything that was answered before. Their addresses are separated
    by commas."""
    asyncio.run(_until_heard(bootstrap.split(",")))


async def _until_heard(addresses: list[str]) -> None:
    value = str(LOWEST_MS + next(_numbers) % VALUES)
    async with asyncio.timeout(TIMEOUT_S):
        async with Client(addresses) as client:
            await alter_configs(client, NOBODYS, [Change(NAME, ConfigOperation.SET, value)])
        for address in addresses:
            async with Client(address) as client:
                while (await describe_configs(client, NOBODYS, [NAME]))[0].value != value:
                    await asyncio.sleep(LOOK_EVERY_S)
