"""Two nodes alike, one of Penstock and one of Apache Kafka, each with a listener for clients and one for nodes, whose
limits on connections Kafka's own kafka-configs changes; and connections that say whether they have come in.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Self

from interop.clients.wire import request_frame
from interop.kafka_peer import KafkaPeer
from interop.tools.toolbox import CONFIGS, Outcome, Toolbox
from support.heard import until_heard
from support.processes import free_ports

from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.testing.broker import LocalBroker

CLIENTS, NODES = "CLIENTS", "NODES"
ANSWERED_S, OUTSIDE_S = 20.0, 0.7
"""How long a connection that comes in may take to be answered, and how long one that waits is watched."""
WINDOWS = {"quota.window.num": "3", "quota.window.size.seconds": "1"}
PROTOCOLS = {
    "listener.security.protocol.map": f"{CLIENTS}:PLAINTEXT,{NODES}:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": NODES,
}
VERSIONS = request_frame(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)


class Caller:
    """A connection that the operating system has made, and that has sent a request."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), ANSWERED_S)
        self.socket.sendall(VERSIONS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def answered(self, within_s: float = ANSWERED_S) -> bool:
        """Whether the request is answered in time."""
        self.socket.settimeout(within_s)
        try:
            head = self.socket.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                return False
            size = struct.unpack(">i", head)[0]
            return len(self.socket.recv(size, socket.MSG_WAITALL)) == size
        except (TimeoutError, ConnectionError):
            return False

    def again(self) -> None:
        """Sends another request, and waits for its answer."""
        self.socket.sendall(VERSIONS)
        assert self.answered()

    def closed(self, within_s: float = ANSWERED_S) -> bool:
        """Whether the other side closes the connection in time."""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True


class Doors(NamedTuple):
    """One of the nodes: its name, the addresses of its listeners, and how its configs are changed."""

    name: str
    clients: str
    nodes: str
    tools: Toolbox

    def alter(self, *words: object) -> Outcome:
        """One run of kafka-configs, for all brokers."""
        return self.tools.run(CONFIGS, self.nodes, "--alter", "--entity-type", "brokers", "--entity-default", *words)

    def set_limits(self, limits: Mapping[str, object]) -> None:
        """Sets dynamic configs, in force when this returns."""
        done = self.alter("--add-config", ",".join(f"{name}={value}" for name, value in limits.items()))
        assert done.status == 0, done
        until_heard(self.nodes)

    @contextmanager
    def limited(self, limits: Mapping[str, object]) -> Iterator[None]:
        """Limits for the time of the block."""
        self.set_limits(limits)
        try:
            yield
        finally:
            done = self.alter("--delete-config", ",".join(limits))
            assert done.status == 0, done
            until_heard(self.nodes)


class KafkaWithDoors(KafkaPeer):
    """A node of Apache Kafka with two listeners for clients; one network thread each, so that one looks for the
    connection that has been idle longest.
    """

    def __init__(self) -> None:
        self.client_port, self.node_port, self.quorum_port = free_ports(3)
        ports = {CLIENTS: self.client_port, NODES: self.node_port, "CONTROLLER": self.quorum_port}
        super().__init__(
            properties={
                **WINDOWS,
                **PROTOCOLS,
                "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
                "controller.quorum.voters": f"1@127.0.0.1:{self.quorum_port}",
                "num.network.threads": 1,
            }
        )

    def write_configuration(self) -> None:
        super().write_configuration()
        self.port = self.node_port


@contextmanager
def kafka_doors(tools: Toolbox) -> Iterator[Doors]:
    with KafkaWithDoors() as kafka:
        yield Doors("kafka", f"127.0.0.1:{kafka.client_port}", f"127.0.0.1:{kafka.node_port}", tools)


@contextmanager
def penstock_doors(tools: Toolbox, **more: str) -> Iterator[Doors]:
    listeners = f"{CLIENTS}://127.0.0.1:0,{NODES}://127.0.0.1:0,CONTROLLER://127.0.0.1:0"
    with LocalBroker({**WINDOWS, **PROTOCOLS, "listeners": listeners, **more}) as broker:
        yield Doors("penstock", broker.addresses[CLIENTS], broker.addresses[NODES], tools)


def took_s(address: str, connections: int) -> float:
    """How long so many connections take, one after the other, to be answered each; they are closed at the end."""
    began_s = time.monotonic()
    callers = []
    for _ in range(connections):
        callers.append(Caller(address))
        assert callers[-1].answered(), f"{len(callers)} of {connections}"
    lasted_s = time.monotonic() - began_s
    for caller in callers:
        caller.socket.close()
    return lasted_s
