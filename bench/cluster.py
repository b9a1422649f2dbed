"""Three nodes of Penstock against three of Apache Kafka 4.3.1 on this machine, both running, in alternating rounds.

Rates: Java's ProducerPerformance with acks=all into six partitions of three replicas; CPU is that of the three nodes
together. Silences: an idempotent librdkafka producer writes 1,000 records/s with acks=all to one partition, and the
longest time between two acknowledgements after the event is the silence; also whether a record was refused. The first
round of the load is not counted: it warms up the JVMs.

    python bench/cluster.py                # all of it, about half an hour
    python bench/cluster.py --only start,load,kill --rounds 3
    python bench/cluster.py --only freeze --rounds 3              # SIGSTOP; the writer's time-outs are short then
    python bench/cluster.py --only start --partitions 10000       # that many partitions of three replicas
    python bench/cluster.py --json FILE
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import json
import statistics
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from cluster_peers import NODES, Cluster
from confluent_kafka import Producer
from peers import print_table, producer_performance, python_build
from vs_kafka import commit

from penstock.client.client import Client
from penstock.protocol.messages import describe_quorum_request

KIB = 1024
LOADS = {
    # name: (records, record bytes, batch.size, linger.ms)
    "100 B, 1 MB batches": (1_500_000, 100, 1024 * KIB, 10),
    "100 B, default batches": (400_000, 100, 16 * KIB, 5),
    "1 KB, 1 MB batches": (200_000, 1000, 1024 * KIB, 10),
}
TRICKLE_RECORDS, TRICKLE_PER_S = 10_000, 1_000
PACE_PER_S = 1_000
CALM_S, WATCH_S, FIRST_WRITES_MAX_S = 3.0, 20.0, 120.0
WRITTEN_PARTITIONS, WRITTEN_PER_S, WRITTEN_S = 10, 500, 10.0
"""How many of many partitions are written to, and how much."""
PROMPT = {"socket.timeout.ms": 1_000, "topic.metadata.refresh.interval.ms": 500}
"""Settings of a writer that notices by itself that its leader answers nothing; with librdkafka's own it waits for a
minute, whoever leads meanwhile."""
PARTS = ("start", "load", "kill", "freeze", "stop", "controller", "rolling")

Figures = dict[str, float]


class Writer:
    """Writes PACE_PER_S records a second to partition 0 of a topic and notes when each was acknowledged."""

    def __init__(self, cluster: Cluster, topic: str, **settings: Any) -> None:
        idempotent = {"enable.idempotence": True, "acks": "all", "log_level": 0}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **idempotent, **settings})
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write)
        self.acknowledged: list[float] = []
        self.refused = 0

    def __enter__(self) -> Writer:
        self._thread.start()
        deadline = time.perf_counter() + FIRST_WRITES_MAX_S
        while len(self.acknowledged) < PACE_PER_S:
            if time.perf_counter() > deadline:
                self._stop.set()
                raise TimeoutError(
                    f"{self._topic}: fewer than {PACE_PER_S} records acknowledged in {FIRST_WRITES_MAX_S} s"
                )
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)

    def silence_ms(self, since: float) -> float:
        """The longest time without an acknowledgement from a moment on."""
        moments = [since, *(each for each in self.acknowledged if each > since)]
        return 1e3 * max(late - early for early, late in itertools.pairwise(moments))

    def wait_for_silence(self, since: float) -> float:
        """Waits until writing has been going on again for CALM_S; the silence."""
        deadline = since + 60
        while time.perf_counter() < deadline:
            time.sleep(0.1)
            now = time.perf_counter()
            recent = [each for each in self.acknowledged[-int(PACE_PER_S * CALM_S) :] if each > now - CALM_S]
            if now > since + CALM_S and len(recent) > 0.8 * PACE_PER_S * (CALM_S - 1):
                break
        return self.silence_ms(since)

    def _write(self) -> None:
        def delivered(error: object, _: object) -> None:
            if error is None:
                self.acknowledged.append(time.perf_counter())
            else:
                self.refused += 1

        began, sent = time.perf_counter(), 0
        while not self._stop.is_set():
            due = int((time.perf_counter() - began) * PACE_PER_S)
            while sent < due:
                try:
                    self._producer.produce(self._topic, b"x" * 100, partition=0, on_delivery=delivered)
                except BufferError:  # nothing has been acknowledged for so long that the client's queue is full
                    break
                sent += 1
            self._producer.poll(0.005)


def start(cluster: Cluster) -> Figures:
    """From the start of the processes to the first acknowledged write, and memory when that is over."""
    cluster.create("first", 1)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "log_level": 0})
    producer.produce("first", b"x")
    producer.flush(60)
    seconds = time.perf_counter() - cluster.started_at
    cluster.settle()
    return {"cold start to first write, s": seconds, "memory a node, idle, MB": max(cluster.resident_mb())}


def load(cluster: Cluster, number: int) -> Figures:
    """Rates, CPU and latencies with acks=all, in topics of the round's own."""
    figures: Figures = {}
    for workload, (name, (records, size, batch, linger)) in enumerate(LOADS.items()):
        topic = f"load-{number}-{workload}"
        cluster.create(topic, 6)
        cluster.settle()
        before = cluster.cpu_seconds()
        made = producer_performance(
            *(cluster.bootstrap, topic),
            records=records,
            record_bytes=size,
            acks="all",
            batch_size=str(batch),
            linger_ms=str(linger),
            buffer_memory=str(64 << 20),
            max_request_size=str(2 << 20),
        )
        cluster.settle()
        figures[f"{name}: records/s"] = made["rate"]
        figures[f"{name}: CPU-s a million"] = (cluster.cpu_seconds() - before) / records * 1e6
    cluster.create(f"trickle-{number}", 6)
    cluster.settle()
    before, began = cluster.cpu_seconds(), time.perf_counter()
    made = producer_performance(
        *(cluster.bootstrap, f"trickle-{number}"),
        records=TRICKLE_RECORDS,
        record_bytes=100,
        throughput=TRICKLE_PER_S,
        acks="all",
        linger_ms="0",
    )
    cores = (cluster.cpu_seconds() - before) / (time.perf_counter() - began)
    figures |= {"1,000/s: p50, ms": made["p50"], "1,000/s: p99, ms": made["p99"], "1,000/s: cores": cores}
    figures["loop lag p99.9 under load, ms"] = cluster.loop_lag_ms()
    return figures | {"memory a node, after load, MB": max(cluster.resident_mb())}


