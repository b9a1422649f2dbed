"""The transactional producer's conversation with its coordinator, with transaction.version 2 and before it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client import coordinators, transactional
from penstock.client.producer import Message, Producer
from penstock.client.transactional import Transactions
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn_response import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.end_txn_response import EndTxnResponse
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from penstock.protocol.messages.init_producer_id_response import InitProducerIdResponse
from penstock.records.batch import BatchHeader, read_header

PRODUCER_ID = 4000


class Cluster:
    """Stands for a connected client: a coordinator that answers, and leaders that take batches.

    Attributes:
        features: finalized levels. codes: errors by API key, each given once, in order. asked: (API key, version at
            most) of what the coordinator was asked. batches: headers and options of what was produced.
    """

    brokers = (1, 2)

    def __init__(self, level: int) -> None:
        self.features = {"transaction.version": level}
        self.codes: dict[int, list[ErrorCode]] = {}
        self.asked: list[tuple[int, int | None]] = []
        self.requests: list[Any] = []
        self.batches: list[tuple[int, BatchHeader, str | None, int | None]] = []
        self.epoch = 3
        self.coordinator = 1
        self.refused: ErrorCode | None = None

    async def connection(self, _: int | None) -> Cluster:
        return self

    def version_for(self, _: int) -> int:
        return 6

    async def ask_any(self, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        assert (request.key_type, request.coordinator_keys) == (1, ["copier"])
        return FindCoordinatorResponse(coordinators=[Coordinator(node_id=self.coordinator)])

    async def send(self, request: Any, *, node_id: int, at_most: int | None = None) -> Any:
        self.asked.append((request.KEY, at_most))
        self.requests.append(request)
        code = codes.pop(0) if (codes := self.codes.get(request.KEY)) else ErrorCode.NONE
        if node_id != self.coordinator:
            code = ErrorCode.NOT_COORDINATOR
        if isinstance(request, InitProducerIdRequest):
            return InitProducerIdResponse(error_code=code, producer_id=PRODUCER_ID, producer_epoch=self.epoch)
        if isinstance(request, AddPartitionsToTxnRequest):
            results = [
                AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        AddPartitionsToTxnPartitionResult(partition_index=each, partition_error_code=code)
                        for each in topic.partitions
                    ],
                )
                for topic in request.v3_and_below_topics
            ]
            return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
        assert isinstance(request, EndTxnRequest)
        assert (request.producer_id, request.producer_epoch) == (PRODUCER_ID, self.epoch)
        self.epoch += self.features["transaction.version"] == 2 and not code
        return EndTxnResponse(error_code=code, producer_id=PRODUCER_ID, producer_epoch=self.epoch)

    async def produce(
        self,
        _: str,
        partition: int,
        batch: bytes,
        *,
        transactional_id: str | None = None,
        at_most: int | None = None,
    ) -> tuple[int, int]:
        if self.refused is not None:
            raise RequestError(self.refused)
        self.batches.append((partition, read_header(batch), transactional_id, at_most))
        return 0, -1


INIT, ADD, END = InitProducerIdRequest.KEY, AddPartitionsToTxnRequest.KEY, EndTxnRequest.KEY


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits before it is tried again."""
    monkeypatch.setattr(coordinators, "CLIENT_RETRY_BACKOFF_MS", 0)
    monkeypatch.setattr(transactional, "RETRY_S", 0)


def play(cluster: Cluster, job: Callable[[Transactions, Producer], Awaitable[None]]) -> None:
    """Opens a transactional producer for the job."""

    async def work() -> None:
        transactions = Transactions(cluster, "copier")  # type: ignore[arg-type]
        await transactions.open()
        producer = Producer(cluster, "clicks", 3, transactions=transactions)  # type: ignore[arg-type]
        await producer.open()
        await job(transactions, producer)

    asyncio.run(work())


async def two_transactions(transactions: Transactions, producer: Producer) -> None:
    """Two records in two partitions and a third, and one more in a second transaction."""
    for partition in (0, 1, 0):
        await producer.add(Message(b"v", 1, partition=partition))
    await producer.flush()
    await transactions.end(committed=True)
    await producer.add(Message(b"v", 1, partition=0))
    await producer.flush()
    await transactions.end(committed=False)


