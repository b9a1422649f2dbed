"""A node's key store is replaced again and again, one time in three by what is no use, while clients come and write.

librdkafka writes over mTLS all along, and new connections are made all along. None of them sees an error; what is good
is in use for the next connection; what is bad is reported once and changes nothing; and memory stays as it is.

The listener is the one between brokers, so that a key of a foreign authority is bad, too: its peers would not trust it.
"""

from __future__ import annotations

import re
import signal
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from cryptography import x509
from cryptography.x509.oid import NameOID
from support.processes import Cluster, free_ports, wait_until
from support.tls import Authority, KeyStore, write_at_once

MIB = 1 << 20
GROWTH_MAX_BYTES = 24 * MIB
"""What the process may grow by after the first quarter of the changes."""
NODE = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "node")])
EVERY_S = 0.005
REFUSED = "changed keys or trust cannot be used; the old ones stay"


class Keys:
    """Key stores of the node, good and bad, as the texts of PEM files."""

    def __init__(self, directory: Path) -> None:
        for name in ("own", "other"):
            (directory / name).mkdir(parents=True)
        self.authority = Authority(directory / "own")
        self._foreign = Authority(directory / "other")
        self._bad: list[Callable[[], str]] = [self.half, self.wrong_key, self.expired, self.foreign]
        self._turn = 0

    def good(self) -> KeyStore:
        return self.authority.store("made", subject=NODE)

    def bad(self) -> str:
        """One kind after the other."""
        self._turn += 1
        return self._bad[self._turn % len(self._bad)]()

    def half(self) -> str:
        """Of which the end is still to be written."""
        text = self.good().pem.read_text()
        return text[: len(text) * 2 // 3]

    def wrong_key(self) -> str:
        return self.good().key_pem + self.good().certificate_pem

    def expired(self) -> str:
        return self.authority.store("made", subject=NODE, ends=timedelta(hours=-1)).pem.read_text()

    def foreign(self) -> str:
        """Of another authority of the same name."""
        return self._foreign.store("made", subject=NODE).pem.read_text()


class Node:
    """A node, its key store, and what it tells of its changes."""

    def __init__(self, cluster: Cluster, store: Path, port: int, metrics_port: int) -> None:
        self.cluster, self.store, self.port = cluster, store, port
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"

    def replace(self, text: str) -> tuple[float, float]:
        """Writes another key store, has the node look, and waits until it has. How many changes were taken, and not."""
        before = sum(self.counts())
        write_at_once(self.store, text.encode())
        self.cluster.signal(1, signal.SIGHUP)
        wait_until(lambda: sum(self.counts()) > before, "the node looks at its key store")
        return self.counts()

    def counts(self) -> tuple[float, float]:
        with urllib.request.urlopen(self._metrics, timeout=30) as answer:
            text = answer.read().decode()
        found = dict(re.findall(r"^(penstock_tls_reloads(?:_failed)?_total) (\S+)$", text, re.MULTILINE))
        return float(found["penstock_tls_reloads_total"]), float(found["penstock_tls_reloads_failed_total"])

    @property
    def resident_bytes(self) -> int:
        found: int = psutil.Process(self.cluster.processes[1].pid).memory_info().rss
        return found


@contextmanager
def running(directory: Path, keys: Keys) -> Iterator[Node]:
    """The node; its only listener for clients wants certificates."""
    store = directory / "node.pem"
    store.write_bytes(keys.good().pem.read_bytes())
    port, metrics_port = free_ports(2)
    cluster = Cluster(
        directory / "nodes",
        1,
        penstock_metrics_listener=f"127.0.0.1:{metrics_port}",
        offsets_topic_replication_factor=1,
    )
    lines = cluster.file(1).read_text().replace(f"PLAINTEXT://127.0.0.1:{cluster.ports[1]}", f"SSL://localhost:{port}")
    security = {
        "security.inter.broker.protocol": "SSL",
        "ssl.client.auth": "required",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": store,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": keys.authority.trust,
    }
    cluster.file(1).write_text(lines + "".join(f"{name}={value}\n" for name, value in security.items()))
    with cluster:
        yield Node(cluster, store, port, metrics_port)


class Load:
    """Clients all along: one that writes, and one after the other that connects. `errors` are what went wrong."""

    def __init__(self, node: Node, own: KeyStore) -> None:
        self.errors: list[str] = []
        self.written = self.connected = 0
        self._node = node
        self._context = ssl.create_default_context(cafile=str(own.trust))
        self._context.load_cert_chain(str(own.pem))
        self._librdkafka = {
            "bootstrap.servers": f"localhost:{node.port}",
            "security.protocol": "SSL",
            "ssl.ca.location": str(own.trust),
            "ssl.certificate.location": str(own.pem),
            "ssl.key.location": str(own.pem),
            "log_level": 0,
        }
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._connect)]

    def __enter__(self) -> Load:
        admin = AdminClient(self._librdkafka)
        for done in admin.create_topics([NewTopic("clicks", 1, 1)]).values():
            done.result(30)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()

    def _write(self) -> None:
        def delivered(error: object, _: object) -> None:
            self.written += 1
            if error is not None:
                self.errors.append(f"a record: {error}")

        told = {"error_cb": lambda error: self.errors.append(f"the producer: {error}"), "linger.ms": 0}
        producer = Producer({**self._librdkafka, **told})
        while not self._ends.is_set():
            producer.produce("clicks", b"click", on_delivery=delivered)
            producer.poll(EVERY_S)
        if producer.flush(30):
            self.errors.append("records were not acknowledged")

    def _connect(self) -> None:
        while not self._ends.is_set():
            try:
                self.serial()
            except OSError as error:
                self.errors.append(f"a new connection: {error!r}")
            self.connected += 1
            time.sleep(EVERY_S)

    def serial(self) -> int:
        """Connects, with the node's certificate and host name checked; its number."""
        return x509.load_der_x509_certificate(handshake(self._context, self._node.port)).serial_number


def handshake(context: ssl.SSLContext, port: int) -> bytes:
    """What the other side shows."""
    with (
        socket.create_connection(("localhost", port), 30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        found = secured.getpeercert(binary_form=True)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "changes",
    [pytest.param(12, marks=pytest.mark.slow), pytest.param(200, marks=pytest.mark.long)],
)
def test_no_client_notices_and_the_last_good_one_is_in_use(tmp_path: Path, changes: int) -> None:
    keys, random = Keys(tmp_path / "keys"), Random(18)
    taken, refused, resident = 0, 0, []
    bad_turns = {turn for first in range(0, changes, 3) for turn in [first + random.randrange(3)]}
    with running(tmp_path, keys) as node, Load(node, keys.authority.store("alice")) as load:
        in_use = load.serial()
        for turn in range(changes):
            if turn in bad_turns:
                refused += 1
                assert node.replace(keys.bad()) == (taken, refused)
            else:
                taken += 1
                good = keys.good()
                assert node.replace(good.pem.read_text()) == (taken, refused)
                assert good.certificate.serial_number != in_use
                in_use = good.certificate.serial_number
            assert load.serial() == in_use
            resident.append(node.resident_bytes)
        log = node.cluster.log(1)
    assert load.errors == []
    assert load.written > 5 * changes
    assert load.connected > changes
    assert log.count(REFUSED) == refused == len(range(0, changes, 3))
    growth = max(resident) - max(resident[: max(1, changes // 4)])
    assert growth < GROWTH_MAX_BYTES, f"{growth / MIB:.0f} MiB"
