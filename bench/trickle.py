"""Small requests, one at a time: what each costs a broker, and in Penstock by layer.

    python bench/trickle.py                       # beside Apache Kafka, in alternating rounds, both warmed up
    python bench/trickle.py --layers              # of Penstock alone: CPU, bytecodes and system calls by layer
    python bench/trickle.py --only heartbeat --rate 2000 --seconds 5 --rounds 5

One connection sends a request, waits for its answer, and sends the next when its time has come, `--rate` times a
second: what a trickle of records, a consumer without lag or an idle group asks of a broker. CPU is the system's
accounting of the broker's process. The first `--warm` requests are not counted: a JVM needs some hundred thousand.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

from group_swarm import NOT_YET, ClassicSwarm
from peers import PYTHON, Peer, python_build, running
from wire import VERSIONS, Wire, answer_of, check, connect, frame_of, wait_for_coordinator

from penstock.protocol.api import ApiKey
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder

VERSIONS |= {ApiKey.PRODUCE: 13, ApiKey.FETCH: 17, ApiKey.METADATA: 12, ApiKey.INIT_PRODUCER_ID: 4}
TOPIC = "trickle"
RECORD = b"v" * 100
COUNTED_REQUESTS = 400
TRACED_S = 3.0

Ask = Callable[[], Awaitable[bytes]]
"""Sends the next request; gives the answer."""


async def topic_id(wire: Wire) -> UUID:
    answer = await wire.ask(ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
    found: UUID = answer.topics[0].topic_id
    return found


def produce_frame(topic: UUID, acks: int, **fields: int) -> bytes:
    """A Produce of one record, as the Java producer sends it."""
    batch = BatchBuilder(**fields)
    batch.append(int(time.time() * 1000), None, RECORD)
    partition = PartitionProduceData(index=0, records=batch.build())
    data = [TopicProduceData(topic_id=topic, partition_data=[partition])]
    return frame_of(ApiKey.PRODUCE, ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=data))


async def plain_produce(wire: Wire, bootstrap: str) -> Ask:
    """Produce of one record without a producer id, acks=1."""
    frame = produce_frame(await topic_id(wire), 1)
    return lambda: wire.exchange(frame)


async def idempotent_produce(wire: Wire, bootstrap: str) -> Ask:
    """Produce of one record with a producer id, acks=all: what Java's producer sends by default."""
    topic = await topic_id(wire)
    while True:
        answer = await wire.ask(ApiKey.INIT_PRODUCER_ID, InitProducerIdRequest(transactional_id=None))
        if not check(answer.error_code, *NOT_YET):
            break
        await asyncio.sleep(0.1)
    sequence = iter(range(1 << 31))

    def ask() -> Awaitable[bytes]:
        number = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}
        return wire.exchange(produce_frame(topic, -1, base_sequence=next(sequence), **number))

    return ask


async def fetch(wire: Wire, bootstrap: str) -> Ask:
    """Fetch of the first record, without a session."""
    topic = await topic_id(wire)
    await wire.exchange(produce_frame(topic, 1))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(max_wait_ms=0, topics=[FetchTopic(topic_id=topic, partitions=[wanted])])
    frame = frame_of(ApiKey.FETCH, request)
    return lambda: wire.exchange(frame)


async def tail(wire: Wire, bootstrap: str) -> Ask:
    """A consumer without lag, in a session, as Java's: its Fetch waits until another connection's Produce of one record
    ends it. Both are counted.
    """
    topic = await topic_id(wire)
    producer = await connect(bootstrap)
    record = produce_frame(topic, 1)
    produced = answer_of(ApiKey.PRODUCE, await producer.exchange(record))
    offsets = itertools.count(produced.responses[0].partition_responses[0].base_offset + 1)

    def fetch_next(session_id: int, session_epoch: int) -> Awaitable[bytes]:
        wanted = FetchPartition(partition=0, fetch_offset=next(offsets), partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic_id=topic, partitions=[wanted])]
        session = {"session_id": session_id, "session_epoch": session_epoch}
        return wire.exchange(
            frame_of(ApiKey.FETCH, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=topics, **session))
        )

    fetched = fetch_next(0, 0)
    await producer.exchange(record)
    session_id = answer_of(ApiKey.FETCH, await fetched).session_id
    epochs = itertools.count(1)
    fetched = fetch_next(session_id, next(epochs))

    async def ask() -> bytes:
        nonlocal fetched
        await producer.exchange(record)
        answer = await fetched
        if RECORD not in answer:
            raise RuntimeError(f"a fetch has ended without the record: {answer!r}")
        fetched = fetch_next(session_id, next(epochs))
        return answer

    return ask


