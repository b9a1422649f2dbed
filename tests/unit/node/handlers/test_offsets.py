"""ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from __future__ import annotations

from typing import Any

import pytest
from support.broker import START_MS, Client, Node
from support.requests import batch, fetch, list_offsets, partitions_of, produced, values_of, wanted

from penstock.errors import ErrorCode
from penstock.log import lookup
from penstock.log.limits import LOOKED_UP_INLINE_MAX_RECORDS
from penstock.node.cold_reads import ColdRead
from penstock.protocol.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.records.builder import BatchBuilder
from penstock.records.compression import Codec
from penstock.replication.partition import Partition


@pytest.fixture
def node() -> Node:
    """Offsets 0 to 3 at 1000, 3000, 2000 and 4000 ms after the start; 2 batches."""
    made = Node()
    made.create_topic("t", partitions=2)
    client = made.connect()
    for times in ((1000, 3000), (2000, 4000)):
        builder = BatchBuilder()
        for time in times:
            builder.append(START_MS + time, None, b"v%d" % time)
        assert produced(client, "t", builder.build()).error_code == 0
    return made


def asked(client: Client, timestamp: int, version: int = 11, **fields: Any) -> tuple[int, int, int]:
    answer = client.ask(list_offsets("t", (0, timestamp), **fields), version).topics[0].partitions[0]
    return answer.error_code, answer.offset, answer.timestamp


@pytest.mark.parametrize("version", range(1, 12))
def test_the_start_and_the_end_in_every_version(version: int, node: Node) -> None:
    client = node.connect()
    assert asked(client, -2, version) == (0, 0, -1)
    assert asked(client, -1, version) == (0, 4, -1)


def test_times_are_found_exactly(node: Node) -> None:
    client = node.connect()
    assert asked(client, START_MS) == (0, 0, START_MS + 1000)
    assert asked(client, START_MS + 1001) == (0, 1, START_MS + 3000)
    assert asked(client, START_MS + 3001) == (0, 3, START_MS + 4000)
    assert asked(client, START_MS + 4001) == (0, -1, -1), "no record is as late, which is no error"


def test_special_times_and_the_versions_that_know_them(node: Node) -> None:
    client = node.connect()
    assert asked(client, -3) == (0, 3, START_MS + 4000)
    assert asked(client, -4) == (0, 0, -1)
    assert asked(client, -5) == (0, -1, -1)
    assert asked(client, -6) == (0, -1, -1)
    for timestamp, version in ((-3, 6), (-4, 7), (-5, 8), (-6, 10), (-7, 11)):
        assert asked(client, timestamp, version)[0] == ErrorCode.UNSUPPORTED_VERSION


def test_a_partition_named_twice_is_an_invalid_request(node: Node) -> None:
    answers = node.connect().ask(list_offsets("t", (0, -1), (0, -2), (1, -1)), 7).topics[0].partitions
    assert {answer.partition_index: answer.error_code for answer in answers} == {0: ErrorCode.INVALID_REQUEST, 1: 0}
    assert len(answers) == 2


def test_unknown_partitions_and_epochs(node: Node) -> None:
    client = node.connect()
    answer = client.ask(list_offsets("t", (9, -1)), 7).topics[0].partitions[0]
    assert (answer.error_code, answer.offset) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert asked(client, -1, epoch=5)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


def test_what_is_not_replicated_is_not_found_and_not_read(node: Node) -> None:
    partition = node.broker.replicas.leader("t", 0, node.now_ms)
    assert isinstance(partition, Partition)
    partition.become_leader(
        partition.leader_epoch, (1, 2), (1, 2), node.now_ms, partition_epoch=partition.isr.partition_epoch + 1
    )
    client = node.connect()
    late = batch(b"late", timestamp_ms=START_MS + 9000)
    assert produced(client, "t", late).base_offset == 4
    assert partition.log_end_offset == 5
    assert asked(client, -1) == (0, 4, -1)
    assert asked(client, START_MS + 4001) == (0, -1, -1)
    assert asked(client, -3) == (0, -1, -1)
    assert values_of(partitions_of(client.ask(fetch("t", wanted(offset=4)), 12))[0]) == []


def test_a_new_leader_does_not_say_where_the_end_is_before_it_knows_what_is_replicated(node: Node) -> None:
    partition = node.broker.replicas.leader("t", 0, node.now_ms)
    assert isinstance(partition, Partition)
    epoch, next_epoch = partition.leader_epoch + 1, partition.isr.partition_epoch + 1
    partition.high_watermark = 3
    partition.become_leader(epoch, (1, 2), (1, 2), node.now_ms, partition_epoch=next_epoch)
    client = node.connect()
    assert asked(client, -1)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert asked(client, START_MS + 9999)[0] == ErrorCode.OFFSET_NOT_AVAILABLE
    assert asked(client, -1, version=4)[0] == ErrorCode.LEADER_NOT_AVAILABLE
    assert asked(client, -2) == (0, 0, -1)


# OffsetForLeaderEpoch


def end_of(client: Client, epoch: int, version: int = 4, partition: int = 0, current: int = -1) -> tuple[int, int, int]:
    wanted_partition = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted_partition])]
    )
    found = client.ask(request, version).topics[0].partitions[0]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", range(2, 5))
def test_an_epoch_ends_where_the_next_begins(version: int, node: Node) -> None:
    assert end_of(node.connect(), 0, version) == (0, 0, 4)
    node.restart()
    client = node.connect()
    epoch = node.broker.image.partition("t", 0).leader_epoch  # type: ignore[union-attr]
    assert produced(client, "t", batch()).base_offset == 4
    assert end_of(client, 0, version) == (0, 0, 4)
    assert end_of(client, epoch, version) == (0, epoch, 5)
    assert end_of(client, epoch + 1, version) == (0, -1, -1)


def test_epochs_of_unknown_partitions_and_of_stale_clients(node: Node) -> None:
    client = node.connect()
    assert end_of(client, 0, partition=9)[0] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert end_of(client, 0, current=3)[0] == ErrorCode.UNKNOWN_LEADER_EPOCH


# DeleteRecords


def deleted(client: Client, offset: int, *, topic: str = "t", partition: int = 0, version: int = 2) -> tuple[int, int]:
    partitions = [DeleteRecordsPartition(partition_index=partition, offset=offset)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=1000)
    found = client.ask(request, version).topics[0].partitions[0]
    return found.error_code, found.low_watermark


@pytest.mark.parametrize("version", range(3))
def test_deleted_records_are_not_served_any_more_also_after_a_restart(version: int, node: Node) -> None:
    client = node.connect()
    assert deleted(client, 3, version=version) == (0, 3)
    for _ in range(2):
        client = node.connect()
        assert asked(client, -2) == (0, 3, -1)
        assert (
            partitions_of(client.ask(fetch("t", wanted(offset=2)), 12))[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        )
        assert values_of(partitions_of(client.ask(fetch("t", wanted(offset=3)), 12))[0]) == [b"v2000", b"v4000"]
        node.restart()


def test_minus_1_deletes_up_to_the_high_watermark(node: Node) -> None:
    assert deleted(node.connect(), -1) == (0, 4)


def test_records_of_an_open_transaction_that_were_deleted_hold_nobody_back(node: Node) -> None:
    """A reader of what is committed that starts at the end would be sent back before the log's start otherwise."""
    partition = node.broker.replicas.leader("t", 0, node.now_ms)
    assert isinstance(partition, Partition)
    partition.log.producers.ongoing[1] = 7  # a producer's transaction begins there
    client = node.connect()
    assert asked(client, -1, isolation_level=1) == (0, 1, -1)
    assert deleted(client, 3) == (0, 3)
    assert asked(client, -1, isolation_level=1) == (0, 3, -1)
    data = partitions_of(client.ask(fetch("t", wanted(offset=3), isolation_level=1), 12))[0]
    assert (data.error_code, data.last_stable_offset, values_of(data)) == (0, 3, [])


