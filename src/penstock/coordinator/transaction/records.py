"""The records of `__transaction_state`: a whole transaction by its transactional id. Without a value the id is gone.

Value version 0 has no previous and next producer id, and no client version; version 1 is written from
transaction.version 1 on. Source: TransactionLog of Apache Kafka 4.3.
"""

from __future__ import annotations

from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.coordinator.transaction.transaction import (
    EMPTY,
    NO_PARTITIONS,
    NO_PRODUCER_EPOCH,
    Transaction,
    TransactionState,
)
from penstock.errors import CorruptRecordError
from penstock.protocol.messages.transaction.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction.transaction_log_value import PartitionsSchema, TransactionLogValue

VALUE_VERSIONS = (0, 1)


def record_of(transactional_id: str, transaction: Transaction, transaction_version: int) -> CoordinatorRecord:
    """The record of a transaction. `transaction_version`: the cluster's."""
    partitions = [
        PartitionsSchema(topic=topic, partition_ids=sorted(indexes))
        for topic, indexes in transaction.partitions.items()
    ]
    value = TransactionLogValue(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=None if transaction.state is EMPTY else partitions,
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.start_ms,
    )
    version = min(transaction_version, 1)
    if version:
        value.previous_producer_id = transaction.previous_producer_id
        value.next_producer_id = transaction.next_producer_id
        value.client_transaction_version = transaction.client_version
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id), value, version)


def tombstone(transactional_id: str) -> CoordinatorRecord:
    """The record after which a transactional id is forgotten."""
    return CoordinatorRecord(TransactionLogKey(transactional_id=transactional_id))


def transaction_of(value: TransactionLogValue) -> Transaction:
    """The transaction in a record. Raises CorruptRecordError for a state that there is not."""
    try:
        state = TransactionState(value.transaction_status)
    except ValueError:
        raise CorruptRecordError(f"there is no transaction state {value.transaction_status}") from None
    partitions = NO_PARTITIONS
    if state is not EMPTY and value.transaction_partitions:
        merged: dict[str, frozenset[int]] = {}
        for each in value.transaction_partitions:
            merged[each.topic] = merged.get(each.topic, frozenset()).union(each.partition_ids)
        partitions = merged
    return Transaction(
        producer_id=value.producer_id,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        epoch=value.producer_epoch,
        last_epoch=NO_PRODUCER_EPOCH,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=partitions,
        start_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
