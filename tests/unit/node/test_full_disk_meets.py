"""A full disk, together with what else may be under way in it: group fsync, moves of whole segments, a clean stop."""

from __future__ import annotations

from random import Random

import pytest
from support.broker import Node
from support.replicated import Cluster
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted

from penstock.config.values import MiB
from penstock.errors import ErrorCode
from penstock.log.events import DirectoryFailed, RecoveryFinished
from penstock.log.group_fsync import FsyncRound
from penstock.log.operations import Close, DeleteFiles, ReplaceFile, Write
from penstock.log.replica import State
from penstock.log.segment_copies import PlaceSegment
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

from .test_moves import move, moved, values

GROUP = {"penstock_log_fsync": "group"}


def fill(node: Node, free_bytes: int, directory: int = 0) -> None:
    """Leaves so much room in a directory."""
    disk = node.disks[directory]
    disk.capacity_bytes = sum(disk.size(path) for path in disk.paths()) + free_bytes


def failed(node: Node) -> list[object]:
    return [event for event in node.events if isinstance(event, DirectoryFailed)]


def idempotent(sequence: int, value: bytes = b"v") -> bytearray:
    return batch(value, producer_id=7, producer_epoch=0, base_sequence=sequence)


def test_what_waited_for_an_fsync_is_cut_away_once() -> None:
    node = Node(penstock_log_dir_reserve_bytes=0)
    node.create_topic("t", **GROUP)
    client = node.connect()
    assert produced(client, "t", idempotent(0)).error_code == 0
    node.held = lambda operation: isinstance(operation, FsyncRound)
    client.send(produce("t", idempotent(1), acks=1), 9)
    node.disks[0].capacity_bytes = 0
    client.send(produce("t", idempotent(2), acks=1), 9)
    answers = [client.receive().responses[0].partition_responses[0].error_code for _ in range(2)]
    assert answers == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    node.let_go()
    node.disks[0].capacity_bytes = None
    node.advance(5_000)
    assert produced(client, "t", idempotent(1)).base_offset == 1
    assert node.broker.failure is None


