"""The part `brokers` of `log_life.py`: one pass of the log cleaner in a running broker, beside Apache Kafka.

Each broker gets the same records over the network, in a compacted topic of one partition; then it may clean. Measured
is what the broker spends from that moment until the checkpoint says that the pass has ended: CPU seconds of its process
and of its children, and time. All rates count the records and bytes below the offset in that checkpoint, which is all
but the active segment. A smaller topic is cleaned before, so that what a first pass loads and compiles is not counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from random import Random

import cleaned_brokers
from peers import Peer, print_table, running
from wire import connect

from penstock.log.checkpoints import CLEANER_OFFSET, parse_checkpoint
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec, Contexts

WARM_UP, MEASURED = "warm-up", "profiles"
SEGMENTS = 8
"""Of the measured log, so that its active segment, which is not cleaned, is a small part of it."""

SEGMENT_BYTES_MIN = 1 << 20
IN_FLIGHT = 8
LOOK_EVERY_S = 0.02
CLEANED_MAX_S = 600.0
SETTINGS = """
log.cleaner.backoff.ms=100
log.initial.task.delay.ms=100
log.cleaner.dedupe.buffer.size=134217728
log.segment.delete.delay.ms=1000
log.flush.offset.checkpoint.interval.ms=50
"""
TOPIC = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "1.0",
    "compression.type": "producer",
}


def batches(records: int, keys: int, batch_records: int, codec: Codec) -> Sequence[bytes]:
    """The records of a log: 100 B each, keys drawn at random."""
    random, contexts, now_ms = Random(1), Contexts(), int(time.time() * 1000)
    made = []
    for first in range(0, records, batch_records):
        builder = BatchBuilder(codec=codec, contexts=contexts)
        for number in range(first, min(first + batch_records, records)):
            builder.append(now_ms, b"%016d" % random.randrange(keys), (b"%038d" % (number**3)) * 2)
        made.append(bytes(builder.build()))
    return made


async def fill(bootstrap: str, topic: str, made: Sequence[bytes]) -> None:
    """Sends batches, in order."""
    wire = await connect(bootstrap)
    answer = await wire.ask(ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
    topic_id = answer.topics[0].topic_id
    under_way: list[asyncio.Task[None]] = []
    for batch in made:
        under_way.append(asyncio.create_task(cleaned_brokers.send(wire, topic_id, 0, batch)))
        if len(under_way) >= IN_FLIGHT:
            await under_way.pop(0)
    await asyncio.gather(*under_way)
    wire.transport.close()


def cleaned_to(peer: Peer, topic: str) -> int:
    """Where the last pass over a topic has ended."""
    try:
        return parse_checkpoint((peer.directory / "data" / CLEANER_OFFSET).read_bytes()).get((topic, 0), 0)
    except FileNotFoundError:
        return 0


def clean(peer: Peer, topic: str) -> tuple[float, float, int]:
    """Lets a broker clean a topic; its CPU seconds, the time, and the offset that the pass came to."""
    cpu_s, began_s = peer.cpu_seconds(), time.perf_counter()
    cleaned_brokers.begin_cleaning(peer.bootstrap, topic)
    while not (offset := cleaned_to(peer, topic)):
        assert time.perf_counter() < began_s + CLEANED_MAX_S, f"{peer.name} does not clean {topic}"
        time.sleep(LOOK_EVERY_S)
    return peer.cpu_seconds() - cpu_s, time.perf_counter() - began_s, offset


def measure_one(name: str, made: Sequence[bytes], warm_up: Sequence[bytes], records: int) -> dict[str, float]:
    """Figures of one broker on a fresh directory."""
    size_bytes = sum(map(len, made))
    with running(name, extra=SETTINGS) as peer:
        for topic, content in (WARM_UP, warm_up), (MEASURED, made):
            segment_bytes = max(SEGMENT_BYTES_MIN, sum(map(len, content)) // SEGMENTS)
            peer.create_topic(topic, **TOPIC, **{"segment.bytes": str(segment_bytes)})
        asyncio.run(fill(peer.bootstrap, WARM_UP, warm_up))
        clean(peer, WARM_UP)
        asyncio.run(fill(peer.bootstrap, MEASURED, made))
        cpu_s, took_s, offset = clean(peer, MEASURED)
    share = offset / records
    return {
        "M records a CPU-second": offset / cpu_s / 1e6,
        "MB a CPU-second": share * size_bytes / cpu_s / 1e6,
        "MB/s": share * size_bytes / took_s / 1e6,
        "CPU s": cpu_s,
        "s": took_s,
    }


def measure(records: int, keys: int, batch_records: int, rounds: int, codecs: Sequence[Codec]) -> None:
    """Prints a table for each codec: medians of rounds in which the brokers take turns."""
    for codec in codecs:
        made = batches(records, keys, batch_records, codec)
        warm_up = batches(records // 10, keys, batch_records, codec)
        figures: dict[str, dict[str, list[float]]] = {}
        for round_ in range(rounds):
            for name in ("kafka", "penstock") if round_ % 2 else ("penstock", "kafka"):
                for figure, value in measure_one(name, made, warm_up, records).items():
                    figures.setdefault(figure, {}).setdefault(name, []).append(value)
        size_mb = sum(map(len, made)) / 1e6
        print(f"\n{records:,} records of {size_mb:.0f} MB, {keys:,} keys, {codec.kafka_name}, {batch_records} a batch")
        print_table(figures)
