"""Connections that wait cost nothing and nobody else their place: by thousands, with TLS, and between nodes."""

from __future__ import annotations

import asyncio
import os
import selectors
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer
from interop.clients.wire import Wire
from interop.quotas.doors import CLIENTS, NODES, OUTSIDE_S, PROTOCOLS, VERSIONS, WINDOWS, Caller
from interop.quotas.limited import PRODUCE_VERSION, of_bytes
from support.heard import until_heard
from support.processes import Cluster, free_ports, wait_until
from support.tls import Authority, ssl_listeners

from penstock.client.admin import Change, ConfigOperation, Resource, ResourceType, alter_configs
from penstock.client.client import Client
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.server.server import Server
from penstock.testing.broker import LocalBroker

pytestmark = pytest.mark.slow

CROWD = 1_000
GREEDY, QUIET = "127.0.0.2", "127.0.0.1"
BACKLOG = {"socket.listen.backlog.size": str(2 * CROWD)}
LISTENERS = f"{CLIENTS}://127.0.0.1:0,{NODES}://127.0.0.1:0,CONTROLLER://127.0.0.1:0"


def set_limits(bootstrap: str, limits: Mapping[str, str | None], broker: str = "") -> None:
    """Sets dynamic configs of one broker or all, or deletes them (None); in force when this returns."""

    async def set_them() -> None:
        async with Client(bootstrap) as client:
            changes = [
                Change(name, ConfigOperation.DELETE if value is None else ConfigOperation.SET, value)
                for name, value in limits.items()
            ]
            await alter_configs(client, Resource(ResourceType.BROKER, broker), changes)

    asyncio.run(set_them())
    until_heard(bootstrap)


def server_of(broker: LocalBroker) -> Server:
    assert broker._embedded is not None
    assert broker._embedded.server is not None
    return broker._embedded.server


@contextmanager
def crowd(address: str, source: str, first: bytes = VERSIONS) -> Iterator[list[socket.socket]]:
    """A thousand connections from one address, each of which says something as soon as it is made."""
    host, _, port = address.rpartition(":")
    made = []
    try:
        for _ in range(CROWD):
            sock = socket.create_connection((host, int(port)), 20, (source, 0))
            made.append(sock)
            try:
                sock.sendall(first)
            except (BrokenPipeError, ConnectionResetError):
                continue  # it was refused
        yield made
    finally:
        for sock in made:
            sock.close()


def open_of(sockets: list[socket.socket], within_s: float) -> tuple[int, int]:
    """How many of the connections are answered, and how many are closed, after a while."""
    answered, closed = set(), set()
    until_s = time.monotonic() + within_s
    with selectors.DefaultSelector() as selector:
        for sock in sockets:
            selector.register(sock, selectors.EVENT_READ)
        while (left_s := until_s - time.monotonic()) > 0:
            for key, _ in selector.select(left_s):
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                try:
                    found = sock.recv(1_000)
                except ConnectionResetError:
                    found = b""
                (answered if found else closed).add(sock)
                if not found:
                    selector.unregister(sock)
    return len(answered - closed), len(closed)


@pytest.fixture
def broker() -> Iterator[LocalBroker]:
    with LocalBroker({**WINDOWS, **PROTOCOLS, **BACKLOG, "listeners": LISTENERS}) as broker:
        yield broker


def test_a_thousand_connections_to_a_full_listener_wait_outside(broker: LocalBroker) -> None:
    set_limits(broker.addresses[NODES], {"listener.name.clients.max.connections": "20"})
    shell = server_of(broker).shell
    with crowd(broker.addresses[CLIENTS], GREEDY) as sockets:
        assert open_of(sockets, 2 * OUTSIDE_S) == (20, 0)
        assert len(shell.connections) == 20
        assert len(os.listdir("/proc/self/fd")) < CROWD + 500, "this process has the clients' ends and no others"
        with Caller(broker.addresses[NODES]) as another:
            assert another.answered()
    with Caller(broker.addresses[CLIENTS]) as late:
        assert late.answered(), "who waited is gone"


@pytest.mark.parametrize("spelling", [GREEDY, f"::ffff:{GREEDY}", "[::FFFF:7f00:2]", "127.2"])
def test_a_thousand_connections_of_one_address_leave_room_for_others(broker: LocalBroker, spelling: str) -> None:
    limits = {"max.connections.per.ip.overrides": f"{spelling}:10", "max.connections": "50"}
    set_limits(broker.addresses[NODES], limits)
    with crowd(broker.addresses[CLIENTS], GREEDY) as sockets:
        assert open_of(sockets, OUTSIDE_S) == (10, CROWD - 10)
        with Caller(broker.addresses[CLIENTS]) as quiet:
            assert quiet.answered()
    set_limits(broker.addresses[NODES], {"max.connections.per.ip.overrides": None})
    with crowd(broker.addresses[CLIENTS], GREEDY) as sockets:
        assert open_of(sockets, OUTSIDE_S) == (50, 0), "the limit of one broker, and no other"


