"""What goes wrong with one partition of a request: the request's others are served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.broker import Client, Node
from support.requests import batch, fetch, list_offsets, partitions_of, produce, produced, wanted

from penstock.errors import CorruptRecordError, ErrorCode, InvalidRecordError, StorageError
from penstock.log.log import Log
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
from penstock.replication.partition import Partition
from penstock.replication.replicas import Replicas

BAD, FINE = 0, 1
ERRORS = pytest.mark.parametrize(
    ("error", "code", "bugs"),
    [
        (CorruptRecordError("damage"), ErrorCode.CORRUPT_MESSAGE, 0),
        (InvalidRecordError("a record that lies"), ErrorCode.INVALID_RECORD, 0),
        (StorageError("the log is shut"), ErrorCode.KAFKA_STORAGE_ERROR, 0),
        (LookupError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR, 1),
    ],
    ids=["damage", "a lie", "shut", "a bug"],
)


@pytest.fixture
def node() -> Node:
    node = Node()
    node.bugs_expected = True
    node.create_topic("t", partitions=2)
    client = node.connect()
    for index in (BAD, FINE):
        assert produced(client, "t", batch(), partition=index).error_code == 0
    return node


@pytest.fixture
def client(node: Node) -> Client:
    return node.connect()


def failing(error: Exception, real: Callable[..., Any]) -> Callable[..., Any]:
    """A method of logs that raises for the bad partition."""

    def method(log: Log, *arguments: Any, **named: Any) -> Any:
        if log.name == f"t-{BAD}":
            raise error
        return real(log, *arguments, **named)

    return method


@ERRORS
def test_of_a_fetch(
    node: Node, client: Client, *, error: Exception, code: ErrorCode, bugs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "read", failing(error, Log.read))
    answer = client.ask(fetch("t", wanted(BAD), wanted(FINE)), 12)
    assert answer.error_code == 0
    found = partitions_of(answer)
    assert (found[BAD].error_code, found[FINE].error_code) == (code, 0)
    assert found[FINE].records
    assert len(node.bugs) == bugs


@ERRORS
def test_of_a_look_up(
    node: Node, client: Client, *, error: Exception, code: ErrorCode, bugs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "offset_for_timestamp", failing(error, Log.offset_for_timestamp))
    answer = client.ask(list_offsets("t", (BAD, 1), (FINE, 1)), 6)
    found = {each.partition_index: each for each in answer.topics[0].partitions}
    assert (found[BAD].error_code, found[FINE].error_code) == (code, 0)
    assert found[FINE].offset == 0
    assert len(node.bugs) == bugs


@ERRORS
def test_of_a_produce(
    node: Node, client: Client, *, error: Exception, code: ErrorCode, bugs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "append_as_leader", failing(error, Log.append_as_leader))
    answer = client.ask(produce("t", batch(), batch()), 9)
    found = {each.index: each for each in answer.responses[0].partition_responses}
    assert (found[BAD].error_code, found[FINE].error_code) == (code, 0)
    assert found[FINE].base_offset == 1
    assert len(node.bugs) == bugs


@ERRORS
def test_of_an_epoch(
    node: Node, client: Client, *, error: Exception, code: ErrorCode, bugs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real: Any = Partition.check_epoch

    def check_epoch(partition: Partition, leader_epoch: int) -> Any:
        if partition.index == BAD:
            raise error
        return real(partition, leader_epoch)

    monkeypatch.setattr(Partition, "check_epoch", check_epoch)
    partitions = [OffsetForLeaderPartition(partition=index, current_leader_epoch=-1) for index in (BAD, FINE)]
    topics = [OffsetForLeaderTopic(topic="t", partitions=partitions)]
    answer = client.ask(OffsetForLeaderEpochRequest(replica_id=-1, topics=topics), 4)
    found = {each.partition: each for each in answer.topics[0].partitions}
    assert (found[BAD].error_code, found[FINE].error_code) == (code, 0)
    assert found[FINE].end_offset == 1
    assert len(node.bugs) == bugs


@ERRORS
def test_of_a_deletion(
    node: Node, client: Client, *, error: Exception, code: ErrorCode, bugs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Log, "advance_log_start", failing(error, Log.advance_log_start))
    partitions = [DeleteRecordsPartition(partition_index=index, offset=1) for index in (BAD, FINE)]
    topics = [DeleteRecordsTopic(name="t", partitions=partitions)]
    answer = client.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1000), 2)
    found = {each.partition_index: each for each in answer.topics[0].partitions}
    assert (found[BAD].error_code, found[FINE].error_code) == (code, 0)
    assert (found[BAD].low_watermark, found[FINE].low_watermark) == (-1, 1)
    assert len(node.bugs) == bugs


def test_one_that_cannot_be_led_leaves_the_others_alone(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The logs of all are opened first, for all of them."""
    node.restart()
    client = node.connect()
    real: Any = Replicas._lead

    def lead(replicas: Replicas, topic: str, index: int, *rest: Any) -> Any:
        if topic == "t" and index == BAD:
            raise LookupError("a bug")
        return real(replicas, topic, index, *rest)

    monkeypatch.setattr(Replicas, "_lead", lead)
    answer = client.ask(list_offsets("t", (BAD, -1), (FINE, -1)), 6)
    found = {each.partition_index: each for each in answer.topics[0].partitions}
    assert (found[BAD].error_code, found[FINE].error_code) == (ErrorCode.UNKNOWN_SERVER_ERROR, 0)
    assert found[FINE].offset == 1
    assert len(node.bugs) == 1
