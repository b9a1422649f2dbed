"""A node with a full disk: who may still write, who is told what, and that all of it ends when there is room."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Node
from support.group_requests import ALONE, commit, committed, coordinate
from support.replicated import Cluster
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted

from penstock.config.values import MiB
from penstock.errors import ErrorCode
from penstock.log.directory_operations import WriteCheckpoint
from penstock.log.events import DirectoryFailed, DirectoryFull, DirectoryHasRoom
from penstock.log.operations import Write
from penstock.protocol.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

ROOM_BYTES = 8 * MiB
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def fill(node: Node, free_bytes: int, directory: int = 0) -> None:
    """Leaves so much room in a directory."""
    disk = node.disks[directory]
    disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + free_bytes


def idempotent(sequence: int, value: bytes = b"v") -> bytearray:
    return batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence)


@pytest.fixture
def node() -> Node:
    made = Node(directories=2, penstock_log_dir_reserve_bytes=MiB)
    made.create_topic("t", partitions=2)
    return made


def place(node: Node, index: int) -> int:
    return node.broker.logs.directory_of("t", index).index


def test_below_the_reserve_clients_are_refused_in_that_directory_alone(node: Node) -> None:
    client = node.connect()
    index, other = sorted(range(2), key=lambda each: place(node, each))
    fill(node, MiB // 2)
    assert produced(client, "t", batch(b"a"), partition=index).error_code == 0
    node.advance(1000)
    refused = produced(client, "t", batch(b"b"), partition=index)
    assert refused.error_code == STORAGE_ERROR
    assert "is full" in refused.error_message
    assert produced(client, "t", batch(b"b"), partition=other).error_code == 0
    read = partitions_of(client.ask(fetch("t", wanted(index)), 12))[index]
    assert values_of(read) == [b"a"]
    asked = DeleteRecordsRequest(
        topics=[
            DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=index, offset=1)]),
        ],
        timeout_ms=1000,
    )
    assert client.ask(asked, 2).topics[0].partitions[0].error_code == 0
    fill(node, 2 * MiB)
    node.advance(1000)
    assert produced(client, "t", batch(b"b"), partition=index).base_offset == 1
    told = [type(event) for event in node.events if isinstance(event, DirectoryFull | DirectoryHasRoom)]
    assert told == [DirectoryFull, DirectoryHasRoom]


def test_an_idle_directory_is_not_looked_at_any_more(node: Node) -> None:
    assert produced(node.connect(), "t", batch()).error_code == 0
    node.advance(60_000)
    looks = [operation for operation in node.ran if operation.order == ".space"]
    assert len(looks) <= 2


def test_a_node_that_starts_on_a_full_disk_serves_readers(node: Node) -> None:
    assert produced(node.connect(), "t", batch(b"a")).error_code == 0
    for directory in range(2):
        fill(node, MiB // 2, directory)
    node.restart()
    client = node.connect()
    assert produced(client, "t", batch(b"b")).error_code == STORAGE_ERROR
    assert values_of(partitions_of(client.ask(fetch("t", wanted()), 12))[0]) == [b"a"]


def test_another_reserve_counts_at_the_next_look(node: Node) -> None:
    client = node.connect()
    index = next(each for each in range(2) if place(node, each) == 0)
    fill(node, MiB // 2)
    assert produced(client, "t", batch(b"a"), partition=index).error_code == 0
    node.advance(1000)
    assert produced(client, "t", batch(b"a"), partition=index).error_code == STORAGE_ERROR
    changed = node.settings.with_dynamic({"penstock.log.dir.reserve.bytes": "1000"}, {})
    node.broker.logs.settings_changed(changed)
    node.advance(1000)
    assert produced(client, "t", batch(b"a"), partition=index).base_offset == 1


@pytest.mark.parametrize("acks", [1, -1])
def test_a_write_that_finds_no_room_is_answered_and_sent_again_later_without_a_gap(node: Node, acks: int) -> None:
    client = node.connect()
    index = next(each for each in range(2) if place(node, each) == 1)
    assert produced(client, "t", idempotent(0), partition=index, acks=acks).base_offset == 0
    node.disks[1].capacity_bytes = 0
    answer = produced(client, "t", idempotent(1), partition=index, acks=acks)
    assert (answer.error_code, answer.base_offset) == (STORAGE_ERROR, -1)
    node.advance(30_000)
    assert produced(client, "t", idempotent(1), partition=index, acks=acks).error_code == STORAGE_ERROR
    node.disks[1].capacity_bytes = None
    node.advance(5_000)
    assert produced(client, "t", idempotent(1), partition=index, acks=acks).base_offset == 1
    assert produced(client, "t", idempotent(0), partition=index, acks=acks).base_offset == 0, "it is known already"
    read = partitions_of(client.ask(fetch("t", wanted(index)), 12))[index]
    assert values_of(read) == [b"v", b"v"]
    assert not [event for event in node.events if isinstance(event, DirectoryFailed)]
    assert node.broker.failure is None


def test_checkpoints_that_find_no_room_are_written_when_there_is_some(node: Node) -> None:
    client = node.connect()
    index = next(each for each in range(2) if place(node, each) == 1)
    assert produced(client, "t", batch(), partition=index).error_code == 0
    node.disks[1].capacity_bytes = 0
    node.advance(10_000)
    assert any(isinstance(operation, WriteCheckpoint) for operation in node.ran)
    assert not [event for event in node.events if isinstance(event, DirectoryFailed)]
    node.disks[1].capacity_bytes = None
    node.advance(2_000)
    assert f"t {index} 1".encode() in node.disks[1].content("replication-offset-checkpoint")


def test_checkpoints_have_room_in_the_reserve_however_much_clients_send() -> None:
    node = Node(directories=2, penstock_log_dir_reserve_bytes=4_000)
    node.create_topic("t", partitions=2)
    node.create_topic("x" * 200, partitions=2)
    client = node.connect()
    for partition in range(2):  # names that make a checkpoint longer than a batch
        assert produced(client, "x" * 200, batch(), partition=partition).error_code == 0
    index = next(each for each in range(2) if place(node, each) == 1)
    fill(node, 8_000, 1)
    taken = 0
    while produced(client, "t", batch(b"v"), partition=index).error_code == 0:
        taken += 1
        node.advance(1_000)
    assert taken > 30
    node.advance(10_000)
    assert f"t {index} {taken}\n".encode() in node.disks[1].content("replication-offset-checkpoint")
    assert not node.broker.logs.table.directories[1].space.exhausted
    node.advance(60_000)
    node.crash(power_failed=False)
    assert f"t {index} {taken}\n".encode() in node.disks[1].content("replication-offset-checkpoint")


def test_a_reserve_that_is_not_kept_for_checkpoints_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.log.space.reserve_of", lambda wanted_bytes, total_bytes: 0)
    with pytest.raises(AssertionError, match="replication-offset-checkpoint"):
        test_checkpoints_have_room_in_the_reserve_however_much_clients_send()


def test_a_topic_that_is_created_on_a_full_disk_is_there_when_there_is_room(node: Node) -> None:
    node.disks[1].capacity_bytes = 0
    node.create_topic("new", partitions=4)
    node.advance(3_000)
    node.disks[1].capacity_bytes = None
    node.advance(5_000)
    client = node.connect()
    assert [produced(client, "new", batch(), partition=each).error_code for each in range(4)] == [0] * 4


def test_after_a_stop_on_a_full_disk_nothing_is_lost(node: Node) -> None:
    client = node.connect()
    index = next(each for each in range(2) if place(node, each) == 1)
    assert produced(client, "t", batch(b"a"), partition=index).error_code == 0
    node.disks[1].capacity_bytes = 0
    assert produced(client, "t", batch(b"b"), partition=index).error_code == STORAGE_ERROR
    node.stop()
    node.disks[1].capacity_bytes = None
    node.start()
    client = node.connect()
    assert values_of(partitions_of(client.ask(fetch("t", wanted(index)), 12))[index]) == [b"a"]
    assert produced(client, "t", batch(b"b"), partition=index).base_offset == 1


# Coordinators


def test_offsets_are_committed_in_the_reserve() -> None:
    node = Node(**ALONE, penstock_log_dir_reserve_bytes=MiB)
    node.create_topic("t")
    coordinate(node)
    client = node.connect()
    fill(node, MiB // 2)
    assert produced(client, "t", batch()).error_code == 0
    node.advance(1000)
    assert produced(client, "t", batch()).error_code == STORAGE_ERROR
    (answered,) = client.ask(commit({("t", 0): 1}), 8).topics
    assert answered.partitions[0].error_code == 0
    assert committed(client) == {("t", 0): 1}


def test_a_commit_that_found_no_room_is_refused_and_the_coordinator_goes_on_when_there_is_some() -> None:
    node = Node(**ALONE, directories=2)
    node.create_topic("t")
    coordinate(node)
    client = node.connect()
    client.ask(commit({("t", 0): 1}), 8)
    directory = node.broker.logs.directory_of("__consumer_offsets", 0).index
    assert directory == 1, "the metadata log is in the other one, and needs room"
    node.disks[directory].capacity_bytes = 0
    (answered,) = client.ask(commit({("t", 0): 2}), 8).topics
    assert answered.partitions[0].error_code != 0
    node.advance(5_000)
    assert committed(client) == {("t", 0): 1}
    node.disks[directory].capacity_bytes = None
    node.advance(5_000)
    (answered,) = client.ask(commit({("t", 0): 3}), 8).topics
    assert answered.partitions[0].error_code == 0
    assert committed(client) == {("t", 0): 3}


def test_nothing_is_written_between_a_write_that_found_no_room_and_the_next_look() -> None:
    node = Node(**ALONE)
    node.create_topic("t")
    coordinate(node)
    client = node.connect()
    node.broker.logs.table.directories[0].space.ran_out()
    writes = sum(isinstance(operation, Write) for operation in node.ran)
    (answered,) = client.ask(commit({("t", 0): 2}), 8).topics
    assert answered.partitions[0].error_code != 0
    assert sum(isinstance(operation, Write) for operation in node.ran) == writes


# Moves


def move_to_the_second(node: Node, index: int) -> None:
    topics = [AlterReplicaLogDirTopic(name="t", partitions=[index])]
    answer = node.connect().ask(AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path="/data/1", topics=topics)]), 2)
    assert answer.results[0].partitions[0].error_code == 0


@pytest.mark.parametrize("free_bytes", [0, 300_000, MiB // 2], ids=["nothing", "a part", "only the reserve"])
def test_a_move_to_a_full_disk_waits_for_room(node: Node, free_bytes: int) -> None:
    client = node.connect()
    index = next(each for each in range(2) if place(node, each) == 0)
    for number in range(20):
        assert produced(client, "t", batch(b"%d" % number * 20_000), partition=index).error_code == 0
    fill(node, free_bytes, 1)
    move_to_the_second(node, index)
    node.advance(20_000)
    assert place(node, index) == 0
    assert not [event for event in node.events if isinstance(event, DirectoryFailed)]
    assert produced(client, "t", batch(b"meanwhile"), partition=index).error_code == 0
    node.disks[1].capacity_bytes = None
    node.advance(10_000)
    assert place(node, index) == 1
    read = partitions_of(client.ask(fetch("t", wanted(index, 20)), 12))[index]
    assert values_of(read) == [b"meanwhile"]
    assert sum(isinstance(operation, Write) for operation in node.ran) < 150, "it does not try again and again"


# Followers


def test_a_follower_on_a_full_disk_leaves_the_in_sync_replicas_and_comes_back_with_everything() -> None:
    cluster = Cluster(3)
    cluster.create("t")
    cluster.advance(50)
    client = cluster.client(1)

    def send(value: bytes) -> Any:
        client.send(produce("t", batch(value), acks=-1, timeout_ms=60_000), 9)

    send(b"a")
    cluster.advance(100)
    assert client.receive().responses[0].partition_responses[0].error_code == 0
    full = cluster.nodes[3]
    followers = full.broker.replication.followers
    looks: list[int] = []
    release = followers._release
    followers._release = lambda now_ms: (looks.append(now_ms), release(now_ms))[1]  # type: ignore[method-assign]
    full.disks[0].capacity_bytes = sum(full.disks[0].size(path) for path in full.disks[0].paths()) + 20
    send(b"b")
    cluster.advance(45_000)
    assert client.receive().responses[0].partition_responses[0].error_code == 0
    partition = cluster.nodes[1].broker.replicas.in_use("t", 0)
    assert partition is not None
    assert 3 not in partition.isr.committed
    assert not [event for event in full.events if isinstance(event, DirectoryFailed)]
    writes = sum(isinstance(operation, Write) for operation in full.ran)
    full.disks[0].capacity_bytes = None
    cluster.advance(5_000)
    assert cluster.bytes_of(3) == cluster.bytes_of(1) != b""
    assert 3 in partition.isr.committed
    assert writes < 60, "it does not try again and again"
    assert 0 < len(looks) < 120, "it looks once a second"
