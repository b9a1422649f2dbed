"""Transactions: Penstock against Apache Kafka 4.3.1 with transaction.version 2, in alternating rounds on this machine.

The producer is Kafka's own (`TransactionClient.java`). A first round, which warms up its Java machine and the brokers,
is not counted.

- transact: transactions of 1, 10 and 100 records of 100 B in 1 and 10 partitions, by 4 producers; a second, and the
  broker's CPU each. One producer's commits: p50 and p99.
- overhead: 1,000 records a transaction beside 1,000 records a flush; how many times as long it takes, and as much CPU.
- aborted: a million records, every tenth transaction aborted, read with read_committed and read_uncommitted.
- ids: 10,000 transactional ids that have had a transaction each; memory an id, and a restarted broker until it knows
  all of them. Memory is resident, or of a JVM what lives in its heap.
- kill: three nodes; kill -9 of the coordinator of a producer that commits without pause, whose partition another leads;
  its longest silence.

A part that fails is told at the end, and the others have their figures.

    python bench/transactions.py                              # all of it, about half an hour
    python bench/transactions.py --quick                      # a tenth of all parts, about six minutes
    python bench/transactions.py --only transact,overhead --rounds 1 --scale 0.1
    python bench/transactions.py --peers kafka --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cluster_peers import Cluster
from confluent_kafka import Consumer, KafkaError, TopicPartition
from groups import Found, live_bytes, restart, rounds_of
from peers import Peer, kafka_peer, print_table, python_build, running
from vs_kafka import commit
from wire import VERSIONS, Wire, check, connect_many

from penstock.client.client import Client
from penstock.client.coordinators import CoordinatorKind, coordinator
from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.records.builder import BatchBuilder

SOURCE = Path(__file__).with_name("TransactionClient.java")
RECORDS, PARTITIONS, PRODUCERS = (1, 10, 100), (1, 10), 4
TRANSACTIONS, COMMITS = 10_000, 2_000
LARGE_RECORDS, LARGE = 1_000, 1_000
ABORTED_TRANSACTIONS, ABORTED_TRANSACTIONS_MIN, ABORT_EVERY = 1_000, 500, 10
"""The least is what a consumer takes so long to read that its start does not matter."""
IDS, WIRES = 10_000, 20
WARM_S, PULSE_S, QUICK_PULSE_S = 5.0, 45.0, 25.0
PATIENCE_S = 120.0
CLIENT_PATIENCE_S = 600.0
SETTLE_TRIES, QUICK_SETTLE_TRIES = 20, 4
SETTLED_CPU_S = 0.05
QUICK_SCALE, QUICK_ROUNDS, QUICK_ROUNDS_ALONE = 0.1, 2, 1
COMING = (
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.CONCURRENT_TRANSACTIONS,
)
VERSIONS |= {
    ApiKey.INIT_PRODUCER_ID: 5,
    ApiKey.PRODUCE: 12,
    ApiKey.END_TXN: 5,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
}

Figures = dict[str, float]


class JavaClient:
    """A running `TransactionClient`; a context manager."""

    def __init__(self, bootstrap: str) -> None:
        options = ("-Xmx512m", "-Xms512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
        command = kafka_peer.java_source(SOURCE.read_text(), bootstrap, options=options)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self, *words: object) -> None:
        """Sends a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()

    def result(self) -> list[float]:
        """The numbers of the answer. Raises RuntimeError when the client has ended, or does not end its work."""
        assert self._process.stdout is not None
        watch = threading.Timer(CLIENT_PATIENCE_S, self._process.kill)
        watch.start()
        line = self._process.stdout.readline()
        watch.cancel()
        if not line:
            raise RuntimeError("the Java client has ended, or was ended as it took too long")
        return [float(each) for each in line.split()]

    def ask(self, *words: object) -> list[float]:
        """Sends a line and gives the numbers of its answer."""
        self.begin(*words)
        return self.result()


def settle(peer: Peer, scale: float) -> None:
    """Waits until the broker's background work of the last workload is over, or for long enough."""
    before = peer.cpu_seconds()
    for _ in range(SETTLE_TRIES if scale >= 1 else QUICK_SETTLE_TRIES):
        time.sleep(0.5)
        now = peer.cpu_seconds()
        if now - before < SETTLED_CPU_S:
            return
        before = now


