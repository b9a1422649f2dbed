"""TLS: Penstock against Apache Kafka 4.3.1 on this machine, both over SSL, in alternating rounds; and 2,000 handshakes.

Produce and consume as in vs_kafka (Java's ProducerPerformance, librdkafka by assign), over SSL with EC keys, TLS 1.3
and one partition; and over PLAINTEXT for Penstock, whose ratio to its own SSL is what encryption costs. Handshakes:
clients of mTLS connect as fast as CONNECTORS processes can, and close; beside them a producer sends 500 records a
second, whose p99 is compared with that of a quiet time. Ratios are Penstock / Kafka within a round: below 1 is better
for CPU and latency, above 1 for rates.

    python bench/security.py                 # three rounds
    python bench/security.py --rounds 1 --quick
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import ssl
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from peers import ROOT, Peer, print_table, producer_performance, python_build, running

sys.path.append(str(ROOT))
from tests.support.tls import Authority, KeyStore

KIB = 1024
WORKLOADS = {
    # name: (records, record bytes, batch.size, linger.ms)
    "100B/16KB": (750_000, 100, 16 * KIB, 0),
    "100B/1MB": (2_500_000, 100, 1 << 20, 10),
    "1KB/1MB": (500_000, 1000, 1 << 20, 10),
}
WARM_RECORDS = 500_000
HANDSHAKES, CONNECTORS = 2_000, 4
BESIDE_RECORDS, BESIDE_PER_S = 5_000, 500
Figures = dict[str, dict[str, list[float]]]


class SslPeer:
    """A broker with a PLAINTEXT listener and one with SSL that wants certificates, and its clients' settings."""

    def __init__(self, peer: Peer, ssl_port: int, store: KeyStore) -> None:
        self.peer = peer
        self.bootstrap = {"PLAINTEXT": peer.bootstrap, "SSL": f"localhost:{ssl_port}"}
        self.port = ssl_port
        self.store = store

    def java(self, protocol: str) -> dict[str, str]:
        """Properties of Java's producer, with `_` for `.`."""
        if protocol == "PLAINTEXT":
            return {}
        given = {"security.protocol": "SSL", **self.store.properties()}
        return {name.replace(".", "_"): value for name, value in given.items()}

    def librdkafka(self, protocol: str) -> dict[str, str]:
        found = {"bootstrap.servers": self.bootstrap[protocol]}
        if protocol == "SSL":
            found |= {
                "security.protocol": "SSL",
                "ssl.ca.location": str(self.store.trust),
                "ssl.certificate.location": str(self.store.pem),
                "ssl.key.location": str(self.store.pem),
            }
        return found


