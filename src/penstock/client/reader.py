"""Reading a range of offsets of one partition, the next fetch already under way while the last one is being used.

A fetch's end is known only from its batches' headers, so the read-ahead is one deep per partition; several partitions
read at once keep several fetches in flight on one connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from uuid import UUID

from penstock.client.client import READ_UNCOMMITTED, Client, Fetched
from penstock.client.limits import CLIENT_FETCH_BYTES
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.records.batch import entries


async def read_range(
    client: Client,
    topic: str,
    partition: int,
    start: int,
    end: int,
    *,
    fetch_bytes: int = CLIENT_FETCH_BYTES,
    isolation: int = READ_UNCOMMITTED,
    idle_timeout_ms: int = 60_000,
    topic_id: UUID | None = None,
) -> AsyncGenerator[tuple[int, Fetched], None]:
    """Yields (position asked for, what came) until `end` (exclusive) is reached.

    The first batch may begin before `start` and the last may pass `end`: batches come whole. Raises RequestError
    (OFFSET_OUT_OF_RANGE when the broker no longer has it, UNKNOWN_TOPIC_ID when the topic is no longer the one with
    `topic_id`), UnreachableError when nothing comes for `idle_timeout_ms`.
    """
    position = start
    waited_ms = 0
    pending: asyncio.Task[Fetched] | None = None

    async def fetch(offset: int) -> Fetched:
        answer = await client.fetch(
            {(topic, partition): offset},
            max_wait_ms=500,
            max_bytes=2 * fetch_bytes,
            partition_max_bytes=fetch_bytes,
            isolation=isolation,
        )
        if topic_id is not None and (found := (await client.topic(topic)).topic_id) != topic_id:
            raise RequestError(
                ErrorCode.UNKNOWN_TOPIC_ID,
                f"{topic} was deleted and created again since the read was planned: its id was {topic_id}, now {found}",
            )
        return answer[topic, partition]

    try:
        while position < end:
            fetched = await (pending or fetch(position))
            pending = None
            asked, position = position, next_position(fetched.records, position)
            if position == asked:
                waited_ms += 500
                if waited_ms >= idle_timeout_ms:
                    raise UnreachableError(f"{topic}-{partition} ended at {position}, before {end}")
                continue
            waited_ms = 0
            if position < end:
                pending = asyncio.create_task(fetch(position))
            yield asked, fetched
    finally:
        if pending is not None:
            pending.cancel()


def next_position(records: memoryview, position: int) -> int:
    """The offset after the last whole batch of a fetch, or `position` when there is none."""
    for _, header in entries(records):
        position = max(position, header.next_offset)
    return position