def create_once(peer: Peer, topic: str, partitions: int) -> str:
    """Creates a topic in the first round."""
    if topic not in peer.topics:
        peer.create_topic(topic, partitions)
    return topic


def transact(peer: Peer, java: JavaClient, scale: float) -> Figures:
    """See the module's head."""
    topic = create_once(peer, "transacted", max(PARTITIONS))
    figures: Figures = {}
    for partitions in PARTITIONS:
        for records in RECORDS:
            count = int(TRANSACTIONS * scale)
            seconds, cpu = measured(peer, java, scale, "transact", topic, partitions, records, count, PRODUCERS, 0)
            what = f"{records} records in {partitions} partitions"
            figures[f"{what}, transactions/s"] = count / seconds[0]
            figures[f"{what}, CPU us each"] = cpu / count * 1e6
    (_, p50, p99), _ = measured(peer, java, scale, "transact", topic, 1, 10, int(COMMITS * scale), 1, 0)
    return figures | {"commit p50, us": p50, "commit p99, us": p99}


def measured(peer: Peer, java: JavaClient, scale: float, *words: object) -> tuple[list[float], float]:
    """What the client says, and the broker's CPU seconds meanwhile."""
    settle(peer, scale)
    cpu = peer.cpu_seconds()
    numbers = java.ask(*words)
    settle(peer, scale)
    return numbers, peer.cpu_seconds() - cpu


def overhead(peer: Peer, java: JavaClient, scale: float) -> Figures:
    """See the module's head."""
    topic, times = create_once(peer, "large", 1), int(LARGE * scale)
    (plain_s,), plain_cpu_s = measured(peer, java, scale, "plain", topic, 1, LARGE_RECORDS, times)
    (seconds, *_), cpu_s = measured(peer, java, scale, "transact", topic, 1, LARGE_RECORDS, times, 1, 0)
    return {
        "1,000 records plain, records/s": times * LARGE_RECORDS / plain_s,
        "1,000 records a transaction, records/s": times * LARGE_RECORDS / seconds,
        "transactional / plain, time": seconds / plain_s,
        "transactional / plain, CPU": cpu_s / plain_cpu_s,
    }


def aborted(peer: Peer, java: JavaClient, scale: float) -> Figures:
    """See the module's head."""
    topic, times = f"aborted-{scale:g}", max(ABORTED_TRANSACTIONS_MIN, int(ABORTED_TRANSACTIONS * scale))
    if topic not in peer.topics:
        create_once(peer, topic, 1)
        java.ask("transact", topic, 1, LARGE_RECORDS, times, 1, ABORT_EVERY)
        settle(peer, scale)
    figures: Figures = {}
    for isolation, share in (("read_uncommitted", 1.0), ("read_committed", 1 - 1 / ABORT_EVERY)):
        cpu = peer.cpu_seconds()
        records, seconds = read_all(peer, topic, isolation)
        if records != round(times * LARGE_RECORDS * share):
            raise RuntimeError(f"{peer.name}: {records} records of {topic} with {isolation}")
        figures[f"{isolation}, log records/s"] = times * LARGE_RECORDS / seconds
        figures[f"{isolation}, CPU-s a million"] = (peer.cpu_seconds() - cpu) / (times * LARGE_RECORDS) * 1e6
    figures["read_committed / read_uncommitted"] = (
        figures["read_committed, log records/s"] / figures["read_uncommitted, log records/s"]
    )
    return figures