async def heartbeat(wire: Wire, bootstrap: str) -> Ask:
    """Heartbeat of the one member of a classic group."""
    await wait_for_coordinator(bootstrap)
    swarm = ClassicSwarm(TOPIC, 1, [wire])
    await swarm.join_group(swarm.groups[0])
    frame = swarm.groups[0][0].frame
    return lambda: wire.exchange(frame)


KINDS: dict[str, Callable[[Wire, str], Coroutine[Any, Any, Ask]]] = {
    "produce": plain_produce,
    "idempotent": idempotent_produce,
    "fetch": fetch,
    "tail": tail,
    "heartbeat": heartbeat,
}


class Trickle:
    """One kind of request on one connection to one broker."""

    def __init__(self, peer: Peer, ask: Ask) -> None:
        self._peer = peer
        self._ask = ask

    @classmethod
    async def open(cls, peer: Peer, kind: str) -> Trickle:
        return cls(peer, await KINDS[kind](await connect(peer.bootstrap), peer.bootstrap))

    async def send(self, requests: int, rate: float = 0) -> None:
        """Sends so many requests, each after the answer to the last and not before its time; 0: as fast as it goes."""
        started = time.perf_counter()
        for number in range(requests):
            if rate and (early := started + number / rate - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            answer = await self._ask()
            if len(answer) < 8:
                raise RuntimeError(f"{self._peer.name} answered {answer!r}")

    async def cost_us(self, seconds: float, rate: float) -> float:
        """CPU microseconds of the broker a request."""
        requests = int(seconds * rate)
        before = self._peer.cpu_seconds()
        await self.send(requests, rate)
        return (self._peer.cpu_seconds() - before) / requests * 1e6


async def beside_kafka(kind: str, peers: dict[str, Peer], options: argparse.Namespace) -> None:
    """Prints medians and spreads of both, and of the ratios of the rounds."""
    figures: dict[str, list[float]] = {name: [] for name in peers}
    trickles = {name: await Trickle.open(peer, kind) for name, peer in peers.items()}
    for each in trickles.values():
        await each.send(options.warm)
    for number in range(options.rounds):
        for name in sorted(trickles, reverse=bool(number % 2)):
            figures[name].append(await trickles[name].cost_us(options.seconds, options.rate))
    ratios = [ours / theirs for ours, theirs in zip(figures["penstock"], figures["kafka"], strict=True)]
    texts = [f"{statistics.median(each):7.1f} ({min(each):.1f}-{max(each):.1f})" for each in figures.values()]
    ratio = f"{statistics.median(ratios):5.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
    print(f"{kind:12} " + " ".join(f"{text:>24}" for text in texts) + f" {ratio:>20}", flush=True)


@contextlib.contextmanager
def noted(peer: Peer, number: signal.Signals, report: Path) -> Iterator[dict[str, Any]]:
    """Has the watched server note something during the block; the dictionary is filled after it."""
    found: dict[str, Any] = {}
    os.kill(peer.pid, number)
    yield found
    os.kill(peer.pid, number)
    deadline = time.monotonic() + 10
    while not report.exists():
        if time.monotonic() > deadline:
            raise RuntimeError("the watched server has written no report")
        time.sleep(0.05)
    found.update(json.loads(report.read_text()))
    report.unlink()


async def system_calls(peer: Peer, trickle: Trickle, rate: float) -> dict[str, int]:
    """How often each system call was made, while strace looked at the server; empty without strace."""
    if shutil.which("strace") is None:
        return {}
    command = ["strace", "-c", "-f", "-p", str(peer.pid)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    await asyncio.sleep(1)
    await trickle.send(int(TRACED_S * rate), rate)
    process.send_signal(signal.SIGINT)
    _, text = await asyncio.to_thread(process.communicate)
    lines = re.finditer(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?(\w+)$", text, re.MULTILINE)
    return {line[2]: int(line[1]) for line in lines if line[2] != "total"}


async def layers(kind: str, peer: Peer, report: Path, options: argparse.Namespace) -> None:
    """Prints where the CPU of a request goes."""
    trickle = await Trickle.open(peer, kind)
    await trickle.send(options.warm)
    cost_us = await trickle.cost_us(options.seconds, options.rate)
    with noted(peer, signal.SIGUSR1, report) as samples:
        await trickle.send(int(options.seconds * options.rate), options.rate)
    with noted(peer, signal.SIGUSR2, report) as counted:
        await trickle.send(COUNTED_REQUESTS)
    calls = await system_calls(peer, trickle, options.rate)
    taken, bytecodes = samples["rooms"], counted["rooms"]
    print(f"\n{kind}: {cost_us:.1f} us of CPU a request, {sum(bytecodes.values()) / COUNTED_REQUESTS:.0f} bytecodes in")
    print(f"{counted['calls'] / COUNTED_REQUESTS:.0f} calls of Python functions; of {sum(taken.values())} samples:")
    for room in sorted(taken.keys() | bytecodes.keys(), key=lambda room: -taken.get(room, 0)):
        share = taken.get(room, 0) / sum(taken.values())
        per_request = bytecodes.get(room, 0) / COUNTED_REQUESTS
        print(f"    {room:16} {share * cost_us:7.1f} us {share:6.1%} {per_request:7.0f} bytecodes")
    traced = TRACED_S * options.rate
    for name, count in sorted(counted["functions"].items(), key=lambda each: -each[1])[: options.functions]:
        print(f"    {count / COUNTED_REQUESTS:7.1f} {name}")
    often = {name: count / traced for name, count in calls.items() if count / traced >= 0.01}
    print("    system calls:", ", ".join(f"{name} {each:.2f}" for name, each in often.items()) or "no strace here")


def main() -> None:
    """Measures the kinds one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", action="store_true", help="of Penstock alone, by layer")
    parser.add_argument("--functions", type=int, default=0, help="with --layers: so many functions with most bytecodes")
    parser.add_argument("--only", choices=KINDS, action="append", help="this kind of request; may be given again")
    parser.add_argument("--rate", type=float, default=2000, help="requests a second (default: 2000)")
    parser.add_argument("--seconds", type=float, default=5, help="length of a round (default: 5)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of both brokers (default: 5)")
    parser.add_argument("--warm", type=int, default=50_000, help="requests before the first round (default: 50000)")
    options = parser.parse_args()
    kinds = options.only or list(KINDS)
    print(f"{python_build()}; {options.rate:.0f} requests a second on one connection")
    if options.layers:
        with tempfile.TemporaryDirectory() as directory:
            report = Path(directory) / "report.json"
            watched = [PYTHON, str(Path(__file__).with_name("watched_server.py")), str(report)]
            with running("penstock", penstock=watched) as peer:
                peer.create_topic(TOPIC)
                for kind in kinds:
                    asyncio.run(layers(kind, peer, report, options))
        return
    print(f"{'CPU us a request':12} {'kafka':>20} {'penstock':>24} {'ratio':>20}")
    with running("kafka") as kafka, running("penstock") as penstock:
        for peer in (kafka, penstock):
            peer.create_topic(TOPIC)
        for kind in kinds:
            asyncio.run(beside_kafka(kind, {"kafka": kafka, "penstock": penstock}, options))


if __name__ == "__main__":
    main()
