"""Who executes when: connections share the loop by what their requests take, and long work makes room."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.broker import Client, Node
from support.requests import batch, list_offsets, produce

from penstock.errors import NotResident
from penstock.node.connection import Connection, Work
from penstock.node.limits import (
    CONNECTION_SHARE_MS,
    LEAVING_CONNECTIONS_MAX,
    LONG_REQUESTS_MAX,
    LONG_REQUESTS_OF_TENANT_MAX,
    PARTITIONS_PER_STEP,
    TURN_WORK_MS,
)
from penstock.node.turns import COUNTED_READING_MS, Turns
from penstock.protocol.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from penstock.security.authorizer import Principal


class World:
    """Connections whose frames take as long as their length says, in milliseconds."""

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.executed: list[int] = []
        self.reads: list[tuple[Work, NotResident]] = []
        self.left: list[int] = []
        self.turns = Turns(
            self.execute,
            lambda work, missing: self.reads.append((work, missing)),
            lambda: self.now_ms,
            self.leave,
        )
        self._numbers = iter(range(1, 1_000_000))

    def execute(self, connection: Connection, frame: memoryview) -> None:
        self.now_ms += len(frame)
        self.executed.append(connection.id)

    def leave(self, connection: Connection) -> None:
        self.left.append(connection.id)
        connection.closed = True
        self.turns.forget(connection)

    def connect(self, user: str = "") -> Connection:
        """A connection of a user, or of somebody of whom nothing is known but the address."""
        number = next(self._numbers)
        connection = Connection(number, "L", "127.0.0.1:1", max_in_flight=1_000, max_in_flight_bytes=1 << 30)
        if user:
            connection.principal = Principal("User", user)
        return connection

    def send(self, connection: Connection, *durations_ms: int) -> None:
        for duration_ms in durations_ms:
            self.turns.execute(connection, memoryview(bytes(duration_ms)))

    def turn(self) -> list[int]:
        """What a further turn executes."""
        self.turns.turn_ended()
        self.executed.clear()
        self.turns.serve()
        return list(self.executed)

    def work(self, connection: Connection, steps: int, cost_ms: float = 0.5) -> None:
        def go() -> Iterator[NotResident | None]:
            for _ in range(steps):
                self.now_ms += cost_ms
                self.executed.append(connection.id)
                yield None

        self.turns.begin(connection, go())


def test_a_connection_executes_at_once_until_its_share_is_used_up() -> None:
    world = World()
    greedy = world.connect()
    world.send(greedy, *[1] * 10)
    assert len(world.executed) == CONNECTION_SHARE_MS
    assert world.turns.waiting
    while world.turns.waiting:
        assert len(world.turn()) <= TURN_WORK_MS
    assert not greedy.waiting


def test_who_asks_for_little_never_waits_for_those_who_ask_for_much() -> None:
    world = World()
    greedy = [world.connect() for _ in range(20)]
    quiet = world.connect()
    for connection in greedy:
        world.send(connection, *[1] * 50)
    while world.turns.waiting:
        world.turns.turn_ended()
        world.executed.clear()
        world.send(quiet, 0)
        assert world.executed == [quiet.id]
        world.turns.serve()


def test_those_who_ask_for_much_get_as_much_as_each_other() -> None:
    """Also when the requests of some take longer than a share."""
    world = World()
    small, large = world.connect(), world.connect()
    world.send(large, *[20] * 50)
    world.send(small, *[1] * 900)
    spent_ms = {small.id: 0, large.id: 0}
    while small.waiting and large.waiting:
        for number in world.turn():
            spent_ms[number] += 1 if number == small.id else 20
        assert abs(spent_ms[small.id] - spent_ms[large.id]) <= 20 + CONNECTION_SHARE_MS


def test_a_new_connection_is_served_before_those_that_had_their_share() -> None:
    world = World()
    greedy = [world.connect() for _ in range(20)]
    for connection in greedy:
        world.send(connection, *[1] * 20)
    while greedy[-1].id not in world.turn():
        pass
    new = world.connect()
    world.send(new, 1)
    assert new.id not in world.executed, "the turn is over"
    assert new.id in world.turn()


def test_many_new_ones_do_not_starve_those_that_had_their_share() -> None:
    world = World()
    greedy = world.connect()
    world.send(greedy, *[1] * 20)
    while greedy.waiting:
        world.turns.turn_ended()
        for _ in range(10):
            world.send(world.connect(), 1)
        world.executed.clear()
        world.turns.serve()
        assert greedy.id in world.executed


def test_with_nobody_else_about_debts_are_forgotten() -> None:
    world = World()
    alone = world.connect()
    world.send(alone, 1_000, 1, 1)
    assert len(world.turn()) == 2


def test_frames_keep_their_order_behind_long_work() -> None:
    world = World()
    connection = world.connect()
    world.work(connection, 3)
    world.send(connection, 0)
    assert world.turn() == [connection.id] * 3
    assert (connection.holds, list(connection.waiting)) == (0, [])


def test_long_work_makes_room_after_every_step() -> None:
    world = World()
    long, quiet = world.connect(), world.connect()
    world.work(long, 100, cost_ms=1)
    turns = 0
    while world.turns.waiting:
        turns += 1
        world.turns.turn_ended()
        world.send(quiet, 0)
        world.executed.clear()
        world.turns.serve()
        assert len(world.executed) <= TURN_WORK_MS
    assert turns >= 100 / TURN_WORK_MS


@pytest.mark.parametrize(("tenants", "bound"), [(1, LONG_REQUESTS_OF_TENANT_MAX), (20, LONG_REQUESTS_MAX)])
def test_only_so_much_long_work_is_under_way(tenants: int, bound: int) -> None:
    world = World()
    connections = [world.connect(f"user {number % tenants}") for number in range(LONG_REQUESTS_MAX + 2)]
    for connection in connections:
        world.work(connection, 50)
    begun = executed = set[int]()
    while all(connection.holds for connection in connections):
        begun = begun | executed
        executed = set(world.turn())
    assert begun == {connection.id for connection in connections[:bound]}
    while world.turns.waiting:
        world.turn()
    assert not any(connection.holds for connection in connections)


@pytest.mark.parametrize("closed", ["under way", "waiting for a place"])
def test_a_closed_connection_gives_its_place_to_another(closed: str) -> None:
    world = World()
    connections = [world.connect() for _ in range(LONG_REQUESTS_MAX + 2)]
    for connection in connections:
        world.work(connection, 50)
    gone = connections[0] if closed == "under way" else connections[LONG_REQUESTS_OF_TENANT_MAX]
    gone.closed = True
    world.turns.forget(gone)
    while world.turns.waiting:
        world.turn()
    assert [connection.id for connection in connections if connection.holds] == ([gone.id] if gone.holds else [])


def test_work_that_waits_for_the_disk_goes_on_where_it_was() -> None:
    world = World()
    connection = world.connect()
    seen: list[str] = []

    def go() -> Iterator[NotResident | None]:
        seen.append("before")
        yield NotResident(0, "f", 0, 10)
        seen.append("after")

    world.turns.begin(connection, go())
    world.send(connection, 0)
    assert (seen, world.executed) == (["before"], [])
    ((work, missing),) = world.reads
    assert missing.path == "f"
    world.turns.resume(work)
    world.turn()
    assert (seen, world.executed) == (["before", "after"], [connection.id])


def test_what_has_come_is_executed_though_the_connection_is_closed_since() -> None:
    world = World()
    gone = world.connect()
    world.send(gone, *[1] * 20)
    assert gone.waiting
    world.turns.leave(gone)
    executed = len(world.executed)
    while world.turns.waiting:
        assert not world.left
        executed += len(world.turn())
    assert (executed, world.left) == (20, [gone.id])


def test_a_connection_of_which_nothing_waits_is_left_at_once() -> None:
    world = World()
    gone = world.connect()
    world.turns.leave(gone)
    assert world.left == [gone.id]


@pytest.mark.parametrize("reads", [False, True])
def test_a_connection_is_left_when_its_work_is_done(reads: bool) -> None:
    world = World()
    gone = world.connect()
    if reads:
        world.turns.begin(gone, iter([NotResident(0, "f", 0, 10)]))
    else:
        world.work(gone, 3)
    world.turns.leave(gone)
    assert not world.left
    if reads:
        world.turn()
        world.turns.resume(world.reads[0][0])
    while world.turns.waiting:
        world.turn()
    assert world.left == [gone.id]


def test_a_connection_is_left_when_nothing_holds_its_last_request() -> None:
    world = World()
    gone = world.connect()
    gone.holds = 1
    world.turns.leave(gone)
    assert not world.left
    gone.holds = 0
    world.turns.proceed(gone)
    assert world.left == [gone.id]


def test_of_too_many_that_are_leaving_the_oldest_is_left() -> None:
    world = World()
    gone = [world.connect() for _ in range(LEAVING_CONNECTIONS_MAX + 1)]
    for connection in gone:
        world.send(connection, *[1_000] * 2)
        world.turns.leave(connection)
    assert world.left == [gone[0].id]
    while world.turns.waiting:
        world.turn()
    assert sorted(world.left) == [connection.id for connection in gone]


# In a broker


def answered_in_turns(node: Node, client: Client) -> int:
    """How many turns of the loop it takes until a client has an answer."""
    turns = 0
    while not client.answers:
        node.broker.tick(node.now_ms)
        node.run()
        turns += 1
    return turns


def of_partitions(count: int) -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count)]
    return ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def test_a_quiet_client_is_answered_at_once_beside_a_request_of_many_partitions() -> None:
    node = Node()
    node.create_topic("t")
    greedy, quiet = node.connect(), node.connect()
    count = 20_000
    node.broker.received(greedy.number, memoryview(greedy.frame(of_partitions(count), 7)), node.now_ms)
    node.run()
    turns = 0
    while not greedy.answers:
        node.broker.received(quiet.number, memoryview(quiet.frame(list_offsets("t", (0, -1)), 7)), node.now_ms)
        node.run()
        assert quiet.receive().topics[0].partitions[0].offset == 0
        node.broker.tick(node.now_ms)
        node.run()
        turns += 1
    assert turns >= count / PARTITIONS_PER_STEP * COUNTED_READING_MS / TURN_WORK_MS
    answers = greedy.receive().topics[0].partitions
    assert [each.partition_index for each in answers] == list(range(count))


def test_a_quiet_client_is_answered_at_once_beside_a_flood() -> None:
    node = Node()
    node.create_topic("t")
    greedy, quiet = node.connect(), node.connect()
    for _ in range(2_000):
        node.broker.received(greedy.number, memoryview(greedy.frame(list_offsets("t", (0, -1)), 7)), node.now_ms)
    node.run()
    assert greedy.paused
    assert len(greedy.answers) <= CONNECTION_SHARE_MS / COUNTED_READING_MS + 1
    node.broker.received(quiet.number, memoryview(quiet.frame(list_offsets("t", (0, -1)), 7)), node.now_ms)
    node.run()
    assert quiet.receive().topics[0].partitions[0].offset == 0
    node.settle()
    assert len(greedy.answers) == 2_000
    assert not greedy.paused


@pytest.mark.parametrize("in_steps", [False, True])
def test_who_produces_without_answers_and_closes_has_produced(in_steps: bool) -> None:
    node = Node()
    count = 2 * PARTITIONS_PER_STEP
    node.create_topic("t", partitions=count)
    gone, other = node.connect(), node.connect()
    requests = [produce("t", batch(), acks=0, first=index) for index in range(count)]
    if in_steps:
        requests = [produce("t", *(batch() for _ in range(count)), acks=0)]
    for request in requests:
        node.broker.received(gone.number, memoryview(gone.frame(request, 9)), node.now_ms)
    assert node.broker.dispatcher.turns.waiting
    node.broker.disconnected(gone.number, node.now_ms)
    node.settle()
    answer = other.ask(list_offsets("t", *((index, -1) for index in range(count))), 7)
    assert {each.offset for each in answer.topics[0].partitions} == {1}
    assert gone.number not in node.broker.connections
