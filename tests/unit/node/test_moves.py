"""Replicas move between the log directories of a node, while they are led, followed, read and written."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any, cast
from uuid import UUID

import pytest
from support.broker import Client, Node
from support.replicated import Cluster
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted
from support.upgraded import content, decoded, kept, put_segments, upgraded

from penstock.errors import ErrorCode
from penstock.log.checkpoints import CLEANER_OFFSET
from penstock.log.directory import LogDirectory
from penstock.log.directory_operations import ReadBytes, SetAside
from penstock.log.disk import Operation
from penstock.log.moving import Moving
from penstock.log.replica import Replica, State
from penstock.metadata.image import ConfigResource
from penstock.node import limits
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.metadata.config_record import ConfigRecord
from penstock.replication.follower import Follower

RECORD_BYTES = 40_000
pytestmark = pytest.mark.usefixtures("way")


def values(node: Node, offset: int = 0) -> list[bytes]:
    """All that a consumer gets, from the log."""
    found: list[bytes] = []
    client = node.connect()
    while True:
        data = partitions_of(client.ask(fetch("t", wanted(offset=offset + len(found))), 12))[0]
        assert data.error_code == 0
        more = values_of(data)
        if not more:
            return found
        found += more


def move(node: Node, path: str, topic: str = "t", index: int = 0) -> ErrorCode:
    topics = [AlterReplicaLogDirTopic(name=topic, partitions=[index])]
    request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
    answer = node.connect().ask(request, 2)
    return ErrorCode(answer.results[0].partitions[0].error_code)


def where(node: Node) -> list[tuple[str, bool]]:
    """Directories in which the replica is, and whether it is on its way there."""
    answer = node.connect().ask(DescribeLogDirsRequest(topics=None), 4)
    return [
        (result.log_dir, partition.is_future_key)
        for result in answer.results
        for topic in result.topics
        for partition in topic.partitions
    ]


def names(node: Node, index: int) -> list[str]:
    return [entry.name for entry in node.disks[index].list("") if entry.is_directory and entry.name.startswith("t-")]


def fill(client: Client, count: int, first: int = 0) -> list[bytes]:
    made = [b"%d" % number + b"." * RECORD_BYTES for number in range(first, first + count)]
    for value in made:
        assert produced(client, "t", batch(value)).error_code == 0
    return made


@pytest.fixture
def node() -> Node:
    """`t` lies in the first of two directories."""
    made = Node(directories=2)
    made.create_topic("t", segment_bytes="1048576")
    made.settle()
    assert where(made) == [("/data/0", False)]
    return made


def assigned(node: Node) -> str:
    registration = node.broker.image.partition("t", 0)
    assert registration is not None
    told = registration.directory(node.broker.node_id)
    return next(each.path for each in node.broker.logs.table.directories if each.id == told)


def moved(node: Node) -> bool:
    return where(node) == [("/data/1", False)] and assigned(node) == "/data/1"


def test_a_replica_moves_with_all_that_it_has(node: Node) -> None:
    expected = fill(node.connect(), 40)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    assert moved(node)
    assert values(node) == expected
    expected += fill(node.connect(), 5, first=40)
    assert values(node) == expected
    node.restart()
    assert moved(node)
    assert values(node) == expected
    node.advance(120_000)
    assert names(node, 0) == []


def test_a_bug_while_a_copy_is_tried_again_ends_no_trying(node: Node) -> None:
    node.bugs_expected = True
    tried: list[int] = []

    class Copy:
        def retry(self, now_ms: int) -> None:
            tried.append(now_ms)
            if len(tried) == 1:
                raise LookupError("a bug")

    node.broker.replication.moves.follower_retries(cast("Follower", Copy()), 100, node.now_ms)
    node.advance(100 + limits.DUTY_PAUSE_MS)
    assert len(tried) == 2


def test_what_is_written_meanwhile_moves_too(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.moves.MOVE_READ_BYTES", 100_000)
    client = node.connect()
    expected = fill(client, 40)
    node.held = lambda operation: isinstance(operation, ReadBytes)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    assert ("/data/1", True) in where(node)
    for number in range(60):
        expected += fill(client, 1, first=40 + number)
        node.let_go()
        node.held = lambda operation: isinstance(operation, ReadBytes)
        node.advance(5)
    node.let_go()
    node.advance(1_000)
    assert moved(node)
    assert values(node) == expected


def test_a_move_ends_though_there_is_always_something_new(node: Node) -> None:
    """Every read is overtaken by an append."""
    client = node.connect()
    expected = fill(client, 20)
    node.held = lambda operation: isinstance(operation, ReadBytes)
    assert move(node, "/data/1") is ErrorCode.NONE
    late: list[Client] = []
    for number in range(40):
        node.advance(5)
        late.append(node.connect())
        late[-1].send(produce("t", batch(b"new %d" % number)), 9)
        expected.append(b"new %d" % number)
        waiting, node.waiting_operations = node.waiting_operations, []
        for operation in waiting:
            held, node.held = node.held, None
            node.operate(operation)
            node.held = held
        node.run()
    assert moved(node)
    assert [each.receive().responses[0].partition_responses[0].base_offset for each in late] == [*range(20, 60)]
    assert values(node) == expected


def test_requests_wait_for_the_swap_and_none_is_lost(node: Node) -> None:
    expected = fill(node.connect(), 3)
    node.held = lambda operation: isinstance(operation, SetAside)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    assert node.waiting_operations
    writer, reader = node.connect(), node.connect()
    writer.send(produce("t", batch(b"late")), 9)
    reader.send(fetch("t", wanted(offset=3), min_bytes=1, max_wait_ms=1_000), 12)
    assert not writer.answers
    assert not reader.answers
    while node.waiting_operations:
        node.let_go()
    assert writer.receive().responses[0].partition_responses[0].base_offset == 3
    node.advance(100)
    assert values_of(partitions_of(reader.receive())[0]) == [b"late"]
    assert values(node) == [*expected, b"late"]


def test_retention_may_look_at_the_old_log_while_the_new_one_closes(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = fill(node.connect(), 4)
    moving = node.broker.logs.moving
    freeze = moving.freeze
    looked: list[State] = []

    def frozen(replica: Replica, closed: Callable[[int], None], now_ms: int) -> None:
        freeze(replica, closed, now_ms)
        main = node.broker.logs.table.find("t", 0)
        if replica.is_future and main is not None:
            looked.append(replica.state)
            assert main.frozen is not None
            main.frozen(now_ms)

    monkeypatch.setattr(moving, "freeze", frozen)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    assert looked == [State.CLOSING]
    assert moved(node)
    assert values(node) == expected


@pytest.mark.parametrize("power_failed", [True, False])
@pytest.mark.parametrize("operations", range(18))
def test_a_crash_at_any_moment_of_a_move_loses_nothing(node: Node, operations: int, power_failed: bool) -> None:
    """And the move is completed after it."""
    node.change([ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name="t", name="flush.messages", value="1")])
    expected = fill(node.connect(), 30)
    before = len(node.ran)
    node.held = lambda operation: len(node.ran) >= before + operations
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(200)
    node.held = None
    node.crash(power_failed=power_failed)
    assert values(node) == expected
    expected += fill(node.connect(), 2, first=30)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    assert moved(node)
    assert values(node) == expected


def copied_bytes(node: Node) -> int:
    """The records that are in the segments of the copy."""
    return sum(
        entry.size_bytes for name in names(node, 1) for entry in node.disks[1].list(name) if entry.name.endswith(".log")
    )


@pytest.mark.parametrize(("clean_offset", "begins_anew"), [(29, True), (1, False)])
def test_a_copy_that_is_older_than_a_pass_of_the_cleaner_begins_anew(
    node: Node, clean_offset: int, begins_anew: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.change([ConfigRecord(resource_type=ConfigResource.TOPIC, resource_name="t", name="flush.messages", value="1")])
    expected = fill(node.connect(), 30)
    node.held = lambda operation: copied_bytes(node) > RECORD_BYTES
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(200)
    assert RECORD_BYTES < copied_bytes(node) < 29 * RECORD_BYTES
    node.held = None
    node.disks[0].replace(CLEANER_OFFSET, b"0\n1\nt 0 %d\n" % clean_offset)
    begun: list[str] = []
    begin = Moving.begin

    def noted(moving: Moving, key: tuple[str, int], topic_id: UUID, directory: LogDirectory) -> None:
        begun.append(directory.path)
        begin(moving, key, topic_id, directory)

    monkeypatch.setattr(Moving, "begin", noted)
    node.crash(power_failed=False)
    node.advance(2_000)
    assert begun == (["/data/1"] if begins_anew else [])
    assert moved(node)
    assert values(node) == expected


@pytest.mark.parametrize("failing", [0, 1])
@pytest.mark.parametrize("at", ["copying", "swapping"])
def test_a_directory_fails_under_a_move(failing: int, at: str) -> None:
    node = Node(directories=3)  # the first has the metadata log
    node.create_topic("u")
    node.create_topic("t")
    node.settle()
    client = node.connect()
    expected = fill(client, 10)
    node.held = lambda operation: isinstance(operation, SetAside if at == "swapping" else ReadBytes)
    assert move(node, "/data/2") is ErrorCode.NONE
    node.advance(100)
    assert node.waiting_operations
    node.broker.logs.fail_directory(failing + 1, OSError(errno.EIO, "broken"), node.now_ms)
    node.let_go()
    node.advance(100)
    if failing == 1 and at == "copying":  # the one that it was to go to
        assert values(node) == expected
        assert assigned(node) == "/data/1"
    elif failing == 0 and at == "copying":
        assert produced(client, "t", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(node.broker.replication.moves) == 0
    elif failing == 0:
        assert values(node) == expected
        assert assigned(node) == "/data/2"
    else:
        assert produced(client, "t", batch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_move_can_be_called_off_and_sent_elsewhere() -> None:
    node = Node(directories=3)
    node.create_topic("t")
    expected = fill(node.connect(), 10)
    node.held = lambda operation: isinstance(operation, ReadBytes)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(100)
    assert move(node, "/data/2") is ErrorCode.NONE
    node.advance(100)
    assert where(node) == [("/data/0", False), ("/data/2", True)]
    assert move(node, "/data/0") is ErrorCode.NONE
    node.let_go()
    node.advance(100)
    assert where(node) == [("/data/0", False)]
    node.advance(120_000)
    assert names(node, 1) == names(node, 2) == []
    assert values(node) == expected


def test_a_topic_is_deleted_under_a_move_and_its_name_begins_anew(node: Node) -> None:
    for held in (ReadBytes, SetAside):
        fill(node.connect(), 10)
        node.held = lambda operation, held=held: isinstance(operation, held)  # type: ignore[misc]
        target = "/data/1" if where(node) == [("/data/0", False)] else "/data/0"
        assert move(node, target) is ErrorCode.NONE
        node.advance(100)
        assert node.waiting_operations
        node.delete_topic("t")
        node.create_topic("t")
        while node.waiting_operations:
            node.let_go()
        node.advance(120_000)
        assert len(node.broker.replication.moves) == 0
        assert values(node) == []
        assert len(names(node, 0)) + len(names(node, 1)) == 1


def test_errors_say_what_is_wrong(node: Node) -> None:
    assert move(node, "/elsewhere") is ErrorCode.LOG_DIR_NOT_FOUND
    assert move(node, "/data/1", topic="x" * 249) is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert move(node, "/data/1", topic="unknown") is ErrorCode.REPLICA_NOT_AVAILABLE
    node.broker.logs.fail_directory(1, OSError(errno.EIO, "broken"), node.now_ms)
    assert move(node, "/data/1") is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_that_comes_later_goes_to_the_directory_asked_for(node: Node) -> None:
    for name in ("a", "b", "c"):
        assert move(node, "/data/1", topic=name) is ErrorCode.REPLICA_NOT_AVAILABLE
        node.create_topic(name)
        assert node.broker.logs.directory_of(name, 0).path == "/data/1"


def test_moves_keep_to_their_throttle(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.moves.MOVE_READ_BYTES", 80_000)
    fill(node.connect(), 60)
    name = "replica.alter.log.dirs.io.max.bytes.per.second"
    node.change([ConfigRecord(resource_type=ConfigResource.BROKER, resource_name="", name=name, value="400000")])
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(3_000)
    copied = node.broker.replication.throttles.moves.bytes
    assert 800_000 <= copied <= 1_800_000
    node.change([ConfigRecord(resource_type=ConfigResource.BROKER, resource_name="", name=name, value=None)])
    node.advance(2_000)
    assert moved(node)


def test_many_moves_take_turns(node: Node) -> None:
    node.add_partitions("t", 20)
    client = node.connect()
    for index in range(20):
        assert produced(client, "t", batch(b"%d" % index), partition=index).error_code == 0
    reads: list[Any] = []
    node.held = lambda operation: isinstance(operation, ReadBytes) and not reads.append(operation)  # type: ignore[func-returns-value]
    for index in range(20):
        assert move(node, "/data/1", index=index) is ErrorCode.NONE
    node.advance(100)
    assert 0 < len(reads) <= limits.MOVES_AT_ONCE_MAX
    node.let_go()
    node.advance(2_000)
    assert where(node) == [("/data/1", False)] * 20


def test_deleted_records_and_a_log_start_are_moved(node: Node) -> None:
    expected = fill(node.connect(), 30)
    partition = node.broker.replicas.in_use("t", 0)
    assert partition is not None
    partition.delete_records(17, node.now_ms)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    assert moved(node)
    assert values(node, 17) == expected[17:]
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    assert log.log_start_offset == 17
    node.restart()
    assert values(node, 17) == expected[17:]


class Replicated:
    """`t` on three nodes with two directories each; node 2 follows."""

    def __init__(self) -> None:
        self.cluster = Cluster(3, directories=2)
        self.cluster.create("t")
        self.cluster.advance(50)
        self.expected: list[bytes] = []
        self.node = self.cluster.nodes[2]

    def write(self, count: int, leader: int = 1) -> None:
        client = self.cluster.client(leader)
        for number in range(count):
            value = b"%d" % (len(self.expected) + number)
            client.send(produce("t", batch(value), acks=-1), 9)
        self.cluster.advance(100)
        for _ in range(count):
            assert client.receive().responses[0].partition_responses[0].error_code == 0
        self.expected += [b"%d" % (len(self.expected) + number) for number in range(count)]

    def begin(self) -> str:
        """Begins to move node 2's replica to its other directory; gives that."""
        here = self.node.broker.logs.directory_of("t", 0).path
        target = "/data/1" if here == "/data/0" else "/data/0"
        assert move(self.node, target) is ErrorCode.NONE
        return target

    def assign(self, path: str) -> None:
        """The controller has heard of the directory."""
        directories = list(self.cluster.registration("t").directories)
        replicas = self.cluster.registration("t").replicas
        found = next(each.id for each in self.node.broker.logs.table.directories if each.path == path)
        assert found is not None
        directories[replicas.index(2)] = found
        self.cluster.change("t", directories=directories)

    def content(self, node_id: int) -> bytes:
        node = self.cluster.nodes[node_id]
        log = node.broker.logs.open_log("t", 0)
        assert log is not None
        return b"".join(node.disks[log.disk.directory].content(segment.log_path) for segment in log.segments.all)


