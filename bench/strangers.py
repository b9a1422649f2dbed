"""A million mutated frames of clients that have not logged in: what one that has notices, and the node's memory.

    python bench/strangers.py [--frames 1000000] [--at-once 128] [--tls-share 0.05] [--seed 18]

A node in a process of its own, with a listener of SASL_PLAINTEXT and one of SASL_SSL. Strangers connect to both, send
what an honest client would with a wrong password, mostly mutated, in frames whose length may lie, and wait for an
answer, for the end of the connection, or for nothing. Beside them librdkafka, logged in over TLS, writes a record each
20 ms. It fails if that client sees an error, somebody gets in, the node meets a bug or ends, or its memory grows by
more than GROWTH_MAX_MIB after the first tenth of the frames; figures of time are the reader's to judge.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import ssl
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
from confluent_kafka import Producer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.hostile_node import HostileNode, hostile_node
from support.logins import MECHANISMS, PASSWORDS
from support.processes import Cluster, free_ports
from support.strangers import frames_of, mutated
from support.tls import Authority

from penstock.config.jaas import PLAIN_MODULE
from penstock.protocol import frames
from penstock.protocol.api import APIS, ApiKey

MIB = 1 << 20
GROWTH_MAX_MIB = 64
PATIENCE_S = 0.5
"""How long a stranger waits that waits: longer than a failed login is answered after."""
EVERY_S = 0.02
REPORT_EVERY = 50_000
"""Frames between two lines of the report."""


class Secured:
    """Ports and settings of the node's two listeners."""

    def __init__(self, directory: Path) -> None:
        self.plain_port, self.tls_port = free_ports(2)
        store = Authority(directory).store("node")
        self.trust = store.trust
        users = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
        listeners = f",PLAIN_LOGIN://127.0.0.1:{self.plain_port},TLS_LOGIN://127.0.0.1:{self.tls_port}"
        self.lines = [
            "listener.security.protocol.map="
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,PLAIN_LOGIN:SASL_PLAINTEXT,TLS_LOGIN:SASL_SSL",
            f"sasl.enabled.mechanisms={','.join(MECHANISMS)}",
            *(
                f"listener.name.{listener}.plain.sasl.jaas.config={PLAIN_MODULE} required {users};"
                for listener in ("plain_login", "tls_login")
            ),
            *(f"{name}={text}" for name, text in store.properties().items() if "keystore" in name),
        ]
        self._listeners = listeners

    def of_node(self, cluster: Cluster) -> None:
        """Writes them into the node's properties, before it starts."""
        lines = cluster.file(1).read_text().splitlines()
        named = ("listeners=", "advertised.listeners=")
        lines = [each + self._listeners if each.startswith(named) else each for each in lines]
        cluster.file(1).write_text("\n".join([*lines, *self.lines]) + "\n")


class Honest:
    """A client that is logged in and writes: how long each record took, and what went wrong."""

    def __init__(self, secured: Secured) -> None:
        self.took_ms: list[float] = []
        self.errors: list[str] = []
        self._producer = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{secured.tls_port}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": PASSWORDS["alice"],
                "ssl.ca.location": str(secured.trust),
                "linger.ms": 0,
                "error_cb": lambda error: self.errors.append(str(error)),
                "log_level": 0,
            }
        )
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._ends.is_set():
            started_s = time.perf_counter()

            def delivered(error: object, _: object, started_s: float = started_s) -> None:
                self.took_ms.append((time.perf_counter() - started_s) * 1000)
                if error is not None:
                    self.errors.append(str(error))

            self._producer.produce("t", b"honest", on_delivery=delivered)
            while (left_s := started_s + EVERY_S - time.perf_counter()) > 0:
                self._producer.poll(left_s)
        if self._producer.flush(30):
            self.errors.append("records were never acknowledged")