@pytest.mark.parametrize("free_bytes", [0, 500_000, 2 * MiB, 3 * MiB])
@pytest.mark.parametrize("reserve_bytes", [0, MiB])
def test_a_move_of_whole_segments_to_a_disk_that_becomes_full_waits_for_room(
    free_bytes: int, reserve_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.node.segment_moves.MOVE_FILES_MIN_BYTES", 1)
    monkeypatch.setattr("penstock.node.segment_moves.MOVE_READ_BYTES", 300_000)
    node = Node(directories=2, penstock_log_dir_reserve_bytes=reserve_bytes)
    node.create_topic("t", segment_bytes="1048576", flush_messages="1")
    node.settle()
    client = node.connect()
    expected = [b"%d" % number * 20_000 for number in range(100, 180)]
    for value in expected:
        assert produced(client, "t", batch(value)).error_code == 0
    fill(node, free_bytes, 1)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(20_000)
    assert not failed(node)
    assert not moved(node)
    node.disks[1].capacity_bytes = None
    node.advance(20_000)
    assert moved(node)
    assert values(node) == expected


@pytest.mark.parametrize("seed", range(8))
def test_a_new_segment_has_its_name_on_disk_before_its_records_count_although_the_first_found_no_room(
    seed: int,
) -> None:
    node = Node(penstock_log_dir_reserve_bytes=0)
    node.disks[0].random = Random(seed)
    node.create_topic("t", segment_bytes="1048576", **GROUP)
    client = node.connect()
    values_ = [bytes([65 + number]) * 300_000 for number in range(4)]
    for sequence in range(3):
        assert produced(client, "t", idempotent(sequence, values_[sequence])).error_code == 0
    fill(node, 200_000)
    assert produced(client, "t", idempotent(3, values_[3])).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    assert log.segments.bases == [0, 3]
    node.disks[0].capacity_bytes = None
    node.advance(5_000)
    assert produced(client, "t", idempotent(3, values_[3])).base_offset == 3
    node.crash()
    assert produced(node.connect(), "t", idempotent(4)).base_offset == 4
    assert values(node) == [*values_, b"v"]


def test_a_clean_stop_does_not_wait_for_room_to_cut_a_log() -> None:
    node = Node(penstock_log_dir_reserve_bytes=0)
    node.create_topic("t", **GROUP)
    client = node.connect()
    for sequence in range(2):
        assert produced(client, "t", idempotent(sequence)).error_code == 0
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    node.held = lambda operation: isinstance(operation, Write)
    log.append_as_leader(idempotent(2), 0, node.now_ms)
    log.truncate_to(1, node.now_ms)
    node.disks[0].capacity_bytes = 0
    node.run()
    node.let_go()
    assert log.truncating
    node.stop()
    node.disks[0].capacity_bytes = None
    node.start()


def test_a_clean_stop_closes_a_log_that_was_to_close_for_a_move() -> None:
    node = Node(directories=2, penstock_log_dir_reserve_bytes=0)
    node.create_topic("t")
    node.settle()
    client = node.connect()
    expected = [b"a", b"b"]
    for value in expected:
        assert produced(client, "t", batch(value)).error_code == 0
    node.held = lambda operation: isinstance(operation, Close)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(500)
    node.disks[0].capacity_bytes = 0
    node.let_go()
    node.advance(100)
    node.stop()
    node.disks[0].capacity_bytes = None
    node.start()
    assert values(node) == expected


def test_a_segment_that_finds_no_room_for_its_names_is_copied_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.node.segment_moves.MOVE_FILES_MIN_BYTES", 1)
    node = Node(directories=2, penstock_log_dir_reserve_bytes=0)
    node.create_topic("t", segment_bytes="1048576", flush_messages="1")
    node.settle()
    client = node.connect()
    expected = [b"%d" % number * 20_000 for number in range(100, 130)]
    for value in expected:
        assert produced(client, "t", batch(value)).error_code == 0
    node.held = lambda operation: isinstance(operation, PlaceSegment)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(1_000)
    fill(node, 0, 1)
    node.let_go()
    assert not failed(node)
    node.disks[1].capacity_bytes = None
    node.advance(20_000)
    assert moved(node)
    assert values(node) == expected


def test_a_log_that_finds_no_room_to_close_for_a_move_serves_on_until_there_is_some() -> None:
    node = Node(directories=2, penstock_log_dir_reserve_bytes=0)
    node.create_topic("t")
    node.settle()
    client = node.connect()
    for value in (b"a", b"b"):
        assert produced(client, "t", batch(value)).error_code == 0
    node.held = lambda operation: isinstance(operation, Close)
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(500)
    node.disks[0].capacity_bytes = 0
    node.let_go()
    for _ in range(3):
        assert values(node) == [b"a", b"b"]
        node.advance(1_000)
    assert not moved(node)
    assert not failed(node)
    node.disks[0].capacity_bytes = None
    node.advance(5_000)
    assert moved(node)
    assert values(node) == [b"a", b"b"]


def test_a_future_log_that_finds_no_room_to_close_ends_the_move_and_the_log_in_use_serves_on() -> None:
    node = Node(directories=2, penstock_log_dir_reserve_bytes=0)
    node.create_topic("t")
    node.settle()
    client = node.connect()
    for value in (b"a", b"b"):
        assert produced(client, "t", batch(value)).error_code == 0
    node.held = lambda operation: isinstance(operation, Close) and operation.directory == 1
    assert move(node, "/data/1") is ErrorCode.NONE
    node.advance(500)
    assert node.waiting_operations
    node.disks[1].capacity_bytes = 0
    node.let_go()
    assert values(node) == [b"a", b"b"]
    assert not moved(node)
    assert not failed(node)
    assert produced(node.connect(), "t", batch(b"c")).base_offset == 2


def test_a_log_that_finds_no_room_to_close_for_the_cleaner_serves_on_and_is_cleaned_later() -> None:
    node = Node(penstock_log_dir_reserve_bytes=0)
    node.create_topic(
        "t", cleanup_policy="compact", segment_bytes="1048576", min_cleanable_dirty_ratio="0.0", flush_messages="1"
    )
    client = node.connect()
    node.held = lambda operation: isinstance(operation, Close)
    for _ in range(4):
        assert produced(client, "t", batch(b"v" * 400_000)).error_code == 0
    node.advance(60_000)
    assert [type(each) for each in node.waiting_operations] == [Close]
    node.disks[0].capacity_bytes = 0
    node.let_go()
    assert values(node) == [b"v" * 400_000] * 4
    assert not [path for path in node.disks[0].paths() if path.endswith(".cleaned")]
    node.disks[0].capacity_bytes = None
    node.advance(600_000)
    assert node.broker.logs.cleaner.cleaned_logs == 1
    assert produced(node.connect(), "t", batch(b"w")).base_offset == 4


def test_segments_that_were_to_go_behind_a_write_that_found_no_room_go_although_nothing_is_appended() -> None:
    node = Node(penstock_log_dir_reserve_bytes=0, log_retention_check_interval_ms=10_000)
    node.create_topic("t", segment_bytes="1048576")
    client = node.connect()
    for _ in range(4):
        assert produced(client, "t", batch(b"v" * 400_000)).error_code == 0
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    assert log.segments.bases == [0, 2]
    node.advance(1_000)
    node.held = lambda operation: isinstance(operation, Write)
    client.send(produce("t", batch(b"w"), acks=1), 9)
    topic = DeleteRecordsTopic(name="t", partitions=[DeleteRecordsPartition(partition_index=0, offset=3)])
    node.connect().ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000), 2)
    node.advance(40_000)
    assert [type(each) for each in node.waiting_operations if each.order == "t-0"] == [Write, ReplaceFile, DeleteFiles]
    node.disks[0].capacity_bytes = 0
    node.let_go()
    node.advance(40_000)
    assert f"t-0/{0:020d}.log" not in node.disks[0].paths()
    assert log.segments.bases == [2]
    assert not failed(node)


