"""Penstock against Apache Kafka 4.3.1 on this machine, one after the other in the same run, with the same clients.

Producer: Java's ProducerPerformance. Consumer: librdkafka by assign, reading everything back, with a checksum of
(offset, value) so that a broker cannot be fast by serving something else. Each workload has a topic of its own, one
partition. Ratios are Penstock / Kafka: below 1 is better for CPU, memory, start and latency, above 1 for rates.

    python bench/vs_kafka.py                 # the table
    python bench/vs_kafka.py --rounds 3      # medians over rounds
    python bench/vs_kafka.py --quick         # a tenth of the records
    python bench/vs_kafka.py --json FILE
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import time
import zlib
from collections import defaultdict

from confluent_kafka import Consumer, TopicPartition
from peers import ROOT, Peer, producer_performance, running

KIB = 1024
WORKLOADS = {
    # name: (records, record bytes, batch.size, linger.ms, buffer.memory)
    "100B/16KB": (1_500_000, 100, 16 * KIB, 0, 32 << 20),
    "100B/1MB": (5_000_000, 100, 1 << 20, 10, 64 << 20),
    "1KB/16KB": (600_000, 1000, 16 * KIB, 0, 32 << 20),
    "1KB/1MB": (1_000_000, 1000, 1 << 20, 10, 64 << 20),
}
TRICKLE_RECORDS, TRICKLE_PER_S = 20_000, 2_000


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


def measure(peer: Peer, scale: float) -> dict[str, dict[str, float]]:
    """All workloads on one running broker."""
    figures: dict[str, dict[str, float]] = {}
    peer.create_topic("first")
    figures["start"] = {"start_to_topic_s": time.perf_counter() - peer.started_at}
    settle(peer)
    figures["start"]["resident_idle_mb"] = peer.resident_bytes() / 1e6
    producer_performance(peer.bootstrap, "first", records=100_000, record_bytes=100, acks="1")  # warms both sides
    for name, (full, size, batch, linger, memory) in WORKLOADS.items():
        topic, records = "load-" + name.replace("/", "-"), max(50_000, int(full * scale))
        peer.create_topic(topic, **{"retention.ms": "-1"})
        settle(peer)
        cpu = peer.cpu_seconds()
        made = producer_performance(
            *(peer.bootstrap, topic),
            records=records,
            record_bytes=size,
            acks="1",
            batch_size=str(batch),
            linger_ms=str(linger),
            buffer_memory=str(memory),
            max_request_size=str(2 << 20),
        )
        settle(peer)
        figures[name] = {"rate": made["rate"], "cpu_s_per_1m": (peer.cpu_seconds() - cpu) / records * 1e6}
        figures[name] |= consume(peer, topic, records)
    peer.create_topic("trickle")
    settle(peer)
    cpu = peer.cpu_seconds()
    made = producer_performance(
        *(peer.bootstrap, "trickle"),
        records=TRICKLE_RECORDS,
        record_bytes=100,
        throughput=TRICKLE_PER_S,
        acks="1",
        linger_ms="0",
    )
    figures["2k/s"] = {key: made[key] for key in ("avg", "p50", "p99", "p999")}
    figures["2k/s"]["cpu_s_per_20k"] = peer.cpu_seconds() - cpu
    figures["memory"] = {"resident_after_load_mb": peer.resident_bytes() / 1e6}
    return figures


def commit() -> str:
    """The commit that is measured, marked when the tree has changes."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()


def main() -> None:
    """Runs the rounds and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="a tenth of the records")
    parser.add_argument("--json", help="also write every round's figures to this file")
    options = parser.parse_args()
    rounds: dict[str, list[dict[str, dict[str, float]]]] = defaultdict(list)
    print(f"commit {commit()}, {platform.processor() or platform.machine()}, Python {platform.python_version()}")
    print("settings: acks=1, one partition, no compression, page cache, Kafka heap 1 GB; workloads", WORKLOADS)
    for number in range(options.rounds):
        for name in ("kafka", "penstock") if number % 2 == 0 else ("penstock", "kafka"):
            with running(name) as peer:
                rounds[name].append(measure(peer, 0.1 if options.quick else 1.0))
            print(f"round {number + 1}: {name} done", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"commit": commit(), "rounds": rounds}, file, indent=1)
    print(f"\n{'workload':12} {'figure':24} {'kafka':>14} {'penstock':>14} {'ratio':>7}")
    for workload, keys in rounds["kafka"][0].items():
        for key in keys:
            both = [statistics.median(r[workload][key] for r in rounds[name]) for name in ("kafka", "penstock")]
            if key == "checksum":
                same = "same" if both[0] == both[1] else "differs (random payloads)"
                print(f"{workload:12} {key:24} {int(both[0]):14x} {int(both[1]):14x} {same}")
                continue
            ratio = f"{both[1] / both[0]:7.2f}" if both[0] else "      -"
            print(f"{workload:12} {key:24} {both[0]:14,.3f} {both[1]:14,.3f} {ratio}")


if __name__ == "__main__":
    main()
