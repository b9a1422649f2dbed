"""Whose turn it is: tenants, however many connections they have, and the nodes of the cluster before all of them."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
from support.broker import Client, Node
from support.logins import logged_in, secured
from support.requests import batch, fetch, list_offsets, produce, wanted

from penstock.log.disk import FileSlice
from penstock.node.cold_reads import ColdRead
from penstock.node.connection import Connection
from penstock.node.limits import (
    BYTES_PER_SHARE_MS,
    CLIENT_IDS_PER_ADDRESS_MAX,
    CONNECTION_SHARE_MS,
    LONG_REQUESTS_OF_TENANT_MAX,
    TENANT_SHARE_MS,
    TURN_WORK_MS,
)
from penstock.node.tenants import ADDRESS, CLIENT_ID, NODES, USER, Tenants
from penstock.security.authorizer import Principal

from .test_turns import World

CONTROLLER = "CONTROLLER"


def connection_of(number: int, address: str = "10.0.0.1", *, user: str = "", listener: str = "L") -> Connection:
    made = Connection(number, listener, f"{address}:1000", max_in_flight=5, max_in_flight_bytes=1_000)
    if user:
        made.principal = Principal("User", user)
    return made


def key_of(connection: Connection) -> tuple[str, str]:
    assert connection.tenant is not None
    return connection.tenant.key


# The share of a tenant


def test_a_quiet_tenant_waits_for_one_turn_of_a_greedy_one_with_200_connections() -> None:
    world = World()
    greedy = [world.connect("a") for _ in range(200)]
    quiet = world.connect("b")
    for connection in greedy:
        world.send(connection, *[1] * 20)
    for _ in range(100):
        world.turns.turn_ended()
        for connection in greedy:
            world.send(connection, 1)
        world.executed.clear()
        world.send(quiet, 1)
        waited = quiet.id not in world.executed
        world.turns.serve()
        world.turns.turn_ended()
        world.turns.serve()
        before = world.executed.index(quiet.id)
        assert before <= (TURN_WORK_MS + 1 if waited else 0)
        assert greedy[0].waiting


def test_the_tenants_get_the_same_whatever_the_number_of_their_connections() -> None:
    world = World()
    many, one = [world.connect("a") for _ in range(200)], world.connect("b")
    for connection in many:
        world.send(connection, *[1] * 100)
    world.send(one, *[1] * 900)
    spent = {"a": 0, "b": 0}
    for _ in range(100):
        for number in world.turn():
            spent["b" if number == one.id else "a"] += 1
        assert abs(spent["a"] - spent["b"]) <= TENANT_SHARE_MS + TURN_WORK_MS
    assert spent["b"] > 200


def test_the_connections_of_a_tenant_get_the_same() -> None:
    world = World()
    greedy = [world.connect("a") for _ in range(10)]
    for connection in greedy:
        world.send(connection, *[1] * 100)
    world.send(world.connect("b"), *[1] * 900)
    for _ in range(50):
        world.turn()
    waiting = [len(connection.waiting) for connection in greedy]
    assert max(waiting) - min(waiting) <= 2 * CONNECTION_SHARE_MS


def test_bytes_count_beside_time() -> None:
    """Writing and sending them is done after the request has executed, and takes time from everybody."""
    world = World()
    large, small = world.connect("a"), world.connect("b")
    world.turns._execute = lambda connection, frame: world.executed.append(connection.id)  # no time at all
    world.send(large, *[BYTES_PER_SHARE_MS] * 40)
    world.send(small, *[BYTES_PER_SHARE_MS // 8] * 400)
    while world.turns.waiting:
        world.turns.turn_ended()
        world.turns.serve()
    shares_ms = {large.id: 0.0, small.id: 0.0}
    for number in world.executed:
        shares_ms[number] += 1 if number == large.id else 1 / 8
        assert abs(shares_ms[large.id] - shares_ms[small.id]) <= 2 * TENANT_SHARE_MS
    assert shares_ms == {large.id: 40, small.id: 50}


def test_the_answers_of_a_fetch_count(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    client.ask(produce("t", batch(b"x" * 100_000)), 9)
    client.ask(fetch("t", wanted(offset=9), max_wait_ms=0), 11)
    tenant = node.broker.connections[client.number].tenant
    assert tenant is not None
    spent: list[float] = []
    charge = node.broker.dispatcher.turns._charge
    monkeypatch.setattr(
        node.broker.dispatcher.turns,
        "_charge",
        lambda connection, tenant, spent_ms, size: spent.append(size) or charge(connection, tenant, spent_ms, size),  # type: ignore[func-returns-value]
    )
    answer = client.ask(fetch("t", wanted(offset=0)), 11)
    (found,) = answer.responses[0].partitions
    assert sum(each.length if isinstance(each, FileSlice) else len(each) for each in [found.records]) > 100_000
    assert max(spent) > 100_000


def test_long_work_of_one_tenant_leaves_places_to_others() -> None:
    world = World()
    greedy = [world.connect("a") for _ in range(200)]
    for connection in greedy:
        world.work(connection, 50)
    while sum(connection.in_line for connection in greedy) > LONG_REQUESTS_OF_TENANT_MAX:
        world.turn()
    quiet = world.connect("b")
    world.work(quiet, 3)
    turns = 0
    while quiet.holds:
        world.turn()
        turns += 1
    assert turns <= 2
    assert sum(not connection.holds for connection in greedy) == 0


def test_a_connection_that_names_ever_new_client_ids_gains_nothing() -> None:
    world = World()
    rogue, honest = world.connect(), world.connect("b")
    ids = iter(range(1_000_000))
    plain = world.execute

    def execute(connection: Connection, frame: memoryview) -> None:
        if connection is rogue:
            world.turns.tenants.named(connection, f"id-{next(ids)}")
        plain(connection, frame)

    world.turns._execute = execute
    world.send(rogue, *[1] * 900)
    world.send(honest, *[1] * 900)
    spent = {rogue.id: 0, honest.id: 0}
    for _ in range(100):
        for number in world.turn():
            spent[number] += 1
    assert spent[rogue.id] <= 1.2 * spent[honest.id]


def test_nodes_do_not_wait_for_tenants() -> None:
    world = World()
    node, greedy = world.connect(), [world.connect("a") for _ in range(50)]
    world.turns.tenants.is_node(node)
    for connection in greedy:
        world.send(connection, *[3] * 20)
    assert world.turns.spent_ms >= TURN_WORK_MS
    for _ in range(10):
        world.executed.clear()
        world.send(node, 1)
        assert world.executed == [node.id], "whatever clients have executed in this turn"
        world.send(node, *[1] * 3)
        world.turns.serve()
        assert world.executed.index(node.id, 2) == 2, "and before them"
        world.turns.turn_ended()


def test_nodes_leave_clients_their_turn() -> None:
    world = World()
    node, client = world.connect(), world.connect("a")
    world.turns.tenants.is_node(node)
    world.send(node, *[1] * 500)
    world.send(client, *[1] * 100)
    for _ in range(20):
        executed = world.turn()
        assert executed.count(client.id) in range(TURN_WORK_MS, TURN_WORK_MS + 3) or not client.waiting
        assert executed.count(node.id) in range(TURN_WORK_MS, TURN_WORK_MS + 3)


# Who is a tenant


def test_a_user_is_one_tenant_with_all_its_client_ids_and_addresses() -> None:
    tenants = Tenants()
    connections = [connection_of(number, f"10.0.0.{number}", user="alice") for number in range(5)]
    for connection in connections:
        tenants.named(connection, f"id-{connection.id}")
    assert {key_of(connection) for connection in connections} == {(USER, "User:alice")}
    assert len(tenants.kept) == 1


def test_anonymous_clients_are_tenants_by_client_id() -> None:
    tenants = Tenants()
    one, two, other = connection_of(1), connection_of(2, "10.0.0.2"), connection_of(3)
    assert tenants.arrived(one).key == (ADDRESS, "10.0.0.1")
    tenants.named(one, "web")
    tenants.named(two, "web")
    tenants.named(other, None)
    assert one.tenant is two.tenant
    assert (key_of(one), key_of(other)) == ((CLIENT_ID, "web"), (CLIENT_ID, ""))


def test_an_address_wins_no_shares_by_1_000_client_ids() -> None:
    tenants = Tenants()
    rogues = [connection_of(number) for number in range(1_000)]
    for connection in rogues:
        tenants.named(connection, f"id-{connection.id}")
    elsewhere = connection_of(2_000, "10.0.0.2")
    tenants.named(elsewhere, "web")
    assert len({key_of(connection) for connection in rogues}) == CLIENT_IDS_PER_ADDRESS_MAX + 1
    assert [key_of(connection) for connection in rogues].count((ADDRESS, "10.0.0.1")) == (
        1_000 - CLIENT_IDS_PER_ADDRESS_MAX
    )
    assert key_of(elsewhere) == (CLIENT_ID, "web")
    tenants.left(rogues[0])
    late = connection_of(3_000)
    tenants.named(late, "late")
    assert key_of(late) == (CLIENT_ID, "late"), "there is room again"


def test_nothing_is_kept_of_tenants_without_connections() -> None:
    tenants = Tenants()
    connections = [connection_of(number, user="alice" if number % 3 == 0 else "") for number in range(100)]
    for connection in connections:
        for turn in range(3):
            tenants.named(connection, f"id-{connection.id}-{turn}")
    tenants.is_node(connections[1])
    assert tenants.kept
    for connection in connections:
        tenants.left(connection)
        tenants.left(connection)
    assert (tenants.kept, tenants.client_ids) == ({}, {})


def test_20_000_client_ids_take_1_kib_each_and_nothing_when_they_are_gone() -> None:
    count = 20_000
    tenants = Tenants()
    connections = [connection_of(number, f"10.0.{number >> 8}.{number & 255}") for number in range(count)]
    names = [f"client-{number}" for number in range(count)]
    gc.collect()
    tracemalloc.start()
    try:
        for connection, name in zip(connections, names, strict=True):
            tenants.named(connection, name)
        assert len(tenants.kept) == count
        assert tracemalloc.get_traced_memory()[0] <= 1_024 * count
        for connection in connections:
            tenants.left(connection)
        connections.clear()
        del connection
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] <= 128 * count, "dicts keep their size for a while"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("listener", ["PLAINTEXT", CONTROLLER])
def test_whoever_comes_to_a_controller_listener_is_a_node(listener: str) -> None:
    connection = connection_of(1, listener=listener)
    Tenants([CONTROLLER]).named(connection, "web")
    assert key_of(connection)[0] == (NODES if listener == CONTROLLER else CLIENT_ID)


# In a broker


def tenant_of(node: Node, client: Client) -> tuple[str, str]:
    return key_of(node.broker.connections[client.number])


def test_who_has_logged_in_is_a_tenant_by_its_user() -> None:
    node = secured()
    before = node.connect("SASL_PLAINTEXT")
    client = logged_in(node, "alice")
    assert tenant_of(node, client) == (ADDRESS, "127.0.0.1"), "it has only logged in so far"
    client.ask(list_offsets("t", (0, -1)), 7)
    assert tenant_of(node, client) == (USER, "User:alice")
    assert node.broker.connections[before.number].tenant is None


def test_clients_of_a_broker_are_tenants_by_their_client_ids_and_forgotten_when_they_go() -> None:
    node = Node()
    node.create_topic("t")
    clients = [node.connect() for _ in range(3)]
    for number, client in enumerate(clients):
        client.ask(list_offsets("t", (0, -1)), 7, f"id-{number // 2}")
    assert [tenant_of(node, client) for client in clients] == [(CLIENT_ID, f"id-{number // 2}") for number in range(3)]
    tenants = node.broker.dispatcher.turns.tenants
    assert len(tenants.kept) == 2
    for client in clients:
        node.broker.disconnected(client.number, node.now_ms)
    assert (tenants.kept, tenants.client_ids) == ({}, {})


@pytest.mark.parametrize("allowed", [True, False])
def test_who_may_fetch_as_a_follower_is_a_node(allowed: bool) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    request: Any = fetch("t", wanted(offset=0), max_wait_ms=0)
    request.replica_id = 7
    if not allowed:
        node.acls.refused = lambda operation, resource, name: True
    client.ask(request, 11)
    assert (tenant_of(node, client)[0] == NODES) == allowed


@pytest.mark.parametrize("node_asks", [False, True])
def test_a_cold_read_waits_in_a_lane_in_its_tenants_turn(node_asks: bool) -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    client.ask(produce("t", batch(b"x" * 100)), 9, "web")
    if node_asks:
        node.broker.dispatcher.turns.tenants.is_node(node.broker.connections[client.number])
    node.disks[0].cold = True
    node.held = lambda operation: isinstance(operation, ColdRead)
    client.send(list_offsets("t", (0, 1)), 7, "web")
    (read,) = node.waiting_operations
    assert (read.tenant, read.size_bytes > 0) == (None if node_asks else (CLIENT_ID, "web"), True)
    assert node.broker.tenant_of(client.number) == read.tenant
    node.let_go()
    node.settle()
    assert client.receive().topics[0].partitions[0].error_code == 0
