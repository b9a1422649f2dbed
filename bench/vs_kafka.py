"""Penstock against Apache Kafka 4.3.1 on this machine, both warmed up, in alternating rounds, with the same clients.

Producer: Java's ProducerPerformance. Consumer: librdkafka by assign, reading everything back, with a checksum of
(offset, value) so that a broker cannot be fast by serving something else. Each workload has a topic of its own, one
partition, and each round has new ones. A JVM compiles for minutes what it runs often, so both brokers first take
WARM_RECORDS records, in single ones, small and large batches, and give them to a consumer. Ratios are Penstock / Kafka
within a round: below 1 is better for CPU, memory, start and latency, above 1 for rates.

    python bench/vs_kafka.py                 # three rounds: medians, and the least and largest ratio
    python bench/vs_kafka.py --rounds 5
    python bench/vs_kafka.py --quick         # a tenth of the records
    python bench/vs_kafka.py --json FILE
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import statistics
import subprocess
import time
import zlib
from collections import defaultdict

from confluent_kafka import Consumer, TopicPartition
from peers import ROOT, Peer, producer_performance, python_build, running

KIB = 1024
WORKLOADS = {
    # name: (records, record bytes, batch.size, linger.ms, buffer.memory)
    "100B/16KB": (1_500_000, 100, 16 * KIB, 0, 32 << 20),
    "100B/1MB": (5_000_000, 100, 1 << 20, 10, 64 << 20),
    "1KB/16KB": (600_000, 1000, 16 * KIB, 0, 32 << 20),
    "1KB/1MB": (1_000_000, 1000, 1 << 20, 10, 64 << 20),
}
TRICKLE_RECORDS, TRICKLE_PER_S = 20_000, 2_000
WARM_RECORDS = {"100B/1MB": 10_000_000, "100B/16KB": 1_500_000, "1KB/1MB": 500_000}
WARM_SINGLE_RECORDS = 60_000

Figures = dict[str, dict[str, float]]


def consume(peer: Peer, topic: str, records: int) -> dict[str, float]:
    """Reads the whole partition by assign; returns rate, broker CPU seconds a million records, checksum."""
    consumer = Consumer(
        {
            "bootstrap.servers": peer.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": 64 * KIB,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,  # else a full queue makes the client wait a second, whatever the broker does
            "fetch.message.max.bytes": 1 << 20,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    seen, checksum, cpu, start = 0, 0, peer.cpu_seconds(), time.perf_counter()
    while seen < records:
        messages = consumer.consume(min(10_000, records - seen), 10.0)
        if not messages:
            raise RuntimeError(f"{peer.name}: {seen} of {records} records of {topic} arrived, then nothing for 10 s")
        for message in messages:
            if message.error():
                raise RuntimeError(str(message.error()))
            checksum = zlib.crc32(message.value(), checksum)
        if messages[-1].offset() != seen + len(messages) - 1:
            raise RuntimeError(f"{peer.name}: offset {messages[-1].offset()} where {seen + len(messages) - 1} was due")
        seen += len(messages)
    seconds = time.perf_counter() - start
    consumer.close()
    return {
        "consume_rate": seen / seconds,
        "consume_cpu_s_per_1m": (peer.cpu_seconds() - cpu) / seen * 1e6,
        "checksum": checksum,
    }


def settle(peer: Peer) -> None:
    """Waits until the broker's background work of the last workload is over."""
    before = peer.cpu_seconds()
    for _ in range(20):
        time.sleep(0.5)
        now = peer.cpu_seconds()
        if now - before < 0.05:
            return
        before = now


def load(peer: Peer, topic: str, name: str, records: int) -> dict[str, float]:
    """Produces the records of a workload."""
    _, size, batch, linger, memory = WORKLOADS[name]
    return producer_performance(
        *(peer.bootstrap, topic),
        records=records,
        record_bytes=size,
        acks="1",
        batch_size=str(batch),
        linger_ms=str(linger),
        buffer_memory=str(memory),
        max_request_size=str(2 << 20),
    )


def trickle(peer: Peer, topic: str, records: int, per_s: int) -> dict[str, float]:
    """Produces single records."""
    options = {"records": records, "record_bytes": 100, "throughput": per_s, "acks": "1", "linger_ms": "0"}
    return producer_performance(peer.bootstrap, topic, **options)  # type: ignore[arg-type]