def read_all(peer: Peer, topic: str, isolation: str) -> tuple[int, float]:
    """How many records a consumer sees until the end of the partition, and how long that takes."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, began = 0, time.perf_counter()
    while True:
        for message in consumer.consume(10_000, 0.05):
            if message.error() is None:
                seen += 1
            elif message.error().code() == KafkaError._PARTITION_EOF:
                seconds = time.perf_counter() - began
                consumer.close()
                return seen, seconds
            else:
                raise RuntimeError(str(message.error()))


def ids(peer: Peer, _: JavaClient, scale: float) -> Figures:
    """See the module's head. The broker is new in each round."""
    count = int(IDS * scale)
    peer.create_topic("marked")
    asyncio.run(use_ids(peer, ["warm-up"]))
    restart(peer)
    asyncio.run(known(peer, ["warm-up"]))
    settle(peer, scale)
    empty_cpu_s = peer.cpu_seconds()
    before, cpu, began = live_bytes(peer), peer.cpu_seconds(), time.perf_counter()
    names = [f"copier-{number:05}" for number in range(count)]
    asyncio.run(use_ids(peer, names))
    seconds = time.perf_counter() - began
    settle(peer, scale)
    figures = {
        f"{count:,} ids with a transaction each, s": seconds,
        "the same, CPU us an id": (peer.cpu_seconds() - cpu) / count * 1e6,
        "memory an id, bytes": (live_bytes(peer) - before) / count,
    }
    restart(peer)
    asyncio.run(known(peer, names))
    figures["restart until all ids are known, s"] = time.perf_counter() - peer.started_at
    settle(peer, scale)
    figures["the same, CPU-s beyond that without ids"] = peer.cpu_seconds() - empty_cpu_s
    return figures


async def use_ids(peer: Peer, names: Sequence[str]) -> None:
    """One transaction of one record for each id."""
    wires = await connect_many(peer.bootstrap, WIRES)
    request = FindCoordinatorRequest(key_type=CoordinatorKind.TRANSACTION, coordinator_keys=[names[0]])
    while check((await wires[0].ask(ApiKey.FIND_COORDINATOR, request)).coordinators[0].error_code, *COMING):
        await asyncio.sleep(0.1)

    async def go_on(first: int) -> None:
        for name in names[first::WIRES]:
            await one_transaction(wires[first], name)

    await asyncio.wait_for(asyncio.gather(*map(go_on, range(WIRES))), CLIENT_PATIENCE_S)
    for wire in wires:
        wire.close()


async def one_transaction(wire: Wire, name: str) -> None:
    """InitProducerId, Produce and EndTxn of transaction version 2."""
    init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
    while check((began := await wire.ask(ApiKey.INIT_PRODUCER_ID, init)).error_code, *COMING):
        await asyncio.sleep(0.02)
    builder = BatchBuilder(
        producer_id=began.producer_id, producer_epoch=began.producer_epoch, base_sequence=0, is_transactional=True
    )
    builder.append(time.time_ns() // 1_000_000, None, b"x")
    data = TopicProduceData(
        name="marked", partition_data=[PartitionProduceData(index=0, records=memoryview(builder.build()))]
    )
    produce = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[data])
    while check((await wire.ask(ApiKey.PRODUCE, produce)).responses[0].partition_responses[0].error_code, *COMING):
        await asyncio.sleep(0.02)
    end = EndTxnRequest(
        transactional_id=name, producer_id=began.producer_id, producer_epoch=began.producer_epoch, committed=True
    )
    while check((await wire.ask(ApiKey.END_TXN, end)).error_code, *COMING):
        await asyncio.sleep(0.02)


async def known(peer: Peer, names: Sequence[str]) -> None:
    """Waits until the broker is there and describes each id."""
    missing, deadline = set(names), time.perf_counter() + PATIENCE_S
    while missing and time.perf_counter() < deadline:
        with contextlib.suppress(ConnectionError):
            (wire,) = await connect_many(peer.bootstrap, 1)
            while missing and time.perf_counter() < deadline:
                wanted = sorted(missing)[:500]
                answer = await wire.ask(
                    ApiKey.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest(transactional_ids=wanted)
                )
                there = {
                    each.transactional_id for each in answer.transaction_states if not check(each.error_code, *COMING)
                }
                missing -= there
                await asyncio.sleep(0 if there else 0.02)
            wire.close()
        await asyncio.sleep(0.02)
    if missing:
        raise RuntimeError(f"{peer.name}: {len(missing)} ids are not known")