def test_a_follower_moves_while_it_follows() -> None:
    made = Replicated()
    made.write(20)
    target = made.begin()
    made.cluster.advance(100)
    assert made.node.broker.logs.directory_of("t", 0).path != target  # the controller has not heard of it yet
    made.write(20)
    made.assign(target)
    made.cluster.advance(100)
    assert made.node.broker.logs.directory_of("t", 0).path == target
    made.write(20)
    assert made.content(2) == made.content(1)
    assert made.cluster.registration("t").isr == (1, 2, 3)


@pytest.mark.parametrize("held", [ReadBytes, SetAside])
def test_a_replica_becomes_leader_in_the_middle_of_a_move_and_follows_again(held: type[Operation]) -> None:
    made = Replicated()
    made.write(20)
    made.node.held = lambda operation: isinstance(operation, held)
    target = made.begin()
    made.cluster.advance(50)
    made.assign(target)
    made.cluster.advance(50)
    assert made.node.waiting_operations
    made.cluster.change("t", leader=2)
    made.cluster.advance(50)
    while made.node.waiting_operations:
        made.node.let_go()
    made.cluster.advance(200)
    made.write(20, leader=2)
    made.cluster.change("t", leader=3)
    made.cluster.advance(200)
    made.write(20, leader=3)
    made.cluster.advance(200)
    assert made.node.broker.logs.directory_of("t", 0).path == target
    assert made.content(2) == made.content(1) == made.content(3)