def struck(cluster: Cluster, topic: str, strike: Callable[[int], Any], victim: Callable[[], int]) -> tuple[float, int]:
    """The silence of a writer after an event at a node, which is then started again; and how many were refused."""
    cluster.wait_in_sync(topic)
    with Writer(cluster, topic) as writer:
        node = victim()
        since = time.perf_counter()
        strike(node)
        silence = writer.wait_for_silence(since)
        cluster.start(node)
    cluster.wait_in_sync(topic)
    return silence, writer.refused


def kill(cluster: Cluster) -> Figures:
    """kill -9 of the leader of the partition that is written to."""
    cluster.create_once("killed")
    silence, refused = struck(cluster, "killed", cluster.kill, lambda: cluster.leader("killed"))
    return {"leader kill -9: silence, ms": silence, "leader kill -9: refused": refused}


def freeze(cluster: Cluster) -> Figures:
    """SIGSTOP of a leader that is a broker alone, and of one that is the active controller, until others go on."""
    figures: Figures = {}
    for name, wanted in (("leader", False), ("leader and controller", True)):
        topic = led(cluster, by_controller=wanted)
        cluster.wait_in_sync(topic)
        with Writer(cluster, topic, **PROMPT) as writer:
            node = cluster.leader(topic)
            admin = cluster.admin(without=node)
            since = time.perf_counter()
            cluster.freeze(node)
            while admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader in (node, -1):
                time.sleep(0.01)
            figures[f"{name} SIGSTOP: next leader, ms"] = (time.perf_counter() - since) * 1e3
            figures[f"{name} SIGSTOP: silence, ms"] = writer.wait_for_silence(since)
            cluster.thaw(node)
        figures[f"{name} SIGSTOP: refused"] = writer.refused
        cluster.wait_in_sync(topic)
    return figures


