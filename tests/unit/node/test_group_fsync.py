"""penstock.log.fsync=group in a whole node: who is answered when, and what everybody sees until then."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import Client, Node
from support.group_requests import ALONE, change_partition, commit, committed, coordinate, loads
from support.leader import Leader
from support.requests import batch, fetch, list_offsets, partitions_of, produce, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.log.disk import Operation
from penstock.log.group_fsync import FsyncRound
from penstock.log.operations import Write
from penstock.node.metrics import Sample

GROUP = {"penstock_log_fsync": "group"}


def is_round(operation: Operation) -> bool:
    return isinstance(operation, FsyncRound)


def rounds_waiting(node: Node) -> list[Operation]:
    return [each for each in node.waiting_operations if is_round(each)]


@pytest.fixture
def node() -> Node:
    """Topic t has it and u has not; nothing is fsynced before `let_go`."""
    node = Node()
    node.create_topic("t", partitions=2, **GROUP)
    node.create_topic("u")
    node.held = is_round
    return node


def values_at(client: Client, topic: str = "t") -> list[bytes | None]:
    return values_of(partitions_of(client.ask(fetch(topic, wanted()), 11))[0])


@pytest.mark.parametrize("acks", [1, -1])
def test_an_append_is_answered_when_it_is_on_disk(node: Node, acks: int) -> None:
    producer = node.connect()
    producer.send(produce("t", batch(b"a"), acks=acks), 9)
    assert not producer.answers
    assert len(rounds_waiting(node)) == 1
    node.let_go()
    answer = producer.receive().responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.NONE, 0)
    node.crash()
    assert values_at(node.connect()) == [b"a"]


def test_nobody_reads_it_before(node: Node) -> None:
    node.connect().send(produce("t", batch(b"a"), acks=0), 9)
    reader = node.connect()
    assert values_at(reader) == []
    latest = reader.ask(list_offsets("t", (0, -1)), 7)
    assert latest.topics[0].partitions[0].offset == 0
    node.let_go()
    assert values_at(reader) == [b"a"]


def test_topics_without_it_do_not_wait(node: Node) -> None:
    assert produced(node.connect(), "u", batch(b"a")).error_code == ErrorCode.NONE
    assert not rounds_waiting(node)


def test_a_consumer_that_waits_is_woken_by_the_fsync(node: Node) -> None:
    reader = node.connect()
    reader.send(fetch("t", wanted(), max_wait_ms=10_000, min_bytes=1), 11)
    node.connect().send(produce("t", batch(b"a")), 9)
    assert not reader.answers
    node.let_go()
    assert values_of(partitions_of(reader.receive())[0]) == [b"a"]


def test_producers_that_come_during_a_round_share_the_next_one(node: Node) -> None:
    producers = [node.connect() for _ in range(16)]
    for number, producer in enumerate(producers):
        producer.send(produce("t", batch(b"%d" % number), first=number % 2), 9)
    assert len(rounds_waiting(node)) == 1
    before = len(node.ran)
    node.let_go()
    assert len([each for each in node.ran[before:] if is_round(each)]) == 2
    assert all(producer.receive().responses[0].partition_responses[0].error_code == 0 for producer in producers)


def test_a_repeated_batch_is_answered_when_its_original_is_on_disk(node: Node) -> None:
    records = batch(b"a", producer_id=4, producer_epoch=0, base_sequence=0)
    first, again = node.connect(), node.connect()
    first.send(produce("t", bytearray(records)), 9)
    again.send(produce("t", bytearray(records)), 9)
    assert not first.answers
    assert not again.answers
    node.let_go()
    offsets = [each.receive().responses[0].partition_responses[0].base_offset for each in (first, again)]
    assert offsets == [0, 0]


def test_a_failed_fsync_is_a_storage_error_and_the_other_directory_goes_on() -> None:
    node = Node(directories=2)
    node.create_topic("t", partitions=2, **GROUP)
    client = node.connect()
    directory = node.broker.logs.directory_of("t", 0).index
    node.disks[directory].fail_fsync_at = node.disks[directory].fsyncs + 1
    node.held = is_round
    client.send(produce("t", batch(b"a"), acks=-1), 9)
    node.disks[directory].fail_fsync_at = node.disks[directory].fsyncs + 1
    node.let_go()
    lost = client.receive().responses[0].partition_responses[0]
    assert lost.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    other = node.broker.logs.directory_of("t", 1).index
    assert other != directory
    assert produced(client, "t", batch(b"b"), partition=1).error_code == ErrorCode.NONE
    node.disks[directory].mend()
    fsyncs = node.disks[directory].fsyncs
    node.advance(60_000)
    assert node.disks[directory].fsyncs == fsyncs, "it is not tried again"


def test_a_deleted_topic_lets_its_producers_go(node: Node) -> None:
    producer = node.connect()
    producer.send(produce("t", batch(b"a"), acks=-1), 9)
    node.delete_topic("t")
    node.let_go()
    answer = producer.receive().responses[0].partition_responses[0]
    assert answer.error_code != ErrorCode.NONE
    assert all(directory.error is None for directory in node.broker.logs.table.directories)


def test_a_clean_stop_has_everything_on_disk(node: Node) -> None:
    node.connect().send(produce("t", batch(b"a"), acks=0), 9)
    node.stop()
    node.waiting_operations, node.held = [], None
    node.crash()
    assert values_at(node.connect()) == [b"a"]


def test_it_may_be_switched_while_producers_wait(node: Node) -> None:
    producer = node.connect()
    producer.send(produce("t", batch(b"a")), 9)
    log = node.broker.logs.open_log("t", 0)
    assert log is not None
    log.config = node.broker.logs.table.topic_config("u")
    assert produced(node.connect(), "t", batch(b"b")).base_offset == 1
    assert producer.receive().responses[0].partition_responses[0].base_offset == 0
    node.let_go()
    assert log.log_end_offset == 2


def test_it_is_a_setting_of_the_broker_too() -> None:
    node = Node(penstock_log_fsync="group")
    node.create_topic("t")
    node.create_topic("loose", penstock_log_fsync="none")
    assert produced(node.connect(), "t", batch(b"a")).error_code == ErrorCode.NONE
    assert any(is_round(each) for each in node.ran)
    before = len(node.ran)
    produced(node.connect(), "loose", batch(b"a"))
    assert [type(each) for each in node.ran[before:] if isinstance(each, Write | FsyncRound)] == [Write]


def test_an_idle_node_has_no_rounds(node: Node) -> None:
    node.connect().send(produce("t", batch(b"a")), 9)
    node.let_go()
    before = len(node.ran)
    node.advance(10_000)
    assert not [each for each in node.ran[before:] if is_round(each)]


def test_the_leader_counts_itself_when_it_has_it_on_disk() -> None:
    leader = Leader(**GROUP)
    leader.node.held = is_round
    leader.wait(leader.append(batch(b"a"), 1), 1, "one")
    leader.wait(leader.append(batch(b"b"), -1), -1, "all")
    leader.write()
    leader.followers_have(r2=1, r3=1)
    assert (leader.partition.log_end_offset, leader.partition.high_watermark) == (1, 1)
    assert leader.waiter.told == []
    leader.node.let_go()
    assert leader.waiter.told == [("one", ErrorCode.NONE)]
    leader.followers_have(r2=3, r3=3)
    assert leader.waiter.told[1:] == [("all", ErrorCode.NONE)]


def test_rounds_are_counted(node: Node) -> None:
    def samples() -> dict[str, Any]:
        found: list[Sample] = [each for each in node.broker.metrics() if "group_fsync" in each.name]
        return {each.name.removeprefix("penstock_log_group_fsync_"): each.value for each in found}

    assert samples() == {}, "a directory without rounds has no such metrics"
    node.connect().send(produce("t", batch(b"a"), batch(b"b")), 9)
    node.let_go()
    counted = samples()
    assert (counted["rounds_total"], counted["files_total"], counted["files_max"]) == (1, 4, 4)
    assert counted["waiting_logs"] == 0


def test_a_coordinator_loads_a_tail_of_earlier_terms_when_it_is_on_disk() -> None:
    node = Node(**ALONE, penstock_log_fsync="group")
    node.create_topic("t")
    coordinate(node)
    node.held = is_round
    node.connect().send(commit({("t", 0): 6}), 8)
    for leader in (2, 1, 2, 1):
        change_partition(node, leader=leader)
    before = len(node.ran)
    node.advance(100)
    assert len([each for each in node.ran[before:] if loads(each)]) < 10, "it looks from time to time"
    node.let_go()
    node.advance(1_000)
    assert committed(node.connect()) == {("t", 0): 6}
