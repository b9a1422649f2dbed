"""A real node and clients that speak to its sockets byte by byte, as those do that mean no good."""

from __future__ import annotations

import re
import socket
import struct
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from penstock.node.handlers import registry
from penstock.node.request import Handler
from penstock.protocol import frames
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from support.hostile import NAME
from support.processes import Cluster, free_ports

PATIENCE_S = 60.0
"""How long a client waits for the end of what it began, before it says that nobody answers."""
HANDLERS = registry()


def framed(handler: Handler, version: int, message: Message, correlation_id: int, client_id: str | None = "x") -> bytes:
    """A request as it stands on the wire."""
    chunks = frames.encode_request(handler.api, version, correlation_id, client_id, message)
    return b"".join(bytes(chunk) for chunk in chunks)  # type: ignore[arg-type]


class HostileClient:
    """One connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)

    def __enter__(self) -> HostileClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, requests: Sequence[bytes]) -> list[bytes]:
        """Sends requests in one go, and gives the answers up to the last, or to the end of the connection."""
        return list(self.answers(b"".join(requests), len(requests)))

    def answers(self, data: bytes, count: int) -> Iterator[bytes]:
        """The answers as they come, while the rest is still being sent."""
        self.socket.settimeout(0.001)
        sent, received = memoryview(data), bytearray()
        while count:
            try:
                if sent:
                    sent = sent[self.socket.send(sent[: 1 << 18]) :]
                    self.socket.settimeout(0.001 if sent else PATIENCE_S)
            except TimeoutError:
                pass
            except OSError:
                return
            try:
                piece = self.socket.recv(1 << 20)
            except TimeoutError:
                assert sent, f"{count} requests have no answer, and the connection is open"
                continue
            except OSError:
                return
            if not piece:
                return
            received += piece
            while len(received) >= 4 and len(received) >= 4 + (size := struct.unpack_from(">i", received)[0]):
                yield bytes(received[4 : 4 + size])
                del received[: 4 + size]
                count -= 1


class HostileNode:
    """The node, in a process of its own; with a topic and a group of the name `NAME`."""

    def __init__(self, cluster: Cluster, metrics_port: int) -> None:
        self.cluster = cluster
        self._metrics_port = metrics_port

    def connect(self, listener: str = "broker") -> HostileClient:
        ports = self.cluster.ports if listener == "broker" else self.cluster.controller_ports
        return HostileClient(ports[1])

    def ask(self, handler: Handler, version: int, message: Message, client_id: str | None = "x") -> int:
        """Sends a request over a connection of its own. How many answers came: none if the connection was closed."""
        listener = "broker" if "broker" in handler.api.listeners else "controller"
        with self.connect(listener) as client:
            return len(client.ask([framed(handler, version, message, 1, client_id)]))

    def serves(self) -> bool:
        """Whether a client that means well is served."""
        requests = [(ApiVersionsRequest(), 0), (MetadataRequest(topics=[]), 8)]
        with self.connect() as client:
            sent = [framed(HANDLERS[each.KEY], version, each, 1) for each, version in requests]  # type: ignore[index]
            return len(client.ask(sent)) == len(requests)

    @property
    def process(self) -> psutil.Process:
        return psutil.Process(self.cluster.processes[1].pid)

    @property
    def most_resident_bytes(self) -> int:
        """The most memory that it ever had."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def metrics(self) -> dict[str, float]:
        """The figures, by name and labels."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics", timeout=PATIENCE_S) as answer:
            lines: Iterable[str] = answer.read().decode().splitlines()
        samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
        return {name: float(value) for name, _, value in samples}

    def bugs(self) -> dict[str, float]:
        """Bugs that it has counted."""
        return {name: value for name, value in self.metrics().items() if "bugs_total" in name and value}


@contextmanager
def hostile_node(
    directory: Path, *, before: Callable[[Cluster], None] = lambda _: None, **settings: object
) -> Iterator[HostileNode]:
    """Starts one, and stops it. `before` may change its properties before it starts."""
    (port,) = free_ports(1)
    settings = {
        "penstock_metrics_listener": f"127.0.0.1:{port}",
        "offsets_topic_num_partitions": 1,
        "offsets_topic_replication_factor": 1,
        **settings,
    }
    made = Cluster(directory, combined=1, **settings)
    before(made)
    with made as cluster:
        node = HostileNode(cluster, port)
        topic = CreatableTopic(name=NAME, num_partitions=1, replication_factor=1)
        assert node.ask(HANDLERS[CreateTopicsRequest.KEY], 7, CreateTopicsRequest(topics=[topic]))  # type: ignore[index]
        assert node.ask(HANDLERS[FindCoordinatorRequest.KEY], 1, FindCoordinatorRequest(key=NAME))  # type: ignore[index]
        yield node
