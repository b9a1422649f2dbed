"""Turns, whatever clients do: nobody starves, tenants share evenly, connections keep their order, nothing is kept."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import NotResident
from penstock.node.connection import Connection, Work
from penstock.node.limits import TENANT_SHARE_MS
from penstock.node.turns import Turns
from penstock.security.authorizer import Principal

QUIET = "99"
LONGEST_MS = 8
"""The longest request."""
LATE = 2
"""Requests of one that has used its share that execute in each turn in any case, one of each kind of connections."""
PASSES = 3
"""Shares of a tenant that may lie between two greedy ones at most: one that it has not had yet, one that it had early,
and what a request takes beyond one."""


class World:
    """Connections of users and of anonymous clients; a frame's first byte says how long it takes, the next ones which
    of its connection it is."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.executed: list[tuple[Connection, int]] = []
        self.reads: list[Work] = []
        self.spent_ms: dict[str, float] = defaultdict(float)
        self.sent: dict[Connection, int] = defaultdict(int)
        self.turns = Turns(self.execute, lambda work, missing: self.reads.append(work), lambda: self.now_ms, self.gone)
        self.connections: list[Connection] = []
        self.at_start: dict[str, float] = {}

    def connect(self, tenant: int, address: int) -> None:
        number = len(self.connections)
        made = Connection(number, "L", f"10.0.0.{address}:1", max_in_flight=9_999, max_in_flight_bytes=1 << 30)
        if tenant % 2:
            made.principal = Principal("User", f"user {tenant}")
        made.software_name = f"{tenant}"
        self.connections.append(made)

    def send(self, connection: Connection, length_ms: int) -> None:
        if not connection.closed:
            number = self.sent[connection]
            self.sent[connection] += 1
            self.turns.execute(connection, memoryview(bytes([length_ms]) + number.to_bytes(4, "big")))

    def execute(self, connection: Connection, frame: memoryview) -> None:
        if connection.principal.name == "ANONYMOUS":
            self.turns.tenants.named(connection, connection.software_name)
        if connection.software_name == QUIET:
            self.at_start = dict(self.spent_ms)
        self.now_ms += frame[0]
        self.spent_ms[connection.software_name] += frame[0]
        self.executed.append((connection, int.from_bytes(frame[1:], "big")))
        if frame[0] == LONGEST_MS:
            self.turns.begin(connection, self.steps(connection))

    def steps(self, connection: Connection) -> Iterator[NotResident | None]:
        yield None
        for _ in range(3):
            self.now_ms += 1
            yield None
        yield NotResident(0, "f", 0, 1)
        self.now_ms += 1

    def gone(self, connection: Connection) -> None:
        connection.closed = True
        connection.waiting.clear()
        self.turns.forget(connection)

    def happens(self, what: str, which: int, value: int) -> None:
        """One of the events."""
        if what == "connect":
            self.connect(which, value)
        elif what == "turn":
            self.turn()
        elif self.connections and not (connection := self.connections[which % len(self.connections)]).closed:
            if what == "send":
                self.send(connection, value)
            elif what == "lose":
                self.gone(connection)
            elif what == "leave":
                self.turns.leave(connection)
            elif not connection.in_line:
                self.turns.tenants.is_node(connection)

    def turn(self) -> None:
        self.turns.turn_ended()
        reads, self.reads = self.reads, []
        for work in reads:
            self.turns.resume(work)
        self.turns.serve()


TENANT = st.integers(0, 5)
EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("connect"), TENANT, st.integers(0, 2)),
        st.tuples(st.just("send"), st.integers(0, 40), st.sampled_from([0, 1, 1, 1, 3, LONGEST_MS])),
        st.tuples(st.just("lose"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("leave"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("node"), st.integers(0, 40), st.just(0)),
        st.tuples(st.just("turn"), st.just(0), st.just(0)),
    ),
    max_size=200,
)


@given(EVENTS)
@settings(max_examples=300, deadline=None)
def test_all_is_executed_in_order_and_nothing_is_kept(events: list[tuple[str, int, int]]) -> None:
    world = World()
    for event in events:
        world.happens(*event)
    for _ in range(10_000):
        if not world.turns.waiting and not world.reads:
            break
        world.turn()
    assert not world.turns.waiting
    order: dict[Connection, int] = defaultdict(int)
    for connection, number in world.executed:
        assert number == order[connection], "frames of a connection keep their order"
        order[connection] += 1
    for connection in world.connections:
        assert connection.closed or (order[connection] == world.sent[connection] and not connection.holds)
        assert not connection.in_line or connection.closed
        if not connection.closed:
            world.gone(connection)
    world.turns.turn_ended()
    world.turns.serve()
    tenants = world.turns.tenants
    assert (tenants.kept, tenants.client_ids) == ({}, {})
    for places in world.turns._places.values():
        assert (places.held, places.waiting) == ({}, {})


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=6),
    st.lists(st.sampled_from([1, 2, 3, 7]), min_size=2, max_size=6),
)
@settings(max_examples=100, deadline=None)
def test_greedy_tenants_share_evenly_and_a_quiet_one_never_waits_for_more_than_a_turn(
    connections: list[int], lengths_ms: list[int]
) -> None:
    world = World()
    for tenant, count in enumerate(connections):
        for _ in range(count):
            world.connect(tenant, tenant)
    world.connect(int(QUIET), 99)
    *greedy, quiet = world.connections
    for _ in range(60):
        for connection in greedy:
            while len(connection.waiting) < 2 * TENANT_SHARE_MS:
                world.send(connection, lengths_ms[connection.id % len(lengths_ms)])
        before, world.at_start = dict(world.spent_ms), {}
        world.send(quiet, 1)
        while not world.at_start:
            world.turn()
        passed_ms = sum(spent_ms - before.get(tenant, 0) for tenant, spent_ms in world.at_start.items())
        assert passed_ms <= len(connections) * (TENANT_SHARE_MS + (1 + LATE) * max(lengths_ms))
        world.turn()
        shares = [world.spent_ms[f"{tenant}"] for tenant in range(len(connections))]
        assert max(shares) - min(shares) <= PASSES * (TENANT_SHARE_MS + max(lengths_ms))
