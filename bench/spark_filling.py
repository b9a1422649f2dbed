"""Topics for bench/spark_uses.py: a few record batches, as large as librdkafka makes them, published again and again.

Making records is not what is measured, and ten million of them would take minutes.
"""

from __future__ import annotations

import asyncio
import io
import json
import time
from collections.abc import Callable, Sequence
from random import Random

import fastavro
from peers import Peer

from penstock.client.client import Client
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec

PARTITIONS, SEGMENTS, SEGMENT_BYTES_LEAST = 4, 10, 1 << 20
BATCH_BYTES, BATCH_RECORDS, BATCHES, FRAME_BYTES = 1_000_000, 10_000, 16, 20
"""librdkafka's largest batch, in bytes and in records; how many different ones a topic has; and what a record has
beside its value."""
AVRO = {
    "type": "record",
    "name": "View",
    "fields": [
        {"name": "page", "type": "string"},
        {"name": "user", "type": "long"},
        {"name": "ms", "type": "long"},
        {"name": "country", "type": "string"},
        {"name": "bytes", "type": "int"},
        {"name": "ok", "type": "boolean"},
    ],
}


def plain(size: int) -> Callable[[Random], bytes]:
    """Values of which half is random hex digits and half is the same, so that compression has work and success."""
    return lambda chance: chance.randbytes(size // 4).hex().encode().ljust(size, b"x")


def view(chance: Random) -> dict[str, object]:
    return {
        "page": f"/shop/{chance.randrange(10_000)}",
        "user": chance.randrange(1 << 40),
        "ms": 1_700_000_000_000 + chance.randrange(10**9),
        "country": chance.choice(["DE", "FR", "US"]),
        "bytes": chance.randrange(100_000),
        "ok": chance.random() < 0.9,
    }


def as_json(chance: Random) -> bytes:
    """An object of about 100 bytes."""
    return json.dumps(view(chance)).encode()


def as_avro(chance: Random) -> bytes:
    """The same, about 25 bytes, without a header."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, view(chance))
    return out.getvalue()


def batches(make: Callable[[Random], bytes], codec: Codec) -> tuple[list[bytes], int]:
    """Different batches, and how many records each has."""
    chance = Random(11)
    count = min(BATCH_RECORDS, BATCH_BYTES // (len(make(chance)) + FRAME_BYTES))
    found = []
    for number in range(BATCHES):
        builder = BatchBuilder(codec=codec)
        first = number * count
        pairs = ((b"%08d" % (first + each), make(chance)) for each in range(count))
        builder.append_all(int(time.time() * 1000), pairs)
        found.append(bytes(builder.build()))
    return found, count


def fill(peer: Peer, topic: str, records: int, made: tuple[Sequence[bytes], int]) -> int:
    """Makes a topic of at least so many records, evenly over its partitions; returns how many."""
    some, count = made
    turns = -(-records // count // PARTITIONS)
    segment_bytes = max(SEGMENT_BYTES_LEAST, turns * len(some[0]) // SEGMENTS)
    peer.create_topic(topic, PARTITIONS, **{"segment.bytes": str(segment_bytes), "retention.ms": "-1"})

    async def publish(client: Client, partition: int) -> None:
        for turn in range(turns):
            await client.produce(topic, partition, some[(turn + partition) % len(some)])

    async def all_of_them() -> None:
        async with Client(peer.bootstrap) as client:
            await asyncio.gather(*(publish(client, partition) for partition in range(PARTITIONS)))

    asyncio.run(all_of_them())
    return turns * count * PARTITIONS
