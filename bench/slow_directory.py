"""The part `slow` of `log_life.py`: what clients of one log directory see while the other one is slow.

A broker with two log directories (`slow_server.py`), in rounds that alternate: each write and fsync of the second
directory takes so much longer, or does not. All the time a producer sends to a partition on each directory, a consumer
reads what the first gets, and a group commits offsets to a partition of `__consumer_offsets` there. A round of the slow
directory is measured once its first seconds are over, in which the broker finds out; the longest wait of those is given
apart.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from peers import PYTHON, Peer, running
from wire import VERSIONS, Wire, check, connect, wait_for_coordinator

from penstock.errors import ErrorCode
from penstock.node.coordinator_topic import partition_for
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder

VERSIONS |= {ApiKey.PRODUCE: 13, ApiKey.METADATA: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.FETCH: 13}
TOPIC, OFFSETS = "clicks", "__consumer_offsets"
PARTITIONS = 4
PAUSE_S = 0.005
"""Between two requests of a client."""
SETTINGS = """
offsets.topic.num.partitions=4
"""
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
NO_COORDINATOR = (
    *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
)


class Clients:
    """The clients of both directories. `taken_ms`: how long the requests took of late, by what asked."""

    def __init__(self, peer: Peer, first: Path) -> None:
        self.peer = peer
        self.first = first
        self.taken_ms: dict[str, list[float]] = {"produce": [], "fetch": [], "commit": [], "slow produce": []}
        self.topic_id: Any = None

    async def run(self, over: asyncio.Event) -> None:
        """Asks until it is over."""
        await wait_for_coordinator(self.peer.bootstrap)
        wire = await connect(self.peer.bootstrap)
        while len(list(self.first.parent.glob(f"data-*/{OFFSETS}-*"))) < PARTITIONS:
            await asyncio.sleep(PAUSE_S)
        answer = await wire.ask(ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
        self.topic_id = answer.topics[0].topic_id
        fast, slow = self._on(TOPIC, there=True), self._on(TOPIC, there=False)
        group = self._group()
        await asyncio.gather(
            self._again("produce", over, lambda wire: self._produce(wire, fast)),
            self._again("slow produce", over, lambda wire: self._produce(wire, slow)),
            self._again("fetch", over, lambda wire: self._fetch(wire, fast)),
            self._again("commit", over, lambda wire: self._commit(wire, group)),
        )

    def _on(self, topic: str, *, there: bool) -> int:
        """A partition on the first directory, or on the second."""
        return next(each for each in range(PARTITIONS) if (self.first / f"{topic}-{each}").exists() == there)

    def _group(self) -> str:
        """A group whose offsets are on the first directory."""
        names = (f"group-{number}" for number in range(100))
        return next(name for name in names if (self.first / f"{OFFSETS}-{partition_for(name, PARTITIONS)}").exists())

    async def _again(self, what: str, over: asyncio.Event, ask: Any) -> None:
        wire = await connect(self.peer.bootstrap)
        while not over.is_set():
            began_s = time.perf_counter()
            await ask(wire)
            self.taken_ms[what].append((time.perf_counter() - began_s) * 1000)
            await asyncio.sleep(PAUSE_S)
        wire.transport.close()

    async def _produce(self, wire: Wire, partition: int) -> None:
        builder = BatchBuilder()
        builder.append(int(time.time() * 1000), None, b"v" * 100)
        data = [PartitionProduceData(index=partition, records=builder.build())]
        topics = [TopicProduceData(topic_id=self.topic_id, partition_data=data)]
        answer = await wire.ask(ApiKey.PRODUCE, ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=topics))
        check(answer.responses[0].partition_responses[0].error_code, ErrorCode.NONE, *NOT_YET)

    async def _fetch(self, wire: Wire, partition: int) -> None:
        wanted = [FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=10_000)]
        topics = [FetchTopic(topic_id=self.topic_id, partitions=wanted)]
        await wire.ask(ApiKey.FETCH, FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=10_000, topics=topics))

    async def _commit(self, wire: Wire, group: str) -> None:
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        message = OffsetCommitRequest(group_id=group, generation_id_or_member_epoch=-1, topics=topics)
        answer = await wire.ask(ApiKey.OFFSET_COMMIT, message)
        check(answer.topics[0].partitions[0].error_code, ErrorCode.NONE, *NO_COORDINATOR)

    def take(self) -> dict[str, list[float]]:
        taken = {what: list(values) for what, values in self.taken_ms.items()}
        for values in self.taken_ms.values():
            values.clear()
        return taken


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else 0.0


async def rounds_of(peer: Peer, first: Path, *, rounds: int, seconds: float, warm_s: float) -> None:
    over, clients = asyncio.Event(), Clients(peer, first)
    asking = asyncio.create_task(clients.run(over))
    await asyncio.sleep(2 * warm_s)
    ratios: dict[str, list[float]] = {"produce": [], "fetch": [], "commit": []}
    print(f"{'p99 in ms':10} {'produce':>8} {'fetch':>8} {'commit':>8} {'slow produce':>14} {'longest at first':>18}")
    for _ in range(rounds):
        figures = []
        for name in ("well", "slow"):
            clients.take()
            await asyncio.sleep(warm_s)
            at_first = clients.take()
            await asyncio.sleep(seconds)
            taken = clients.take()
            if asking.done():
                asking.result()  # raises what ended it
            longest = max(max(at_first[what], default=0.0) for what in ratios)
            figures.append({what: p99(values) for what, values in taken.items()})
            values = " ".join(f"{figures[-1][what]:8.2f}" for what in ratios)
            print(f"{name:10} {values} {figures[-1]['slow produce']:14.1f} {longest:18.1f}", flush=True)
            os.kill(peer.pid, signal.SIGUSR1)
        for what, of_round in ratios.items():
            of_round.append(figures[1][what] / figures[0][what])
    told = ", ".join(f"{what} {statistics.median(values):.2f}" for what, values in ratios.items())
    print(f"p99 while the other directory is slow, in terms of that while it is well, median of {rounds}: {told}")
    over.set()
    with contextlib.suppress(asyncio.TimeoutError):
        await asyncio.wait_for(asking, 30)


def measure(*, rounds: int, seconds: float, warm_s: float, slow_ms: int) -> None:
    """Prints the figures."""
    server = str(Path(__file__).with_name("slow_server.py"))
    command = [PYTHON, server, str(slow_ms), "{directory}/data-2"]
    with running("penstock", extra=SETTINGS, penstock=command, directories=2) as peer:
        peer.create_topic(TOPIC, PARTITIONS)
        first = peer.directory / "data-1"
        asyncio.run(rounds_of(peer, first, rounds=rounds, seconds=seconds, warm_s=warm_s))


if __name__ == "__main__":
    sys.exit("run it as a part of bench/log_life.py: --only slow")