def test_recovery_goes_on_after_the_log_that_waited_for_room_was_deleted() -> None:
    node = Node(
        directories=2,
        cordoned_log_dirs=("/data/0",),
        num_recovery_threads_per_data_dir=1,
        penstock_log_dir_reserve_bytes=0,
    )
    for topic in ("t", "u", "v"):
        node.create_topic(topic)
        assert produced(node.connect(), topic, batch(b"v" * 5_000)).error_code == 0
    node.disks[1].capacity_bytes = 0
    node.crash(power_failed=False)
    node.advance(300)
    table = node.broker.logs.table
    (waiting,) = (replica for replica in table.replicas() if replica.state is State.RECOVERING)
    node.delete_topic(waiting.topic)
    node.disks[1].capacity_bytes = None
    node.advance(10_000)
    assert [replica.state for replica in table.of_directory(table.directories[1])] == [State.CLOSED] * 2
    assert any(isinstance(event, RecoveryFinished) for event in node.events)


@pytest.mark.parametrize("crashed", [True, False], ids=["to recover a log", "to make its directory"])
def test_nobody_waits_where_there_is_no_room(crashed: bool) -> None:
    """Neither the request nor what follows it on the connection, which may be for another disk."""
    node = Node(directories=2, penstock_log_dir_reserve_bytes=0)
    node.create_topic("t", partitions=2)
    lost = next(index for index in range(2) if node.broker.logs.directory_of("t", index).index == 1)
    for index in range(2):
        assert produced(node.connect(), "t", batch(b"v" * 5_000), partition=index).error_code == 0
    name = "t"
    if crashed:
        node.disks[1].capacity_bytes = 0
        node.crash(power_failed=False)
        node.advance(300)
    else:
        node.disks[1].capacity_bytes = 0
        name = "u"
        node.create_topic(name, partitions=2)
        lost = next(index for index in range(2) if node.broker.logs.directory_of(name, index).index == 1)
    client = node.connect()
    assert produced(client, name, batch(), partition=lost).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    read = partitions_of(client.ask(fetch(name, wanted(lost)), 12))[lost]
    assert read.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(client, name, batch(), partition=1 - lost).error_code == 0
    node.advance(10_000)
    assert not failed(node)
    node.disks[1].capacity_bytes = None
    node.advance(5_000)
    assert produced(client, name, batch(b"later"), partition=lost).error_code == 0
    assert values_of(partitions_of(client.ask(fetch(name, wanted(lost)), 12))[lost])[-1] == b"later"


def test_no_consumer_waits_for_the_log_of_a_follower_that_has_no_room_to_be_opened() -> None:
    cluster = Cluster(3)
    cluster.create("t")
    cluster.client(1).send(produce("t", batch(b"a"), acks=-1, timeout_ms=60_000), 9)
    cluster.advance(5_000)
    node = cluster.nodes[3]
    replica = node.broker.logs.table.find("t", 0)
    assert replica is not None
    consumer = cluster.client(3)
    asked = fetch("t", wanted(), rack_id="rack 3")
    assert values_of(partitions_of(consumer.ask(asked, 12))[0]) == [b"a"]
    node.broker.logs._logs.close(replica, node.broker.now_ms)
    node.run()
    assert replica.state is State.CLOSED
    for path in [path for path in node.disks[0].paths() if path.startswith("t-0/") and path.endswith("index")]:
        node.disks[0].unlink(path)
    node.disks[0].capacity_bytes = 0
    consumer.send(asked, 12)
    cluster.advance(5_000)
    assert partitions_of(consumer.receive())[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.disks[0].capacity_bytes = None
    cluster.advance(5_000)
    assert values_of(partitions_of(consumer.ask(asked, 12))[0]) == [b"a"]
