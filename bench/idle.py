"""What an idle broker costs: 10,000 partitions that nobody uses, then 1,000 connections that say nothing.

Reports idle CPU (share of one core), resident bytes for each partition and connection, and the p99.9 of the event
time of the loop's turns over the whole run, from the broker's own /metrics.

    python bench/idle.py [--partitions 10000] [--connections 1000] [--seconds 20]
"""

from __future__ import annotations

import argparse
import re
import socket
import time
import urllib.request

from peers import Peer, free_port, running

from penstock.protocol.api import APIS, ApiKey
from penstock.protocol.frames import encode_request
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest

TOPIC_PARTITIONS = 1000


def idle_cpu_percent(peer: Peer, seconds: float) -> float:
    """CPU that the broker uses while nobody asks it anything, in percent of one core."""
    before = peer.cpu_seconds()
    time.sleep(seconds)
    return (peer.cpu_seconds() - before) / seconds * 100


def connect(bootstrap: str) -> socket.socket:
    """A connection that has said hello, as every client does."""
    host, _, port = bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)))
    hello = ApiVersionsRequest(client_software_name="idle", client_software_version="1")
    connection.sendall(b"".join(map(bytes, encode_request(APIS[ApiKey.API_VERSIONS], 3, 1, "idle", hello))))
    size = int.from_bytes(connection.recv(4, socket.MSG_WAITALL), "big")
    connection.recv(size, socket.MSG_WAITALL)
    return connection


def turn_p999_ms(metrics: str) -> str:
    """The p99.9 of the turns' time as the broker tells it."""
    with urllib.request.urlopen(metrics, timeout=5) as answer:
        page = answer.read().decode()
    found = re.search(r'^penstock_loop_turn_quantile_seconds{quantile="0\.999"} (\S+)$', page, re.MULTILINE)
    assert found is not None, "the broker tells how long its turns take"
    return f"{float(found[1]) * 1e3:.1f} ms"


def main() -> None:
    """Runs it and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    options = parser.parse_args()
    metrics_port = free_port()
    with running("penstock", extra=f"penstock.metrics.listener=127.0.0.1:{metrics_port}\n") as peer:
        peer.create_topic("first")
        time.sleep(1)
        empty = peer.resident_bytes()
        started, cpu = time.perf_counter(), peer.cpu_seconds()
        for number in range(options.partitions // TOPIC_PARTITIONS):
            peer.create_topic(f"idle-{number}", TOPIC_PARTITIONS)
        seconds, cpu = time.perf_counter() - started, peer.cpu_seconds() - cpu
        time.sleep(2)
        full = peer.resident_bytes()
        print(f"{options.partitions:,} partitions created in {seconds:.1f} s, {cpu:.1f} CPU-s")
        print(f"resident: {empty / 1e6:.1f} MB empty, {full / 1e6:.1f} MB with them,", end=" ")
        print(f"{(full - empty) / options.partitions:,.0f} bytes a partition")
        print(f"idle CPU with them: {idle_cpu_percent(peer, options.seconds):.2f} %")
        connections = [connect(peer.bootstrap) for _ in range(options.connections)]
        time.sleep(1)
        connected = peer.resident_bytes()
        print(
            f"{options.connections:,} connections: {(connected - full) / options.connections:,.0f} bytes a connection"
        )
        print(f"idle CPU with both: {idle_cpu_percent(peer, options.seconds):.2f} %")
        print(f"time of turns p99.9: {turn_p999_ms(f'http://127.0.0.1:{metrics_port}/metrics')} (aim: 5 ms)")
        for connection in connections:
            connection.close()


if __name__ == "__main__":
    main()
