"""What the log cleaner costs clients and memory, and what it leaves of the log of the groups, beside Apache Kafka.

    python bench/cleaned_brokers.py
    python bench/cleaned_brokers.py --only offsets --commits 1000000

latency: a producer sends 2,000 records a second and a consumer reads them, at rest and while the broker cleans another
topic. Both are clients in this process; a record's time is from `produce` to its acknowledgement, and to the consumer.
Memory is the resident memory of the broker and of its workers, as the system accounts for it.

offsets: groups commit offsets over and over; then what `__consumer_offsets` takes on the disk once it was cleaned, and
how long a restarted broker needs until it serves such a group.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import psutil
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource
from peers import Peer, running
from wire import VERSIONS, Wire, check, connect, wait_for_coordinator

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder

VERSIONS |= {ApiKey.PRODUCE: 13, ApiKey.METADATA: 12, ApiKey.OFFSET_COMMIT: 9, ApiKey.OFFSET_FETCH: 9}
CLEANED, TRICKLE = "profiles", "trickle"
RATE = 2_000
BATCH_RECORDS, KEYS = 1_000, 50_000
IN_FLIGHT = 16
SETTLED_S = 20.0
GROUPS, PARTITIONS = 100, 100
NOT_YET = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
"""Until a broker has heard of a new topic."""
NO_COORDINATOR = (
    *(ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    *(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,),
)
"""Until a broker coordinates the groups."""

CLEANER = """
log.cleaner.backoff.ms=200
log.initial.task.delay.ms=100
offsets.topic.num.partitions=1
offsets.topic.segment.bytes=1048576
log.segment.delete.delay.ms=1000
"""


class Load:
    """A producer and a consumer of one partition. Attributes: `acknowledged_ms`, `delivered_ms` of the records."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged_ms: list[float] = []
        self.delivered_ms: list[float] = []
        self._bootstrap = bootstrap
        self._over = threading.Event()

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
        """Sends for so long, or until something is so."""
        reader = threading.Thread(target=self._read)
        reader.start()
        settings = {"bootstrap.servers": self._bootstrap, "linger.ms": 0, "acks": "all", "log_level": 0}
        producer = Producer(settings)
        began = due = time.perf_counter()
        while time.perf_counter() < began + seconds and not until():
            due += 1 / RATE
            producer.poll(max(0.0, due - time.perf_counter()))
            sent = time.perf_counter()
            producer.produce(TRICKLE, b"%.9f" % sent + b"v" * 80, partition=0, on_delivery=self._acknowledged(sent))
        producer.flush(60)
        self._over.set()
        reader.join()

    def _acknowledged(self, sent: float) -> Callable[[object, Message], None]:
        def heard(error: object, message: Message) -> None:
            assert error is None, error
            self.acknowledged_ms.append((time.perf_counter() - sent) * 1000)

        return heard

    def _read(self) -> None:
        settings = {"bootstrap.servers": self._bootstrap, "group.id": "reader", "fetch.wait.max.ms": 100}
        consumer = Consumer({**settings, "log_level": 0})
        end = consumer.get_watermark_offsets(TopicPartition(TRICKLE, 0))[1]
        consumer.assign([TopicPartition(TRICKLE, 0, end)])
        while not self._over.is_set():
            message = consumer.poll(0.1)
            if message is not None and not message.error():
                value = message.value()
                assert value is not None
                self.delivered_ms.append((time.perf_counter() - float(value.split(b"v")[0])) * 1000)
        consumer.close()


def p99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[98] if len(values) > 1 else 0.0


