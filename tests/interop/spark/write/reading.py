"""Reads back what was written, record by record."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from penstock.client.client import EARLIEST, LATEST, Client
from penstock.client.consumer import read_records


class Record(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def records_of(bootstrap: str, topic: str) -> list[Record]:
    """All records of a topic, sorted by partition and offset."""
    return sorted(asyncio.run(_read(bootstrap, topic)), key=lambda record: record[:2])


async def _read(bootstrap: str, topic: str) -> list[Record]:
    found = []
    async with Client(bootstrap) as client:
        partitions = [(topic, index) for index in range(len((await client.topic(topic)).leaders))]
        starts = {p: at.offset for (_, p), at in (await client.offsets(partitions, EARLIEST)).items()}
        ends = {p: at.offset for (_, p), at in (await client.offsets(partitions, LATEST)).items()}
        async for partition, each in read_records(client, topic, starts, ends=ends):
            found.append(Record(partition, each.offset, each.key, each.value, tuple(each.headers), each.timestamp_ms))
    return found