def led(cluster: Cluster, *, by_controller: bool) -> str:
    """A topic whose leader is the active controller, or is not."""
    for number in itertools.count():
        topic = f"frozen-{number}"
        cluster.create_once(topic)
        if (cluster.leader(topic) == active_controller(cluster)) is by_controller:
            return topic
    raise AssertionError


def stop(cluster: Cluster) -> Figures:
    """A clean stop of the leader."""
    cluster.create_once("stopped")
    silence, refused = struck(cluster, "stopped", cluster.stop, lambda: cluster.leader("stopped"))
    return {"clean stop of a leader: silence, ms": silence, "clean stop of a leader: refused": refused}


def controller(cluster: Cluster) -> Figures:
    """kill -9 of the active controller, until a topic can be created again."""
    cluster.wait_in_sync("first")
    node = active_controller(cluster)
    since = time.perf_counter()
    cluster.kill(node)
    cluster.create(f"after-{since}", 1)
    seconds = time.perf_counter() - since
    cluster.start(node)
    cluster.wait_in_sync("first")
    return {"controller kill -9 to next topic, ms": seconds * 1e3}


def active_controller(cluster: Cluster) -> int:
    """The leader of the metadata quorum. (To clients a broker names any broker as the controller.)"""

    async def ask() -> int:
        partition = describe_quorum_request.PartitionData(partition_index=0)
        topic = describe_quorum_request.TopicData(topic_name="__cluster_metadata", partitions=[partition])
        async with Client(cluster.bootstrap) as client:
            answer = await client.send(describe_quorum_request.DescribeQuorumRequest(topics=[topic]))
            return int(answer.topics[0].partitions[0].leader_id)

    return asyncio.run(ask())


def rolling(cluster: Cluster) -> Figures:
    """Each node stopped and started again under load, the next one when all replicas are in sync."""
    cluster.create_once("rolled")
    cluster.wait_in_sync("rolled")
    with Writer(cluster, "rolled") as writer:
        since = time.perf_counter()
        for node in NODES:
            cluster.stop(node)
            cluster.start(node)
            cluster.wait_in_sync("rolled", "first")
        seconds = time.perf_counter() - since
        silence = writer.wait_for_silence(since)
    return {
        "rolling restart: s": seconds,
        "rolling restart: silence, ms": silence,
        "rolling restart: refused": writer.refused,
    }


