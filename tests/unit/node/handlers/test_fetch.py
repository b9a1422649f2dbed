"""Fetch: limits, long poll, errors of one partition, and what was not in memory."""

from __future__ import annotations

from uuid import UUID

import pytest
from support.broker import Node
from support.requests import batch, fetch, partitions_of, produce, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.node import limits
from penstock.node.cold_reads import ColdRead


@pytest.fixture
def node() -> Node:
    made = Node()
    made.create_topic("t", partitions=3)
    return made


def fill(node: Node, *values: bytes, partition: int = 0, topic: str = "t") -> None:
    """One batch for each value."""
    client = node.connect()
    for value in values:
        assert produced(client, topic, batch(value), partition=partition).error_code == 0


# Limits


@pytest.mark.parametrize("version", range(4, 19))
def test_every_version_reads_from_the_offset_on(version: int, node: Node) -> None:
    fill(node, b"a", b"b", b"c")
    topic_id = node.broker.replicas.image.topics_by_name["t"].id
    response = node.connect().ask(fetch(topic_id if version >= 13 else "t", wanted(offset=1)), version)
    data = partitions_of(response)[0]
    assert values_of(data) == [b"b", b"c"]
    assert (data.high_watermark, data.last_stable_offset) == (3, 3)
    assert response.responses[0].topic_id == (topic_id if version >= 13 else UUID(int=0))


def test_an_offset_inside_a_batch_gives_the_whole_batch(node: Node) -> None:
    client = node.connect()
    produced(client, "t", batch(b"a", b"b", b"c"))
    assert values_of(partitions_of(client.ask(fetch("t", wanted(offset=2)), 12))[0]) == [b"a", b"b", b"c"]


def test_the_first_batch_is_returned_whole_and_once_only(node: Node) -> None:
    """Limits of one byte: the first partition with data gives its first batch, the others nothing."""
    fill(node, b"a", b"b")
    fill(node, b"c", partition=1)
    response = node.connect().ask(
        fetch("t", wanted(2), wanted(0, max_bytes=1), wanted(1, max_bytes=1), max_bytes=1), 12
    )
    found = {index: values_of(data) for index, data in partitions_of(response).items()}
    assert found == {2: [], 0: [b"a"], 1: []}
    nothing = node.connect().ask(fetch("t", wanted(0, max_bytes=0), max_bytes=0), 12)
    assert values_of(partitions_of(nothing)[0]) == [b"a"], "a limit of nothing still lets the reader go on"


def test_a_partitions_limit_and_the_requests_limit_cut_at_batches(node: Node) -> None:
    fill(node, b"x" * 100, b"y" * 100, b"z" * 100)
    size = len(batch(b"x" * 100))
    client = node.connect()
    two = partitions_of(client.ask(fetch("t", wanted(max_bytes=2 * size + 50)), 12))[0]
    assert values_of(two) == [b"x" * 100, b"y" * 100]
    fill(node, b"other", partition=1)
    both = partitions_of(client.ask(fetch("t", wanted(max_bytes=size), wanted(1), max_bytes=size + 1), 12))
    assert values_of(both[0]) == [b"x" * 100]
    assert values_of(both[1]) == [], "no room is left"


def test_reads_cross_segments_one_by_one() -> None:
    node = Node()
    node.create_topic("t", segment_bytes=str(1 << 20))
    value = b"x" * 300_000
    fill(node, *[value] * 8)
    client, offset, read = node.connect(), 0, 0
    while offset < 8:
        values = values_of(partitions_of(client.ask(fetch("t", wanted(offset=offset, max_bytes=1 << 22)), 12))[0])
        assert values
        offset += len(values)
        read += 1
    assert read > 1


# Waiting


def test_too_few_bytes_wait_until_the_deadline(node: Node) -> None:
    client = node.connect()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    node.advance(499)
    assert not client.answers
    node.advance(10)
    assert values_of(partitions_of(client.receive())[0]) == []
    assert node.broker.scheduler.timers.next_deadline_ms() is None, "nothing is left behind"


def test_an_append_ends_the_wait(node: Node) -> None:
    client = node.connect()
    client.send(fetch("t", wanted(0), wanted(1), min_bytes=1, max_wait_ms=500), 12)
    fill(node, b"now", partition=1)
    assert {i: values_of(d) for i, d in partitions_of(client.receive()).items()} == {0: [], 1: [b"now"]}
    assert len(node.broker.scheduler.timers) == 0
    assert not node.broker.replicas.leader("t", 1, 0).subscriptions  # type: ignore[union-attr]


def test_min_bytes_counts_what_came_before_and_what_comes(node: Node) -> None:
    size = len(batch(b"v"))
    client = node.connect()
    fill(node, b"v")
    client.send(fetch("t", wanted(), min_bytes=3 * size, max_wait_ms=500), 12)
    fill(node, b"v")
    assert not client.answers
    fill(node, b"v")
    assert values_of(partitions_of(client.receive())[0]) == [b"v"] * 3