def first_figures(peer: Peer) -> Figures:
    """What only a broker that has just started can tell."""
    peer.create_topic("first")
    started_s = time.perf_counter() - peer.started_at
    settle(peer)
    return {"start": {"start_to_topic_s": started_s, "resident_idle_mb": peer.resident_bytes() / 1e6}}


def warm_up(peer: Peer, scale: float) -> None:
    """Has the broker do what is measured later, often enough."""
    for name, records in WARM_RECORDS.items():
        topic = "warm-" + name.replace("/", "-")
        peer.create_topic(topic)
        load(peer, topic, name, int(records * scale))
        consume(peer, topic, int(records * scale))
        peer.delete_topic(topic)
    trickle(peer, "first", int(WARM_SINGLE_RECORDS * scale), 3 * TRICKLE_PER_S)
    settle(peer)


def measure(peer: Peer, number: int, scale: float) -> Figures:
    """One round of all workloads."""
    figures: Figures = {}
    for name, (full, *_) in WORKLOADS.items():
        topic, records = f"load-{number}-{name.replace('/', '-')}", max(50_000, int(full * scale))
        peer.create_topic(topic, **{"retention.ms": "-1"})
        settle(peer)
        cpu = peer.cpu_seconds()
        made = load(peer, topic, name, records)
        settle(peer)
        figures[name] = {"rate": made["rate"], "cpu_s_per_1m": (peer.cpu_seconds() - cpu) / records * 1e6}
        figures[name] |= consume(peer, topic, records)
        peer.delete_topic(topic)
    settle(peer)
    cpu = peer.cpu_seconds()
    made = trickle(peer, "first", TRICKLE_RECORDS, TRICKLE_PER_S)
    figures["2k/s"] = {key: made[key] for key in ("avg", "p50", "p99", "p999")}
    figures["2k/s"]["cpu_s_per_20k"] = peer.cpu_seconds() - cpu
    figures["memory"] = {"resident_after_load_mb": peer.resident_bytes() / 1e6}
    return figures


def commit() -> str:
    """The commit that is measured, marked when the tree has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def print_figures(rounds: dict[str, list[Figures]]) -> None:
    """Medians of both brokers, the median ratio, and in brackets the least and the largest."""
    for workload, keys in rounds["kafka"][0].items():
        for key in keys:
            theirs, ours = ([each[workload][key] for each in rounds[name]] for name in ("kafka", "penstock"))
            if key == "checksum":
                same = "same" if theirs == ours else "differs (random payloads)"
                print(f"{workload:12} {key:22} {int(theirs[0]):12x} {int(ours[0]):12x}  {same}")
                continue
            ratios = sorted(one / other for one, other in zip(ours, theirs, strict=True) if other)
            ratio = f"{statistics.median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})" if ratios else "-"
            medians = [statistics.median(each) for each in (theirs, ours)]
            print(f"{workload:12} {key:22} {medians[0]:12,.3f} {medians[1]:12,.3f}  {ratio}")


def main() -> None:
    """Runs the rounds and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both brokers (default: 3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--json", help="also write every round's figures to this file")
    options = parser.parse_args()
    scale = 0.1 if options.quick else 1.0
    rounds: dict[str, list[Figures]] = defaultdict(list)
    print(f"commit {commit()}, {platform.processor() or platform.machine()}, {python_build()}")
    print("settings: acks=1, one partition, no compression, page cache, Kafka heap 1 GB; workloads", WORKLOADS)
    started: dict[str, Figures] = {}
    with contextlib.ExitStack() as stack:
        peers = []
        for name in ("kafka", "penstock"):
            peer = stack.enter_context(running(name))
            started[name] = first_figures(peer)
            warm_up(peer, scale)
            print(f"{name} is warm", flush=True)
            peers.append(peer)
        for number in range(options.rounds):
            for peer in peers if number % 2 == 0 else reversed(peers):
                rounds[peer.name].append(measure(peer, number, scale))
            print(f"round {number + 1} done", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"commit": commit(), "started": started, "rounds": rounds}, file, indent=1)
    print(f"\n{'workload':12} {'figure':22} {'kafka':>12} {'penstock':>12}  ratio")
    print_figures({name: [each] for name, each in started.items()})
    print_figures(rounds)


if __name__ == "__main__":
    main()