def test_with_version_2_partitions_join_by_their_batches_and_each_end_gives_the_next_epoch() -> None:
    cluster = Cluster(level=2)
    play(cluster, two_transactions)
    assert cluster.asked == [(INIT, 5), (END, None), (END, None)]
    assert [(each.committed, each.producer_epoch) for each in cluster.requests[1:]] == [(True, 3), (False, 4)]
    assert [
        (partition, header.producer_epoch, header.base_sequence, header.record_count)
        for partition, header, *_ in cluster.batches
    ] == [(0, 3, 0, 2), (1, 3, 0, 1), (0, 4, 0, 1)]
    assert all(header.is_transactional for _, header, *_ in cluster.batches)
    assert {(name, at_most) for *_, name, at_most in cluster.batches} == {("copier", None)}


def test_before_version_2_partitions_are_added_together_and_sequences_go_on() -> None:
    cluster = Cluster(level=1)
    play(cluster, two_transactions)
    assert cluster.asked == [(INIT, 5), (ADD, 3), (END, 4), (ADD, 3), (END, 4)]
    assert [each.v3_and_below_topics[0].partitions for each in cluster.requests if each.KEY == ADD] == [[0, 1], [0]]
    assert [(header.producer_epoch, header.base_sequence) for _, header, *_ in cluster.batches] == [
        (3, 0),
        (3, 0),
        (3, 2),
    ]
    assert {at_most for *_, at_most in cluster.batches} == {11}


def test_a_transaction_without_records_is_not_ended_at_all() -> None:
    cluster = Cluster(level=2)

    async def nothing(transactions: Transactions, _: Producer) -> None:
        await transactions.end(committed=True)

    play(cluster, nothing)
    assert cluster.asked == [(INIT, 5)]


def test_who_comes_while_the_last_transaction_ends_asks_again() -> None:
    cluster = Cluster(level=1)
    waiting = [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    cluster.codes = {INIT: [*waiting], ADD: [*waiting], END: [*waiting]}
    play(cluster, two_transactions)
    assert [key for key, _ in cluster.asked] == [INIT] * 3 + [ADD] * 3 + [END] * 3 + [ADD, END]


def test_a_coordinator_that_has_moved_is_looked_up() -> None:
    cluster = Cluster(level=2)

    async def move(transactions: Transactions, producer: Producer) -> None:
        cluster.coordinator = 2
        await two_transactions(transactions, producer)

    play(cluster, move)
    assert [key for key, _ in cluster.asked] == [INIT, END, END, END]


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
def test_who_is_fenced_hears_why(code: ErrorCode) -> None:
    for level in (1, 2):
        ending = Cluster(level)
        ending.codes = {END: [code]}
        with pytest.raises(RequestError, match=rf"id copier: another producer has taken it over, .*\({code.name}\)"):
            play(ending, two_transactions)
        writing = Cluster(level)
        writing.refused = code
        with pytest.raises(RequestError, match="id copier: another producer has taken it over"):
            play(writing, two_transactions)


def test_what_the_coordinator_refuses_is_said_of_the_id() -> None:
    cluster = Cluster(level=1)
    cluster.codes = {INIT: [ErrorCode.INVALID_TRANSACTION_TIMEOUT]}
    with pytest.raises(RequestError, match=r"id copier: its timeout must be .* transaction\.max\.timeout\.ms"):
        play(cluster, two_transactions)


def test_of_several_partitions_the_error_counts_that_is_the_reason() -> None:
    partitions = [
        AddPartitionsToTxnPartitionResult(partition_index=0, partition_error_code=ErrorCode.OPERATION_NOT_ATTEMPTED),
        AddPartitionsToTxnPartitionResult(partition_index=1, partition_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ]
    topic = AddPartitionsToTxnTopicResult(name="clicks", results_by_partition=partitions)
    answer = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[topic])
    assert transactional.adding_error(answer) == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert transactional.adding_error(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=[])) == 0