def write(cluster: Cluster, topic: str) -> float:
    """Cores that the nodes use while WRITTEN_PER_S single records a second go to WRITTEN_PARTITIONS partitions."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0})
    sent, began, used = 0, time.perf_counter(), 0.0
    since = began
    while (now := time.perf_counter()) < began + 1 + WRITTEN_S:
        if since == began and now > began + 1:  # the first second opens logs and connections
            since, used = now, cluster.cpu_seconds()
        while sent < (now - began) * WRITTEN_PER_S:
            producer.produce(topic, b"x" * 100, partition=sent % WRITTEN_PARTITIONS)
            sent += 1
        producer.poll(0.002)
    cores = (cluster.cpu_seconds() - used) / (time.perf_counter() - since)
    producer.flush(30)
    return cores


def many(cluster: Cluster, partitions: int) -> Figures:
    """Many partitions of three replicas: made, idle, ten of them written to, a leader lost, nodes started."""
    cluster.create("few", WRITTEN_PARTITIONS)
    cluster.settle()
    alone = write(cluster, "few")
    cluster.settle()
    topics = [f"many-{number}" for number in range(partitions // 1000)]
    began, before = time.perf_counter(), cluster.cpu_seconds()
    for topic in topics:
        cluster.create(topic, 1000)
    cluster.wait_in_sync(*topics)
    figures = {"created, s": time.perf_counter() - began}
    cluster.settle()
    figures["created, CPU-s"] = cluster.cpu_seconds() - before
    figures["loop lag p99.9, ms"] = cluster.loop_lag_ms()
    figures["memory a node, MB"] = max(cluster.resident_mb())
    before, since = cluster.cpu_seconds(), time.perf_counter()
    time.sleep(10)
    figures["idle, cores"] = (cluster.cpu_seconds() - before) / (time.perf_counter() - since)
    figures["10 alone written, cores"] = alone
    figures["10 of them written, cores"] = statistics.mean([write(cluster, "few"), write(cluster, "many-0")])
    figures["leader kill -9, silence, ms"], _ = struck(
        cluster, "many-0", cluster.kill, lambda: cluster.leader("many-0")
    )
    cluster.wait_in_sync(*topics)
    cluster.settle()
    node, before, since = NODES[-1], cluster.cpu_seconds(), time.perf_counter()
    cluster.stop(node)
    figures["stop of a node, s"] = time.perf_counter() - since
    cluster.start(node)
    cluster.wait_in_sync(*topics)
    figures["stop and start of a node until all is in sync, s"] = time.perf_counter() - since
    figures["the same, CPU-s"] = cluster.cpu_seconds() - before
    for node in NODES:
        cluster.stop(node)
    since = time.perf_counter()
    for node in NODES:
        cluster.start(node)
    cluster.wait_in_sync(*topics)
    figures["start of all until all is in sync, s"] = time.perf_counter() - since
    return {f"{partitions:,} partitions: {key}": value for key, value in figures.items()}


def measure(clusters: Sequence[Cluster], parts: list[str], rounds: int) -> dict[str, dict[str, list[float]]]:
    """All figures, by cluster: lists of what the rounds gave."""
    found: dict[str, dict[str, list[float]]] = {cluster.name: {} for cluster in clusters}

    def note(cluster: Cluster, figures: Figures) -> None:
        for key, value in figures.items():
            found[cluster.name].setdefault(key, []).append(value)

    events = {"kill": kill, "freeze": freeze, "stop": stop, "controller": controller, "rolling": rolling}
    for number in range(-1 if "load" in parts else 0, rounds):
        for cluster in clusters if number % 2 == 0 else reversed(clusters):
            if "load" in parts:
                figures = load(cluster, number)
                note(cluster, figures if number >= 0 else {})
            for part, function in events.items():
                if part in parts and number >= 0:
                    note(cluster, function(cluster))
        print(f"round {number + 1} done", flush=True)
    return found


def main() -> None:
    """Runs both clusters and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, of " + ",".join(PARTS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=0)
    parser.add_argument("--peers", default="kafka,penstock")
    parser.add_argument("--json", help="also write all figures to this file")
    options = parser.parse_args()
    names, parts = options.peers.split(","), options.only.split(",")
    started: dict[str, Figures] = {}
    with contextlib.ExitStack() as stack:
        clusters = []
        for name in names:
            clusters.append(stack.enter_context(Cluster(name)))
            started[name] = start(clusters[-1])
            if options.partitions:
                started[name] |= many(clusters[-1], options.partitions)
        found = measure(clusters, parts, options.rounds)
    for name, figures in started.items():
        found[name] = {key: [value] for key, value in figures.items()} | found[name]
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"commit": commit(), "figures": found}, file, indent=1)
    print(f"\ncommit {commit()}, {python_build()}; medians of {options.rounds} rounds, ratio Penstock / Kafka\n")
    print_table({key: {name: found[name].get(key, []) for name in names} for key in found[names[-1]]})


if __name__ == "__main__":
    main()