class Strangers:
    """All that mean no good. `sent` counts frames, `answers` bytes that came back, `let_in` answers of Metadata."""

    def __init__(self, secured: Secured, options: argparse.Namespace) -> None:
        self.sent = self.connections = self.answers = 0
        self.let_in: list[bytes] = []
        self._options = options
        self._secured = secured
        self._random = Random(options.seed)
        self._context = ssl.create_default_context(cafile=str(secured.trust))

    async def attack(self, until: int) -> None:
        """Until so many frames are sent."""
        await asyncio.gather(*(self._attack(until) for _ in range(self._options.at_once)))

    async def _attack(self, until: int) -> None:
        while self.sent < until:
            with suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
                await self._connect()

    async def _connect(self) -> None:
        random = self._random
        over_tls = random.random() < self._options.tls_share
        port = self._secured.tls_port if over_tls else self._secured.plain_port
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=self._context if over_tls else None)
        self.connections += 1
        try:
            for honest in frames_of(random):
                frame = mutated(honest, random)
                size = len(frame) if random.random() < 0.95 else random.choice((0, 1, len(frame) + 9, 2**31 - 1))
                writer.write(size.to_bytes(4, "big") + frame)
                self.sent += 1
            await writer.drain()
            if random.random() < 0.3:
                with suppress(TimeoutError):
                    async with asyncio.timeout(PATIENCE_S):
                        await self._hear(reader)
        finally:
            writer.transport.abort()

    async def _hear(self, reader: asyncio.StreamReader) -> None:
        """Reads answers to the end. One of Metadata would say that somebody is in."""
        while True:
            size = int.from_bytes(await reader.readexactly(4), "big")
            answer = await reader.readexactly(size)
            self.answers += 1
            if says_metadata(answer):
                self.let_in.append(answer)


def says_metadata(answer: bytes) -> bool:
    """Whether an answer is to the Metadata request, whose correlation id no other has."""
    if answer[:4] != b"\0\0\0\4":
        return False
    with suppress(Exception):
        return bool(frames.decode_response(APIS[ApiKey.METADATA], 9, memoryview(bytearray(answer)))[1].brokers)
    return False


def quantile(values: list[float], share: float) -> float:
    """The value that `share` of all stay below."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))] if values else 0.0


def measure(node: HostileNode, secured: Secured, options: argparse.Namespace) -> list[str]:
    """Attacks, and prints what was noticed; what must not be is returned."""
    strangers, resident = Strangers(secured, options), [node.process.memory_info().rss]
    early = resident[0]
    with Honest(secured) as honest:
        time.sleep(2)
        quiet = [*honest.took_ms]
        honest.took_ms.clear()
        print(f"quiet: {len(quiet)} records, p50 {quantile(quiet, 0.5):.1f} ms, p99 {quantile(quiet, 0.99):.1f} ms")
        print(
            f"{'frames':>10} {'connections':>12} {'a second':>9} {'p50 ms':>7} {'p99':>7} {'most':>8}    memory  load"
        )
        started_s, before = time.monotonic(), 0
        for until in range(min(REPORT_EVERY, options.frames), options.frames + 1, REPORT_EVERY):
            asyncio.run(strangers.attack(until))
            took, took_s = [*honest.took_ms], time.monotonic() - started_s
            honest.took_ms.clear()
            resident.append(node.process.memory_info().rss)
            if until <= max(REPORT_EVERY, options.frames // 10):
                early = max(early, resident[-1])
            times = f"{quantile(took, 0.5):7.1f} {quantile(took, 0.99):7.1f} {max(took, default=0):8.1f}"
            rate = (strangers.sent - before) / took_s
            print(
                f"{strangers.sent:10} {strangers.connections:12} {rate:9.0f} {times} {resident[-1] / MIB:5.0f} MiB"
                f"  {os.getloadavg()[0]:.1f}",
                flush=True,
            )
            started_s, before = time.monotonic(), strangers.sent
    memory = f"memory {resident[0] / MIB:.0f} MiB at first, {max(resident) / MIB:.0f} at most"
    print(f"{strangers.answers} answers were heard; {memory}")
    wrong = [f"the honest client saw {error}" for error in honest.errors]
    wrong += [f"somebody got in: {answer[:40]!r}" for answer in strangers.let_in]
    wrong += [f"{name} {count:.0f}" for name, count in node.bugs().items()]
    if max(resident) - early > GROWTH_MAX_MIB * MIB:
        wrong.append(f"memory grew from {early / MIB:.0f} to {max(resident) / MIB:.0f} MiB")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--frames", type=int, default=1_000_000)
    parser.add_argument("--at-once", type=int, default=128)
    parser.add_argument("--tls-share", type=float, default=0.05, help="of the connections that are over TLS")
    parser.add_argument("--seed", type=int, default=18)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        secured = Secured(Path(directory))
        with hostile_node(Path(directory) / "node", before=secured.of_node) as node:
            wrong = measure(node, secured, options)
            left = [each for each in psutil.net_connections("tcp") if each.pid == node.process.pid and each.raddr]
            print(f"connections that the node still has: {len(left)}")
    print("\n".join(wrong) or "nothing that must not be")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