async def fill(bootstrap: str, partitions: int, records: int) -> None:
    """Writes `records` of 100 B to each partition of the topic that is to be cleaned."""
    wire = await connect(bootstrap)
    answer = await wire.ask(ApiKey.METADATA, MetadataRequest(topics=[MetadataRequestTopic(name=CLEANED)]))
    topic_id = answer.topics[0].topic_id
    batches = []
    for first in range(0, min(KEYS, records), BATCH_RECORDS):
        builder = BatchBuilder()
        for number in range(first, first + BATCH_RECORDS):
            builder.append(int(time.time() * 1000), b"%016d" % (number * 7919 % KEYS), (b"%038d" % number**3) * 2)
        batches.append(builder.build())
    under_way: list[asyncio.Task[None]] = []
    for number in range(records // BATCH_RECORDS):
        for partition in range(partitions):
            under_way.append(asyncio.create_task(send(wire, topic_id, partition, batches[number % len(batches)])))
            if len(under_way) >= IN_FLIGHT:
                await under_way.pop(0)
    await asyncio.gather(*under_way)
    wire.transport.close()


async def send(wire: Wire, topic_id: UUID, partition: int, batch: bytes) -> None:
    data = [TopicProduceData(topic_id=topic_id, partition_data=[PartitionProduceData(index=partition, records=batch)])]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
    while True:
        answer = await wire.ask(ApiKey.PRODUCE, request)
        code = check(answer.responses[0].partition_responses[0].error_code, ErrorCode.NONE, *NOT_YET)
        if not code:
            return
        await asyncio.sleep(0.1)


def begin_cleaning(bootstrap: str, topic: str = CLEANED) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    ratio = ConfigEntry("min.cleanable.dirty.ratio", "0.01", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=[ratio])
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(30)


def size_of(peer: Peer, topic: str) -> int:
    """Bytes of a topic's segments, without those that wait for their removal."""
    files = (peer.directory / "data").glob(f"{topic}-*/*.log")
    return sum(size for path in files if (size := size_or_none(path)))


def size_or_none(path: Path) -> int:
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


class Memory(threading.Thread):
    """Looks at the resident memory of a broker and its children until `stop`. In MB: what each had at most.

    It looks for children once a second: that takes 2 ms, for which the clients of this process would wait.
    """

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.broker_mb = self.children_mb = 0.0
        self._process = psutil.Process(peer.pid)
        self._over = threading.Event()

    def run(self) -> None:
        children: list[psutil.Process] = []
        looks = 0
        while not self._over.wait(0.05):
            with contextlib.suppress(psutil.NoSuchProcess):
                self.broker_mb = max(self.broker_mb, self._process.memory_info().rss / 1e6)
                if looks % 20 == 0:
                    children = self._process.children(recursive=True)
                looks += 1
                self.children_mb = max([self.children_mb, *(each.memory_info().rss / 1e6 for each in children)])

    def stop(self) -> None:
        self._over.set()
        self.join()


def latency(name: str, *, partitions: int, records: int, seconds: float) -> str:
    """Measures one broker; a line for people."""
    with running(name, extra=CLEANER) as peer:
        peer.create_topic(TRICKLE)
        ratio = {"min.cleanable.dirty.ratio": "1.0", "segment.bytes": str(8 << 20), "cleanup.policy": "compact"}
        peer.create_topic(CLEANED, partitions, **ratio)
        asyncio.run(fill(peer.bootstrap, partitions, records))
        Load(peer.bootstrap).run(seconds)  # warms up
        at_rest, cleaning = Load(peer.bootstrap), Load(peer.bootstrap)
        rested = Memory(peer)
        rested.start()
        at_rest.run(seconds)
        rested.stop()
        before, memory, cpu_s, began_s = size_of(peer, CLEANED), Memory(peer), peer.cpu_seconds(), time.perf_counter()
        memory.start()
        begin_cleaning(peer.bootstrap)
        sizes = [(time.perf_counter(), before)]

        def settled() -> bool:
            now = time.perf_counter()
            if now - sizes[-1][0] > 1.0:
                sizes.append((now, size_of(peer, CLEANED)))
            return len(sizes) > 4 and sizes[-1][1] == sizes[-4][1] < 0.8 * before

        cleaning.run(10 * seconds, settled)
        memory.stop()
        cpu_s = peer.cpu_seconds() - cpu_s
        took_s = time.perf_counter() - began_s
    return (
        f"{name:9} p99 ms at rest: produce {p99(at_rest.acknowledged_ms):6.2f} fetch {p99(at_rest.delivered_ms):6.2f}; "
        f"while it cleans {before / 1e6:.0f} MB to {sizes[-1][1] / 1e6:.0f} in {took_s:.0f} s, {cpu_s:.1f} CPU s: "
        f"produce {p99(cleaning.acknowledged_ms):6.2f} fetch {p99(cleaning.delivered_ms):6.2f}; resident MB "
        f"{rested.broker_mb:.0f} at rest, {memory.broker_mb:.0f} and {memory.children_mb:.0f} in a worker"
    )


async def commit(bootstrap: str, rounds: int) -> None:
    """Every group commits an offset of each of its partitions, again and again."""
    await wait_for_coordinator(bootstrap)
    wire = await connect(bootstrap)
    under_way: list[asyncio.Task[None]] = []
    for offset in range(rounds):
        for group in range(GROUPS):
            under_way.append(asyncio.create_task(commit_one(wire, group, offset)))
            if len(under_way) >= IN_FLIGHT:
                await under_way.pop(0)
    await asyncio.gather(*under_way)
    wire.transport.close()


async def commit_one(wire: Wire, group: int, offset: int) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=offset) for index in range(PARTITIONS)
    ]
    topics = [OffsetCommitRequestTopic(name=TRICKLE, partitions=partitions)]
    message = OffsetCommitRequest(group_id=f"group-{group}", generation_id_or_member_epoch=-1, topics=topics)
    while True:
        answer = await wire.ask(ApiKey.OFFSET_COMMIT, message)
        code = check(answer.topics[0].partitions[0].error_code, ErrorCode.NONE, *NO_COORDINATOR)
        if not code:
            return
        await asyncio.sleep(0.1)