def kill(name: str, scale: float) -> Figures:
    """See the module's head."""
    with Cluster(name) as cluster:
        cluster.create("pulse", 3)
        with JavaClient(cluster.bootstrap) as java:
            java.ask("pulse", "pulse", 0, "warm-up", WARM_S * scale)
            node, partition = asyncio.run(coordinator_and_other(cluster.bootstrap, "victim"))
            java.begin("pulse", "pulse", partition, "victim", WARM_S + (PULSE_S if scale >= 1 else QUICK_PULSE_S))
            time.sleep(WARM_S)
            cluster.kill(node)
            _, longest_ms = java.result()
    return {"coordinator kill -9: longest silence, ms": longest_ms}


async def coordinator_and_other(bootstrap: str, transactional_id: str) -> tuple[int, int]:
    """The node that coordinates a transactional id, and a partition that another one leads."""
    async with Client(bootstrap) as client:
        node = await coordinator(client, transactional_id, CoordinatorKind.TRANSACTION)
        leaders = (await client.topic("pulse")).leaders
        return node, next(index for index, leader in enumerate(leaders) if leader not in (node, -1))


PARTS: dict[str, Callable[[Peer, JavaClient, float], Figures]] = {
    "transact": transact,
    "overhead": overhead,
    "aborted": aborted,
    "ids": ids,
}
ALONE = ("ids",)
"""Parts that have a new broker in each round, on a machine where no other runs."""
INTERNAL_TOPIC = "transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n"


@contextlib.contextmanager
def driven(name: str) -> Iterator[tuple[Peer, JavaClient]]:
    """A broker and its client."""
    with running(name, extra=INTERNAL_TOPIC) as peer:
        peer.create_topic("first")  # waits for the broker
        with JavaClient(peer.bootstrap) as java:
            yield peer, java


def run_parts(options: argparse.Namespace, found: Found) -> list[str]:
    """All parts that were asked for. Returns what has failed."""
    names, parts = options.peers.split(","), options.only.split(",")
    alone = range(options.rounds_alone)
    failures: list[str] = []

    @contextlib.contextmanager
    def noted(what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            failures.append(f"{what}: {error!r}")
            print(f"FAILED {failures[-1]}", file=sys.stderr, flush=True)

    together = [each for each in parts if each in PARTS and each not in ALONE]
    with noted("the brokers of several parts"), contextlib.ExitStack() as stack:
        driven_peers = {name: stack.enter_context(driven(name)) for name in names if together}
        for part in together:
            with noted(part):
                for number, name in rounds_of(names, range(-1, options.rounds)):
                    peer, java = driven_peers[name]
                    figures = PARTS[part](peer, java, options.scale)
                    if number >= 0:
                        found.note(peer, figures)
    for part in (each for each in parts if each in ALONE):
        for _, name in rounds_of(names, alone):
            with noted(f"{part} of {name}"), driven(name) as (peer, java):
                found.note(peer, PARTS[part](peer, java, options.scale))
    for _, name in rounds_of(names, alone if "kill" in parts else range(0)):
        with noted(f"kill of {name}"):
            found.note_of(name, kill(name, options.scale))
    return failures


def main() -> None:
    """Runs the parts on both and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join((*PARTS, "kill")), help=f"parts, of {','.join((*PARTS, 'kill'))}")
    parser.add_argument("--rounds", type=int, help="3 by default")
    parser.add_argument("--scale", type=float, help="of the numbers of transactions, records and ids")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the numbers, two rounds, and one of ids and kill"
    )
    parser.add_argument("--peers", default="kafka,penstock")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    options.scale = options.scale or (QUICK_SCALE if options.quick else 1.0)
    options.rounds_alone = options.rounds or (QUICK_ROUNDS_ALONE if options.quick else 3)
    options.rounds = options.rounds or (QUICK_ROUNDS if options.quick else 3)
    found, began = Found(), time.perf_counter()
    failures = run_parts(options, found)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"commit": commit(), "figures": found.figures}, file, indent=1)
    print(f"\ncommit {commit()}, {python_build()}; medians of {options.rounds} rounds, ratio Penstock / Kafka\n")
    print_table(found.figures)
    print(f"\n{time.perf_counter() - began:.0f} s")
    if failures:
        sys.exit("\n".join(("failed:", *failures)))


if __name__ == "__main__":
    main()