def test_an_error_ends_the_wait_at_once(node: Node) -> None:
    client = node.connect()
    response = client.ask(fetch("t", wanted(0), wanted(9), min_bytes=1, max_wait_ms=500), 12)
    assert partitions_of(response)[9].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deleting_the_topic_ends_the_wait(node: Node) -> None:
    client = node.connect()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    node.delete_topic("t")
    assert partitions_of(client.receive())[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_lost_connection_leaves_nothing_behind(node: Node) -> None:
    client = node.connect()
    client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=500), 12)
    node.disconnect(client)
    fill(node, b"a")
    assert not client.answers
    assert len(node.broker.scheduler.timers) == 0
    assert not node.broker.replicas.leader("t", 0, 0).subscriptions  # type: ignore[union-attr]


def test_parked_fetches_are_bounded_and_the_oldest_is_answered_early(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "PARKED_REQUESTS_MAX", 2)
    clients = [node.connect() for _ in range(3)]
    for client in clients:
        client.send(fetch("t", wanted(), min_bytes=1, max_wait_ms=30_000), 12)
    assert [len(client.answers) for client in clients] == [1, 0, 0]
    assert partitions_of(clients[0].receive())[0].error_code == 0


# Errors


def test_offsets_outside_the_log_are_out_of_range(node: Node) -> None:
    fill(node, b"a")
    client = node.connect()
    for offset in (-1, 2, 1 << 40):
        data = partitions_of(client.ask(fetch("t", wanted(offset=offset)), 12))[0]
        assert (data.error_code, data.high_watermark) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert partitions_of(client.ask(fetch("t", wanted(offset=1)), 12))[0].error_code == 0


def test_leader_epochs_are_checked(node: Node) -> None:
    client = node.connect()
    epoch = node.broker.image.partition("t", 0).leader_epoch  # type: ignore[union-attr]
    for given, code in ((epoch, 0), (epoch + 1, ErrorCode.UNKNOWN_LEADER_EPOCH), (-1, 0)):
        assert partitions_of(client.ask(fetch("t", wanted(current_leader_epoch=given)), 12))[0].error_code == code


def test_an_older_leader_epoch_is_fenced_and_told_the_leader(node: Node) -> None:
    node.restart()  # a new registration, a new leader epoch
    epoch = node.broker.image.partition("t", 0).leader_epoch  # type: ignore[union-attr]
    assert epoch > 0
    topic_id = node.broker.image.topics_by_name["t"].id
    response = node.connect().ask(fetch(topic_id, wanted(current_leader_epoch=epoch - 1)), 17)
    data = partitions_of(response)[0]
    assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert (data.current_leader.leader_id, data.current_leader.leader_epoch) == (1, epoch)
    assert [(found.node_id, found.port) for found in response.node_endpoints] == [(1, 9092)]


def test_unknown_and_other_topic_ids(node: Node) -> None:
    client = node.connect()
    unknown = partitions_of(client.ask(fetch(UUID(int=9), wanted()), 13))[0]
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_a_reader_whose_last_epoch_parts_from_ours_is_told_where(node: Node) -> None:
    fill(node, b"a", b"b")
    node.restart()
    epoch = node.broker.image.partition("t", 0).leader_epoch  # type: ignore[union-attr]
    fill(node, b"c")
    client = node.connect()
    same = partitions_of(client.ask(fetch("t", wanted(offset=3, last_fetched_epoch=epoch)), 12))[0]
    assert same.diverging_epoch.end_offset == -1
    parted = partitions_of(client.ask(fetch("t", wanted(offset=3, last_fetched_epoch=0)), 12))[0]
    assert (parted.diverging_epoch.epoch, parted.diverging_epoch.end_offset) == (0, 2)


def test_read_committed_ends_at_the_last_stable_offset(node: Node) -> None:
    fill(node, b"a")
    data = partitions_of(node.connect().ask(fetch("t", wanted(), isolation_level=1), 12))[0]
    assert values_of(data) == [b"a"]
    assert data.aborted_transactions == []


# What is not in memory


def test_a_cold_look_up_goes_to_the_lane_and_delays_its_own_connection_only() -> None:
    node = Node()
    node.create_topic("t", segment_bytes=str(1 << 20))
    fill(node, *[b"%d" % index + b"x" * 200_000 for index in range(12)])
    node.restart()
    cold, warm = node.connect(), node.connect()
    assert partitions_of(cold.ask(fetch("t", wanted(offset=12)), 12))[0].error_code == 0  # the log is open
    node.disks[0].cold = True
    node.held = lambda operation: isinstance(operation, ColdRead)
    cold.send(fetch("t", wanted(offset=3)), 12)
    cold.send(produce("t", batch(b"later")), 9)
    assert node.waiting_operations, "the index of an old segment is not in memory"
    assert not cold.answers
    assert produced(warm, "t", batch(b"now")).error_code == 0, "others go on"
    while node.waiting_operations:
        node.let_go()
    assert values_of(partitions_of(cold.receive())[0])[0][:2] == b"3x"  # type: ignore[index]
    assert cold.receive().responses[0].partition_responses[0].error_code == 0
    assert node.broker.dispatcher.cold_reads > 0