def test_a_rate_holds_against_who_connects_again_and_again(broker: LocalBroker) -> None:
    set_limits(broker.addresses[NODES], {"max.connection.creation.rate": "50"}, broker="1")
    callers, until_s = 0, time.monotonic() + 4
    while time.monotonic() < until_s:
        with Caller(broker.addresses[CLIENTS]) as caller:
            assert caller.answered()
        callers += 1
    assert callers <= 50 * (4 + 2) * 1.1, "those of four seconds and those that may come at once"
    assert callers >= 50 * 4 * 0.8


def test_a_producer_of_librdkafka_waits_and_then_produces(broker: LocalBroker) -> None:
    broker.create_topic("waited")
    name = "listener.name.clients.max.connections"
    with Caller(broker.addresses[CLIENTS]) as first:
        assert first.answered()
        set_limits(broker.addresses[NODES], {name: "1"})
        reports: list[object] = []
        producer = Producer({"bootstrap.servers": broker.addresses[CLIENTS]})
        producer.produce("waited", b"value", on_delivery=lambda error, _: reports.append(error))
        assert producer.flush(2 * OUTSIDE_S) == 1
        set_limits(broker.addresses[NODES], {name: "10"})
        assert producer.flush(30) == 0
    assert reports == [None]


def hello() -> bytes:
    """The first message of a TLS handshake."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing).do_handshake()
    return outgoing.read()


def test_a_handshake_that_waits_has_not_begun(tmp_path: Path) -> None:
    store = Authority(tmp_path).store("node")
    settings = {**ssl_listeners(), **BACKLOG, **store.properties(), "listener.name.ssl.max.connections": "1"}
    with LocalBroker(settings) as broker, ExitStack() as stack:
        address, server = broker.addresses["SSL"], server_of(broker)
        context = ssl.create_default_context(cafile=str(store.trust))
        host, _, port = address.rpartition(":")
        first = stack.enter_context(socket.create_connection((host, int(port)), 20))
        first_tls = stack.enter_context(context.wrap_socket(first, server_hostname=host))
        second = stack.enter_context(socket.create_connection((host, int(port)), 20))
        with crowd(address, QUIET, hello()) as sockets:
            assert open_of(sockets, OUTSIDE_S) == (0, 0)
            assert server._tls is not None
            assert (len(server.shell.connections), server._tls.handshake_steps) == (1, 0)
        first_tls.close()
        with context.wrap_socket(second, server_hostname=host) as second_tls:
            second_tls.sendall(VERSIONS)
            assert second_tls.recv(4)


def test_nodes_come_back_where_clients_have_all_the_places(tmp_path: Path) -> None:
    places = 6
    cluster = Cluster(
        tmp_path,
        min_insync_replicas=3,
        default_replication_factor=3,
        max_connections=places,
    )
    inside = dict(zip(cluster.ports, free_ports(3), strict=True))
    for id_, port in cluster.ports.items():
        text = cluster.file(id_).read_text()
        both = f"{CLIENTS}://127.0.0.1:{port},{NODES}://127.0.0.1:{inside[id_]}"
        more = {**PROTOCOLS, "listener.name.nodes.max.connections": "1000"}
        cluster.file(id_).write_text(
            text.replace(f"PLAINTEXT://127.0.0.1:{port}", both)
            + "".join(f"{name}={value}\n" for name, value in more.items())
        )
    with cluster, ExitStack() as stack:
        nodes = {id_: f"127.0.0.1:{port}" for id_, port in inside.items()}
        with Wire(nodes[1]) as wire:
            topic = CreatableTopic(name="kept", num_partitions=3, replication_factor=3)
            assert wire.ask(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics[0].error_code == 0
        until_heard(",".join(nodes.values()))
        for port in cluster.ports.values():
            for _ in range(3 * places):
                stack.enter_context(Caller(f"127.0.0.1:{port}"))
        cluster.kill(2)
        cluster.start(2)
        cluster.wait_ready(2)
        for _ in range(3 * places):
            stack.enter_context(Caller(f"127.0.0.1:{cluster.ports[2]}"))

        def all_in_sync() -> bool:
            with Wire(nodes[1]) as wire:
                answer = wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="kept")]), 9)
                parts = answer.topics[0].partitions
                if {len(each.isr_nodes) for each in parts} != {3}:
                    return False
                leader = {each.partition_index: each.leader_id for each in parts}[0]
            with Wire(nodes[leader]) as wire:
                answered = wire.ask(of_bytes("kept", 100, acks=-1), PRODUCE_VERSION)
            return bool(answered.responses[0].partition_responses[0].error_code == 0)

        wait_until(all_in_sync, "all replicas are in sync, although clients have all the places")