def test_what_a_follower_cuts_is_cut_from_what_was_copied() -> None:
    made = Replicated()
    made.write(10)
    made.cluster.change("t", leader=2)
    made.cluster.advance(100)
    made.cluster.dead |= {1, 3}
    client = made.cluster.client(2)
    for number in range(5):
        client.send(produce("t", batch(b"lost %d" % number)), 9)
    target = made.begin()
    made.node.advance(100)
    future = made.node.broker.logs.moving.log(("t", 0), made.node.now_ms)
    assert future.log_end_offset == 15
    made.cluster.dead -= {1, 3}
    made.cluster.change("t", leader=1)
    made.cluster.advance(200)
    assert future.log_end_offset == 10
    made.write(10)
    made.assign(target)
    made.cluster.advance(200)
    made.write(10)
    assert made.node.broker.logs.directory_of("t", 0).path == target
    assert made.content(2) == made.content(1)


def test_a_log_that_began_before_kafka_0_11_moves_as_it_is(node: Node) -> None:
    """Its closed segments go as files, what is in the active one as a follower would get it."""
    some = upgraded(2, batches=0)
    node.stop()
    for path in [path for path in node.disks[0].paths() if path.startswith("t-0/")]:
        if not path.endswith("partition.metadata"):
            node.disks[0].unlink(path)
    put_segments(node.disks[0], [some[:30], some[30:60], some[60:]], "t-0")
    node.start()
    node.settle()
    expected = fill(node.connect(), 2)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    assert moved(node)
    files = [path for path in node.disks[1].paths() if path.startswith("t-0/") and path.endswith(".log")]
    data = b"".join(map(node.disks[1].content, sorted(files)))
    assert data.startswith(content(some))
    assert decoded(data)[: len(kept(some))] == kept(some)
    assert [record.value for record in decoded(data)[len(kept(some)) :]] == expected
