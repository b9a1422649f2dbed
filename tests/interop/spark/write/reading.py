"""Reads back what was written, record by record."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from penstock.client.client import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED, Client
from penstock.client.consumer import read_records

PATIENCE_MS = 120_000
"""Drivers that start again and again leave a broker little of the processor."""


class Record(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int


def records_of(bootstrap: str, topic: str, *, committed: bool = False) -> list[Record]:
    """All records of a topic, or those that read_committed sees, sorted by partition and offset."""
    isolation = READ_COMMITTED if committed else READ_UNCOMMITTED
    return sorted(asyncio.run(_read(bootstrap, topic, isolation)), key=lambda record: record[:2])


async def _read(bootstrap: str, topic: str, isolation: int) -> list[Record]:
    found = []
    async with Client(bootstrap, timeout_ms=PATIENCE_MS) as client:
        partitions = [(topic, index) for index in range(len((await client.topic(topic)).leaders))]
        starts = {p: at.offset for (_, p), at in (await client.offsets(partitions, EARLIEST)).items()}
        ends = {p: at.offset for (_, p), at in (await client.offsets(partitions, LATEST, isolation=isolation)).items()}
        async for partition, each in read_records(client, topic, starts, ends=ends, isolation=isolation):
            found.append(Record(partition, each.offset, each.key, each.value, tuple(each.headers), each.timestamp_ms))
    return found
