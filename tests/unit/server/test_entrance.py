"""Connections come in through real listeners, wait before them, and make room for those of nodes."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.config.listeners import Endpoint
from penstock.config.server import Settings
from penstock.quota.admission import ConnectionLimits, ListenerLimit
from penstock.server.entrance import connection_limits
from penstock.server.listener import Listener
from penstock.server.metrics import entrance_samples
from penstock.server.transport import plain

CLIENTS, NODES = "CLIENTS", "NODES"
HELLO = b"\0\0\0\2hi"


class Doors:
    """Two listeners of a world, and the clients that have connected to them."""

    def __init__(self, world: Any, limits: ConnectionLimits) -> None:
        self.world = world
        self.entrance = world.shell.entrance
        self.entrance.configure(limits)
        self.listeners = {name: Listener(Endpoint(name, "PLAINTEXT", "127.0.0.1", 0)) for name in (CLIENTS, NODES)}
        for listener in self.listeners.values():
            listener.serve(world.shell, 2_000)
        self.sockets: list[socket.socket] = []

    def connect(self, listener: str = CLIENTS) -> socket.socket:
        """A connection that the operating system has made; whether it is accepted is another matter."""
        client = socket.create_connection(("127.0.0.1", self.listeners[listener].endpoint.port), 5)
        client.sendall(HELLO)
        client.setblocking(False)
        self.sockets.append(client)
        return client

    def served(self, client: socket.socket) -> bool:
        with contextlib.suppress(BlockingIOError):
            return client.recv(6, socket.MSG_PEEK) == HELLO
        return False

    def closed(self, client: socket.socket) -> bool:
        try:
            return client.recv(100) == b""
        except BlockingIOError:
            return False
        except ConnectionResetError:  # what it had sent was not read
            return True

    def wait_until_served(self, *clients: socket.socket) -> None:
        self.world.run_until(lambda: all(map(self.served, clients)))

    def close(self) -> None:
        for client in self.sockets:
            client.close()
        for listener in self.listeners.values():
            listener.stop_accepting()


@pytest.fixture
def doors(make_world: Callable[..., Any]) -> Iterator[Callable[..., Doors]]:
    made: list[Doors] = []

    def make(limits: ConnectionLimits, **world_limits: Any) -> Doors:
        made.append(Doors(make_world(**world_limits), limits))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_full_listener_leaves_connections_outside_until_one_closes(
    doors: Callable[..., Doors], caplog: pytest.LogCaptureFixture
) -> None:
    of = doors(ConnectionLimits(listeners={CLIENTS: ListenerLimit(2)}))
    first, second, third = [of.connect() for _ in range(3)]
    with caplog.at_level(logging.WARNING):
        of.wait_until_served(first, second)
        of.world.settle(50)
    assert not of.served(third)
    assert caplog.text.count("connections wait until others close") == 1
    assert list(of.entrance.waiting) == [CLIENTS]
    of.wait_until_served(of.connect(NODES))
    first.close()
    of.wait_until_served(third)
    assert of.entrance.refused == 0


def test_a_thousand_that_wait_hold_nothing(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(listeners={CLIENTS: ListenerLimit(2)}))
    of.wait_until_served(of.connect(), of.connect())
    before = descriptors()
    for _ in range(1_000):
        of.connect()
    of.world.settle(100)
    assert len(of.world.shell.connections) == 2
    assert descriptors() - before == 1_000, "the clients' own ends"
    of.wait_until_served(of.connect(NODES))


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else len(os.listdir("/dev/fd"))


def test_raised_limits_let_in_who_waits(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(connections_max=1))
    clients = [of.connect() for _ in range(3)]
    of.wait_until_served(clients[0])
    of.world.settle(50)
    assert not any(map(of.served, clients[1:]))
    of.entrance.configure(ConnectionLimits())
    of.wait_until_served(*clients)


def test_who_has_been_idle_longest_makes_room_for_a_node(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(connections_max=3, protected=NODES))
    clients = [of.connect() for _ in range(3)]
    of.wait_until_served(*clients)
    for number, connection in enumerate(of.world.shell.connections.values()):
        connection.active_ms = of.world.clock.now_ms() - (5_000, 60_000, 1_000)[number]
    of.wait_until_served(of.connect(NODES))
    of.world.run_until(lambda: len(of.world.shell.connections) == 3)
    assert [of.served(clients[0]), of.served(clients[2]), of.entrance.made_room] == [True, True, 1]
    clients[1].recv(6)
    of.world.run_until(lambda: of.closed(clients[1]))
    assert of.world.node.lost, "the node is told"


def test_who_is_being_closed_goes_before_who_is_idle(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(connections_max=2, protected=NODES))
    first, second = of.connect(), of.connect()
    of.wait_until_served(first, second)
    leaving = list(of.world.shell.connections.values())[1]
    leaving.active_ms += 10_000
    leaving.close_reason = "it has said enough"
    of.wait_until_served(of.connect(NODES))
    assert leaving.closed


def test_a_lowered_limit_closes_what_is_too_many_in_several_turns(
    doors: Callable[..., Doors], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.server.entrance.EXCESS_CLOSED_PER_TURN", 3)
    of = doors(ConnectionLimits(protected=NODES))
    of.wait_until_served(*(of.connect() for _ in range(10)), *(of.connect(NODES) for _ in range(2)))
    of.entrance.configure(ConnectionLimits(connections_max=4, protected=NODES))
    assert len(of.world.shell.connections) == 9
    of.world.run_until(lambda: len(of.world.shell.connections) == 4)
    of.world.settle(50)
    kept = of.world.shell.connections.values()
    assert sorted(each.listener for each in kept) == [CLIENTS] * 2 + [NODES] * 2
    of.entrance.configure(ConnectionLimits(connections_max=1, protected=NODES))
    of.world.settle(50)
    assert [each.listener for each in of.world.shell.connections.values()] == [NODES] * 2, "nodes are never closed"


def test_without_descriptors_clients_make_room_for_nodes(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(protected=NODES), connections_max=2)
    clients = [of.connect() for _ in range(3)]
    of.wait_until_served(*clients[:2])
    of.world.settle(50)
    assert not of.served(clients[2])
    nodes = [of.connect(NODES), of.connect(NODES)]
    of.wait_until_served(*nodes)
    assert [each.listener for each in of.world.shell.connections.values()] == [NODES] * 2
    third = of.connect(NODES)
    of.world.run_until(lambda: of.closed(third))
    assert of.entrance.refused == 1


def test_a_rate_makes_connections_wait_and_they_all_come_in(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(listeners={CLIENTS: ListenerLimit(per_second=10)}))
    began_ms = of.world.clock.now_ms()
    clients = [of.connect() for _ in range(103)]
    connected_ms = of.world.clock.now_ms() - began_ms
    of.wait_until_served(*clients[:100])
    of.wait_until_served(*clients)
    assert of.world.clock.now_ms() - began_ms >= 300
    assert of.entrance.admission.listeners[CLIENTS].throttle_ms >= 290 - connected_ms
    assert not of.entrance.waiting


def test_who_is_above_the_rate_of_its_address_takes_no_place(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(connections_max=1, per_second=1))
    of.world.node.delay_ms = 20
    refused = [of.connect() for _ in range(20)]
    of.world.run_until(lambda: all(map(of.closed, refused)))
    counts = of.entrance.admission.listeners[CLIENTS]
    assert (counts.connections, counts.throttle_ms, counts.address_throttle_ms) == (0, 0, 400)
    of.world.node.delay_ms = 0
    of.wait_until_served(of.connect())


def test_tls_begins_for_those_that_come_in(make_world: Callable[..., Any]) -> None:
    begun: list[str] = []

    def transport(listener: str, sock: socket.socket, name: str | None) -> Any:
        begun.append(listener)
        return plain(listener, sock, name)

    of = Doors(make_world(transport_of=transport), ConnectionLimits(listeners={CLIENTS: ListenerLimit(1)}))
    of.wait_until_served(of.connect())
    for _ in range(20):
        of.connect()
    of.world.settle(50)
    assert begun == [CLIENTS]
    of.close()


def test_a_listener_that_stops_is_waited_for_no_longer(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(listeners={NODES: ListenerLimit(0), CLIENTS: ListenerLimit(per_second=1)}))
    of.connect(NODES)
    of.wait_until_served(*(of.connect() for _ in range(10)))
    of.connect()
    of.world.run_until(lambda: len(of.entrance.waiting) == 2)
    for listener in of.listeners.values():
        listener.stop_accepting()
    assert not of.entrance.waiting
    assert not of.entrance._timers


def test_metrics_have_a_series_for_each_listener(doors: Callable[..., Doors]) -> None:
    of = doors(ConnectionLimits(listeners={CLIENTS: ListenerLimit(1), NODES: ListenerLimit()}, protected=NODES))
    of.wait_until_served(of.connect(), of.connect(NODES))
    of.connect()
    of.world.run_until(lambda: bool(of.entrance.waiting))
    samples = list(entrance_samples(of.entrance, of.world.shell.now_ms))
    found = {(each.name, each.labels.get("listener")): each.value for each in samples}
    prefix = "kafka_server_socketservermetrics"
    assert found[f"{prefix}_connection_count", CLIENTS] == found[f"{prefix}_connection_count", NODES] == 1
    assert found["penstock_connections_waiting", CLIENTS] == 1
    assert found["penstock_connections_waiting", NODES] == 0
    assert found[f"{prefix}_connection_accept_rate", NODES] == pytest.approx(0.1, rel=0.1)
    assert found[f"{prefix}_broker_connection_accept_rate", None] == pytest.approx(0.2, rel=0.1)
    assert found[f"{prefix}_connection_accept_throttle_time_total", CLIENTS] == 0
    assert found[f"{prefix}_ip_connection_accept_throttle_time_total", CLIENTS] == 0
    names = [each.name for each in samples]
    assert names == [name for name in dict.fromkeys(names) for _ in range(names.count(name))], "families together"


# What settings say

LISTENERS = {
    "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "CLIENTS:PLAINTEXT,NODES:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "NODES",
}


def test_a_listener_has_the_brokers_limits_unless_it_has_its_own() -> None:
    settings = Settings.for_node(
        **{
            **LISTENERS,
            "max.connections": "100",
            "listener.name.clients.max.connections": "7",
            "listener.name.controller.max.connection.creation.rate": "3",
        }
    )
    limits = connection_limits(settings)
    assert (limits.connections_max, limits.protected, limits.apart) == (100, NODES, {"CONTROLLER"})
    assert limits.listeners == {
        CLIENTS: ListenerLimit(7),
        NODES: ListenerLimit(100),
        "CONTROLLER": ListenerLimit(per_second=3),
    }
    changed = settings.with_dynamic(
        {"max.connection.creation.rate": "50", "listener.name.clients.max.connections": "8"},
        {"listener.name.nodes.max.connection.creation.rate": "60", "max.connections.per.ip": "9"},
    )
    limits = connection_limits(changed)
    assert limits.listeners[CLIENTS] == ListenerLimit(8, 50)
    assert limits.listeners[NODES] == ListenerLimit(100, 60)
    assert (limits.per_second, limits.of_address_max) == (50, 9)


def test_one_listener_for_all_is_not_protected() -> None:
    assert connection_limits(Settings.for_node()).protected is None
