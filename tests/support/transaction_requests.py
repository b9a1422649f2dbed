"""Requests of transactions as tests send them to a `support.broker.Node`.

node = Node(**ALONE)
coordinate(node)
producer = begin(node.connect())
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penstock.coordinator.transaction.transaction import Producer
from penstock.errors import ErrorCode
from penstock.protocol.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from penstock.protocol.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.messages.add_partitions_to_txn_response import AddPartitionsToTxnTopicResult
from penstock.protocol.messages.describe_transactions_request import DescribeTransactionsRequest
from penstock.protocol.messages.describe_transactions_response import TransactionState
from penstock.protocol.messages.end_txn_request import EndTxnRequest
from penstock.protocol.messages.init_producer_id_request import InitProducerIdRequest
from support.broker import Client, Node
from support.group_requests import find

ID = "t"
TIMEOUT_MS = 60_000
TRANSACTION_KEY = 1
ALONE: dict[str, Any] = {
    "transaction_state_log_num_partitions": 2,
    "transaction_state_log_replication_factor": 1,
    "transaction_state_log_min_isr": 1,
    "offsets_topic_num_partitions": 1,
    "offsets_topic_replication_factor": 1,
}
"""Settings of a node that is alone."""

Partition = tuple[str, int]


def coordinate(node: Node) -> None:
    """Has the coordinator's topic made, and waits until it is led."""
    (found,) = node.connect().ask(find(ID, kind=TRANSACTION_KEY), 6).coordinators
    assert found.error_code == ErrorCode.NONE, found
    node.settle()


def init(transactional_id: str | None = ID, *, timeout_ms: int = TIMEOUT_MS, producer: Producer | None = None) -> Any:
    producer_id, epoch = producer or (-1, -1)
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def begin(client: Client, transactional_id: str = ID, *, version: int = 5) -> Producer:
    """InitProducerId that succeeds."""
    answer = client.ask(init(transactional_id), version)
    assert answer.error_code == ErrorCode.NONE, answer
    return Producer(answer.producer_id, answer.producer_epoch)


def topics_of(partitions: Sequence[Partition]) -> list[AddPartitionsToTxnTopic]:
    merged: dict[str, list[int]] = {}
    for topic, index in partitions:
        merged.setdefault(topic, []).append(index)
    return [AddPartitionsToTxnTopic(name=name, partitions=indexes) for name, indexes in merged.items()]


def add(producer: Producer, *partitions: Partition, of: str = ID) -> AddPartitionsToTxnRequest:
    """As a client, versions 0-3."""
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=of,
        v3_and_below_producer_id=producer.id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=topics_of(partitions),
    )


def transaction(
    producer: Producer, *partitions: Partition, of: str = ID, verify: bool = False
) -> AddPartitionsToTxnTransaction:
    """One of those that a broker asks about, versions 4-5."""
    return AddPartitionsToTxnTransaction(
        transactional_id=of,
        producer_id=producer.id,
        producer_epoch=producer.epoch,
        verify_only=verify,
        topics=topics_of(partitions),
    )


def batch_of(*transactions: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnRequest:
    return AddPartitionsToTxnRequest(transactions=list(transactions))


def codes_of(results: Sequence[AddPartitionsToTxnTopicResult]) -> Mapping[Partition, ErrorCode]:
    return {
        (topic.name, each.partition_index): ErrorCode(each.partition_error_code)
        for topic in results
        for each in topic.results_by_partition
    }


def add_offsets(producer: Producer, group_id: str = "g", *, of: str = ID) -> AddOffsetsToTxnRequest:
    return AddOffsetsToTxnRequest(
        transactional_id=of, producer_id=producer.id, producer_epoch=producer.epoch, group_id=group_id
    )


def end(producer: Producer, *, commit: bool = True, of: str = ID) -> EndTxnRequest:
    return EndTxnRequest(transactional_id=of, producer_id=producer.id, producer_epoch=producer.epoch, committed=commit)


def described(client: Client, transactional_id: str = ID) -> TransactionState:
    (state,) = client.ask(DescribeTransactionsRequest(transactional_ids=[transactional_id]), 0).transaction_states
    assert isinstance(state, TransactionState)
    return state
