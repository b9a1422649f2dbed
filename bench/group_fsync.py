"""What it costs to have every append on disk before it is acknowledged; `log_life.py --only fsync` runs this.

16 producers, each with a connection of its own and one request in flight: a batch of one record of 100 B with acks=all,
to one partition all of them, or to one each. Apache Kafka with `flush.messages=1`, Penstock with the same and with
`penstock.log.fsync=group`, in alternating rounds on the same file system; both have been asked the same for a while
before. The time of an fsync is that of a file of one's own on this file system, with a page more each time, while
nothing else is asked: `p50 / fsync` and `p99 / fsync` are the median and the 99th percentile of the latency of an
append in medians of those, `p99 / fsync p99` the latter in their own 99th percentile. CPU is the broker's, of a
thousand appends.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import ExitStack
from uuid import UUID

from peers import Peer, print_table, python_build, running
from wire import VERSIONS, Wire, answer_of, check, connect_many, frame_of

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder

VERSIONS |= {ApiKey.PRODUCE: 13, ApiKey.METADATA: 12}
PRODUCERS = 16
RECORD = b"v" * 100
PARTITIONS = (1, PRODUCERS)
EACH_APPEND = {"flush.messages": "1"}
CASES = {
    "kafka": ("kafka", EACH_APPEND),
    "flush.messages=1": ("penstock", EACH_APPEND),
    "group": ("penstock", {"penstock.log.fsync": "group"}),
}
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.NOT_LEADER_OR_FOLLOWER)
PROBED_FSYNCS = 200

Figures = dict[str, dict[str, list[float]]]


def fsync_ms(count: int = PROBED_FSYNCS) -> tuple[float, float]:
    """The median and the 99th percentile of the time of an fdatasync of a file that has grown by a page."""
    times = []
    with tempfile.TemporaryFile(dir=tempfile.gettempdir(), buffering=0) as file:
        for _ in range(count):
            file.write(bytes(4096))
            began_s = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began_s)
    return statistics.median(times) * 1000, sorted(times)[int(count * 0.99)] * 1000


def append_frame(topic: UUID, partition: int) -> bytes:
    batch = BatchBuilder()
    batch.append(int(time.time() * 1000), None, RECORD)
    data = [PartitionProduceData(index=partition, records=batch.build())]
    topics = [TopicProduceData(topic_id=topic, partition_data=data)]
    return frame_of(ApiKey.PRODUCE, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))


def code_of(answer: bytes) -> int:
    """How the broker has answered an append."""
    code: int = answer_of(ApiKey.PRODUCE, answer).responses[0].partition_responses[0].error_code
    return code


async def topic_id(wire: Wire, topic: str) -> UUID:
    """The id of a topic, once the broker has heard of it."""
    while True:
        answer = await wire.ask(ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        if not check(answer.topics[0].error_code, *NOT_YET):
            found: UUID = answer.topics[0].topic_id
            return found
        await asyncio.sleep(0.1)


async def produce(peer: Peer, topic: str, partitions: int, seconds: float) -> list[float]:
    """The times in ms of all appends that were acknowledged in so many seconds."""
    wires = await connect_many(peer.bootstrap, PRODUCERS)
    found = await topic_id(wires[0], topic)
    frames = [append_frame(found, number % partitions) for number in range(PRODUCERS)]
    for frame in frames[:partitions]:
        while check(code_of(await wires[0].exchange(frame)), *NOT_YET):
            await asyncio.sleep(0.1)
    end_s = time.perf_counter() + seconds
    times: list[float] = []

    async def one(wire: Wire, frame: bytes) -> None:
        while (began_s := time.perf_counter()) < end_s:
            answer = await wire.exchange(frame)
            times.append((time.perf_counter() - began_s) * 1000)
            check(code_of(answer))

    await asyncio.gather(*map(one, wires, frames))
    for wire in wires:
        wire.close()
    return times


def measure(
    peer: Peer, topic: str, partitions: int, seconds: float, one_fsync_ms: tuple[float, float]
) -> dict[str, float]:
    """The figures of one round."""
    cpu_s, began_s = peer.cpu_seconds(), time.perf_counter()
    times = sorted(asyncio.run(produce(peer, topic, partitions, seconds)))
    took_s = time.perf_counter() - began_s
    p50, p99 = (times[int(len(times) * share)] for share in (0.5, 0.99))
    return {
        "appends/s": len(times) / took_s,
        "p50 ms": p50,
        "p99 ms": p99,
        "p50 / fsync": p50 / one_fsync_ms[0],
        "p99 / fsync": p99 / one_fsync_ms[0],
        "p99 / fsync p99": p99 / one_fsync_ms[1],
        "CPU ms / 1000": (peer.cpu_seconds() - cpu_s) * 1e6 / len(times),
    }


def run(*, rounds: int, seconds: float, warm_s: float) -> None:
    """Measures all cases and prints a table for each number of partitions."""
    print(f"{python_build()}; {PRODUCERS} producers with one request in flight, a record of {len(RECORD)} B, acks=all")
    with ExitStack() as stack:
        peers = {name: stack.enter_context(running(name)) for name in ("kafka", "penstock")}
        for number, (peer, configs) in enumerate(CASES.values()):
            for partitions in PARTITIONS:
                peers[peer].create_topic(f"t{number}-{partitions}", partitions, **configs)
        for peer in peers.values():  # appends without an fsync are so many more that a JVM has compiled them soon
            peer.create_topic("warm", PRODUCERS)
            asyncio.run(produce(peer, "warm", PRODUCERS, warm_s))
        for partitions in PARTITIONS:
            figures: dict[str, dict[str, list[float]]] = {name: {} for name in CASES}
            fsyncs = []
            for round_number in range(rounds + 1):  # the first is not counted
                cases = list(enumerate(CASES.items()))
                for number, (name, (peer, _)) in cases if round_number % 2 else reversed(cases):
                    fsyncs.append(fsync_ms())
                    length_s = seconds if round_number else seconds / 2
                    of_round = measure(peers[peer], f"t{number}-{partitions}", partitions, length_s, fsyncs[-1])
                    for key, value in of_round.items() if round_number else ():
                        figures[name].setdefault(key, []).append(value)
            medians, slowest = (statistics.median(each) for each in zip(*fsyncs, strict=True))
            print(f"\n{partitions} partition(s); an fsync takes {medians:.2f} ms, the slowest of 100 {slowest:.2f} ms")
            for name in list(CASES)[1:]:
                print(f"\npenstock {name}\n")
                ours = figures[name]
                print_table({key: {"kafka": of, "penstock": ours[key]} for key, of in figures["kafka"].items()})