def test_what_cannot_be_deleted(node: Node) -> None:
    node.create_topic("compacted", cleanup_policy="compact")
    node.create_topic("__consumer_offsets")
    client = node.connect()
    assert deleted(client, 5) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(client, -2) == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert deleted(client, 0, partition=9) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
    assert deleted(client, 0, topic="compacted") == (ErrorCode.POLICY_VIOLATION, -1)
    assert deleted(client, 0, topic="__consumer_offsets") == (ErrorCode.INVALID_TOPIC_EXCEPTION, -1)


def of_records(count: int, codec: Codec, at_ms: int, value: bytes = b"v") -> bytearray:
    builder = BatchBuilder(codec=codec)
    for number in range(count):
        builder.append(at_ms + number, b"k", value)
    return builder.build()


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize(("count", "value"), [(2_000, b"v"), (3, bytes(100_000))])
def test_a_batch_that_takes_long_to_search_is_searched_in_the_lane(codec: Codec, count: int, value: bytes) -> None:
    """A few hundred bytes can be millions of records."""
    node = Node()
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", of_records(count, codec, node.now_ms, value))
    node.held = lambda operation: isinstance(operation, ColdRead)
    client.send(list_offsets("t", (0, node.now_ms + 2)), 7)
    assert not client.answers
    node.let_go()
    found = client.receive().topics[0].partitions[0]
    assert (found.error_code, found.offset, found.timestamp) == (0, 2, node.now_ms + 2)
    assert asked(client, -3)[1] == count - 1


def test_a_small_batch_is_searched_on_the_loop() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", of_records(LOOKED_UP_INLINE_MAX_RECORDS, Codec.ZSTD, node.now_ms))
    node.held = lambda operation: isinstance(operation, ColdRead)
    assert asked(client, node.now_ms + 5)[1] == 5


@pytest.mark.parametrize("limit", ["LOOKED_UP_UNPACKED_MAX_BYTES", "LOOKED_UP_RECORDS_MAX"])
def test_a_batch_that_is_more_than_can_be_searched_is_an_error_of_its_partition(
    limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookup, limit, 1_000)
    node = Node()
    node.create_topic("t")
    client = node.connect()
    produced(client, "t", of_records(2_000, Codec.ZSTD, node.now_ms))
    answer = client.ask(list_offsets("t", (0, node.now_ms + 2)), 7)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.INVALID_RECORD


def test_what_a_search_found_is_not_taken_for_another_batch_in_its_place() -> None:
    node = Node()
    node.create_topic("t")
    client = node.connect()
    at_ms = node.now_ms
    produced(client, "t", of_records(500, Codec.NONE, at_ms))
    assert asked(client, at_ms + 7)[1] == 7
    partition = node.broker.replicas.leader("t", 0, node.now_ms)
    assert isinstance(partition, Partition)
    (segment,) = partition.log.segments.all
    assert segment.walks is not None
    assert len(segment.walks) == 1
    (position, crc, wanted_record) = next(iter(segment.walks))
    segment.walks = {(position, crc + 1, wanted_record): None}
    assert asked(client, at_ms + 7)[1] == 7