async def served(bootstrap: str, offset: int) -> float:
    """Waits until the last group's offset is served; the time of that."""
    topics = [OffsetFetchRequestTopics(name=TRICKLE, partition_indexes=[0])]
    group = OffsetFetchRequestGroup(group_id=f"group-{GROUPS - 1}", topics=topics)
    while True:
        with contextlib.suppress(OSError, ConnectionError):
            wire = await connect(bootstrap)
            answer = await wire.ask(ApiKey.OFFSET_FETCH, OffsetFetchRequest(groups=[group]))
            wire.transport.close()
            found = answer.groups[0]
            if not found.error_code:
                assert found.topics[0].partitions[0].committed_offset == offset
                return time.perf_counter()
        await asyncio.sleep(0.01)


def offsets(name: str, commits: int) -> str:
    """Measures one broker; a line for people."""
    rounds = commits // (GROUPS * PARTITIONS)
    with running(name, extra=CLEANER) as peer:
        peer.create_topic(TRICKLE, PARTITIONS)
        began = time.perf_counter()
        asyncio.run(commit(peer.bootstrap, rounds))
        took_s = time.perf_counter() - began
        least = size_of(peer, "__consumer_offsets")
        settled = time.perf_counter()
        while time.perf_counter() < settled + SETTLED_S:
            time.sleep(0.5)
            if (size := size_of(peer, "__consumer_offsets")) != least:
                least, settled = size, time.perf_counter()
        peer.stop()
        peer.start()
        cpu_s = peer.cpu_seconds()
        started_s = peer.started_at
        load_s = asyncio.run(served(peer.bootstrap, rounds - 1)) - started_s
        cpu_s = peer.cpu_seconds() - cpu_s
    return (
        f"{name:9} {rounds * GROUPS * PARTITIONS:,} commits in {took_s:.0f} s; __consumer_offsets "
        f"{least / 1e6:.2f} MB; restarted and loaded after {load_s:.2f} s, {cpu_s:.2f} CPU s"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("latency", "offsets"), help="the part to run (default: both)")
    parser.add_argument("--peers", default="penstock,kafka", help="which brokers (default: penstock,kafka)")
    parser.add_argument("--partitions", type=int, default=8, help="of the topic that is cleaned (default: 8)")
    parser.add_argument("--records", type=int, default=600_000, help="of each of them (default: 600000)")
    parser.add_argument("--seconds", type=float, default=8.0, help="of load at rest (default: 8)")
    parser.add_argument("--commits", type=int, default=1_000_000, help="over 10,000 keys (default: 1000000)")
    arguments = parser.parse_args()
    for name in arguments.peers.split(","):
        if arguments.only != "offsets":
            shape = {"partitions": arguments.partitions, "records": arguments.records, "seconds": arguments.seconds}
            print(latency(name, **shape), flush=True)
        if arguments.only != "latency":
            print(offsets(name, arguments.commits), flush=True)


if __name__ == "__main__":
    main()
