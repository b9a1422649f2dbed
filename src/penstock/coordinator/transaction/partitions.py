"""AddPartitionsToTxn and AddOffsetsToTxn: partitions come into the transaction, or are looked for in it.

A leader that has to verify a partition before it appends asks the same API; it sees what is committed.
"""

from __future__ import annotations

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction import transaction as transitions
from penstock.coordinator.transaction.state import Transactions, check_id
from penstock.coordinator.transaction.transaction import ONGOING, PREPARED, Partitions, Producer, Transaction
from penstock.coordinator.transaction.writing import write
from penstock.errors import ErrorCode, RequestError


def add_partitions(
    state: Transactions,
    transactional_id: str,
    producer: Producer,
    partitions: Partitions,
    now_ms: int,
    *,
    client_version: int,
) -> Result[ErrorCode]:
    """Adds partitions to the transaction, which begins with the first.

    `client_version`: the transaction version of the client. Raises RequestError: INVALID_REQUEST,
    INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED.
    """
    found = state.current(transactional_id)
    if state.is_pending(transactional_id):
        # First of all: the producer may use a new producer id that is not committed here.
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transactional id is being changed")
    current = known(found)
    check_producer(current, producer)
    if current.state is ONGOING and current.has(partitions):
        return Result(ErrorCode.NONE)
    after = transitions.with_partitions(current, partitions, client_version, state.context.wall.at(now_ms))
    return write(state, transactional_id, after, ErrorCode.NONE)


def verify_partitions(
    state: Transactions, at: int, transactional_id: str, producer: Producer, partitions: Partitions
) -> Partitions:
    """Looks for partitions in the transaction, as of the committed offset `at`, and returns those that are not there.

    Raises RequestError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS.
    """
    check_id(transactional_id)
    current = known(state.ids.get(transactional_id, at=at))
    check_producer(current, producer)
    if current.state in PREPARED:
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transaction is being ended")
    own = current.partitions
    missing = {topic: wanted - own.get(topic, frozenset()) for topic, wanted in partitions.items()}
    return {topic: indexes for topic, indexes in missing.items() if indexes}


def known(transaction: Transaction | None) -> Transaction:
    """The transaction. Raises RequestError INVALID_PRODUCER_ID_MAPPING for an id that nobody uses."""
    if transaction is None:
        raise RequestError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "nobody uses this transactional id")
    return transaction


def check_producer(transaction: Transaction, producer: Producer) -> None:
    """Raises RequestError unless the producer is the one that may use the id."""
    if transaction.producer_id != producer.id:
        raise RequestError(
            ErrorCode.INVALID_PRODUCER_ID_MAPPING, f"the producer id is {transaction.producer_id}, not {producer.id}"
        )
    if transaction.epoch != producer.epoch:
        raise RequestError(ErrorCode.PRODUCER_FENCED, f"the epoch is {transaction.epoch}, not {producer.epoch}")