@contextlib.contextmanager
def running_with_ssl(name: str, store: KeyStore) -> Iterator[SslPeer]:
    """A broker of a kind with both listeners."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    settings = {"ssl.client.auth": "required", **store.properties()}
    extra = "".join(f"{key}={value}\n" for key, value in settings.items())
    with running(name, extra=extra, listeners=f",SSL://localhost:{port}") as peer:
        yield SslPeer(peer, port, store)


def produce_and_consume(one: SslPeer, protocol: str, workload: str, scale: float, topic: str) -> dict[str, float]:
    """Rates, and broker CPU seconds for a million records."""
    full, size, batch, linger = WORKLOADS[workload]
    records = max(20_000, int(full * scale))
    admin = AdminClient(one.librdkafka("PLAINTEXT"))
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    cpu = one.peer.cpu_seconds()
    made = producer_performance(
        *(one.bootstrap[protocol], topic),
        records=records,
        record_bytes=size,
        acks="1",
        batch_size=str(batch),
        linger_ms=str(linger),
        buffer_memory=str(64 << 20),
        max_request_size=str(2 << 20),
        **one.java(protocol),
    )
    time.sleep(1)
    produced_cpu = one.peer.cpu_seconds() - cpu
    cpu, began, seen = one.peer.cpu_seconds(), time.perf_counter(), 0
    consumer = Consumer(
        {
            **one.librdkafka(protocol),
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 1 << 20,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 1,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    while seen < records:
        messages = consumer.consume(min(10_000, records - seen), 10.0)
        if not messages or any(message.error() for message in messages):
            raise RuntimeError(f"{one.peer.name}: {seen} of {records} records arrived")
        seen += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    consumed_cpu = one.peer.cpu_seconds() - cpu
    admin.delete_topics([topic])[topic].result()
    return {
        "produce rate": made["rate"],
        "produce CPU-s a million": produced_cpu / records * 1e6,
        "consume rate": seen / seconds,
        "consume CPU-s a million": consumed_cpu / records * 1e6,
    }


def connect_often(port: int, count: int, trust: str, pem: str) -> int:
    """Makes and closes connections, one after the other; runs in a process of its own. Returns how many failed."""
    context = ssl.create_default_context(cafile=trust)
    context.load_cert_chain(pem)
    failed = 0
    for _ in range(count):
        try:
            plain = socket.create_connection(("localhost", port), 30)
            with context.wrap_socket(plain, server_hostname="localhost"):
                pass
        except OSError:
            failed += 1
    return failed


def handshakes(one: SslPeer, count: int) -> dict[str, float]:
    """The p99 of a producer beside many handshakes and without, their rate, and what they cost."""
    admin = AdminClient(one.librdkafka("PLAINTEXT"))
    admin.create_topics([NewTopic("beside", 1, 1)])["beside"].result()
    options = {"record_bytes": 100, "throughput": BESIDE_PER_S, "acks": "1", "linger_ms": "0"}

    def beside() -> dict[str, float]:
        at = (one.bootstrap["PLAINTEXT"], "beside")
        return producer_performance(*at, records=BESIDE_RECORDS, **options)  # type: ignore[arg-type]  # rates and sizes

    quiet = beside()
    found: dict[str, float] = {}
    thread = threading.Thread(target=lambda: found.update(beside()))
    thread.start()
    time.sleep(2)  # the producer has started
    cpu, began = one.peer.cpu_seconds(), time.perf_counter()
    with ProcessPoolExecutor(CONNECTORS) as pool:
        share = count // CONNECTORS
        jobs = [
            pool.submit(connect_often, one.port, share, str(one.store.trust), str(one.store.pem))
            for _ in range(CONNECTORS)
        ]
        failed = sum(job.result() for job in jobs)
    seconds = time.perf_counter() - began
    cost = one.peer.cpu_seconds() - cpu
    thread.join()
    admin.delete_topics(["beside"])["beside"].result()
    if failed:
        raise RuntimeError(f"{one.peer.name}: {failed} of {count} handshakes failed")
    return {
        "handshakes a second": count / seconds,
        "handshake CPU ms": cost / count * 1000,
        "p99 quiet ms": quiet["p99"],
        "p99 beside ms": found["p99"],
    }


def main() -> None:
    """Runs the rounds and prints medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of both brokers (default: 3)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the records, a fifth of the handshakes")
    options = parser.parse_args()
    scale = 0.1 if options.quick else 1.0
    print(f"{python_build()}, {ssl.OPENSSL_VERSION}; workloads {WORKLOADS}")
    figures: Figures = defaultdict(lambda: defaultdict(list))
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as stack:
        store = Authority(Path(directory)).store("node")
        peers = []
        for name in ("kafka", "penstock"):
            one = stack.enter_context(running_with_ssl(name, store))
            one.peer.create_topic("first")
            for protocol in ("SSL", "PLAINTEXT"):
                records = WARM_RECORDS * scale / WORKLOADS["100B/16KB"][0]
                produce_and_consume(one, protocol, "100B/16KB", records, f"warm-{protocol}")
            peers.append(one)
        for number in range(options.rounds):
            for one in peers if number % 2 == 0 else reversed(peers):
                for protocol in ("SSL", "PLAINTEXT") if one.peer.name == "penstock" else ("SSL",):
                    for workload in WORKLOADS:
                        topic = f"{protocol}-{number}-{workload.replace('/', '-')}"
                        for key, value in produce_and_consume(one, protocol, workload, scale, topic).items():
                            figures[f"{workload} {protocol}: {key}"][one.peer.name].append(value)
                count = HANDSHAKES if not options.quick else HANDSHAKES // 5
                for key, value in handshakes(one, count).items():
                    figures[key][one.peer.name].append(value)
            print(f"round {number + 1} done", flush=True)
    print_table(figures)


if __name__ == "__main__":
    main()
