"""InitProducerId with a transactional id: a producer begins, and whoever used the id before is fenced.

An open transaction is aborted first: the client is told CONCURRENT_TRANSACTIONS and comes again. A producer that names
the producer id and epoch that it has (KIP-360) is fenced itself if another one came after it. When the epochs of the
producer id are used up, the id gets a new producer id.
"""

from __future__ import annotations

from typing import Any

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction import transaction as transitions
from penstock.coordinator.transaction.ending import abort_by_itself
from penstock.coordinator.transaction.state import Timing, Transactions
from penstock.coordinator.transaction.transaction import NO_PRODUCER_EPOCH, ONGOING, Producer, Transaction, is_exhausted
from penstock.coordinator.transaction.writing import write
from penstock.errors import ErrorCode, RequestError


def init_producer_id(
    state: Transactions, transactional_id: str, timeout_ms: int, expected: Producer | None, now_ms: int
) -> Result[Any]:
    """The producer with which the id goes on; or CONCURRENT_TRANSACTIONS, as a response, when the open transaction is
    being aborted.

    `expected`: what the requester had so far, or None. Raises RequestError: INVALID_REQUEST,
    INVALID_TRANSACTION_TIMEOUT, CONCURRENT_TRANSACTIONS, PRODUCER_FENCED, COORDINATOR_LOAD_IN_PROGRESS.
    """
    current = state.current(transactional_id)
    check_timeout(state.context.settings(), timeout_ms)
    if state.is_pending(transactional_id):
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transactional id is being changed")
    wall_ms = state.context.wall.at(now_ms)
    if current is None:
        current = transitions.created(state.new_producer_id(now_ms), timeout_ms, wall_ms)
    if expected is not None and not may_continue(current, expected):
        raise RequestError(ErrorCode.PRODUCER_FENCED, f"the producer id is {current.producer_id} by now")
    if current.state is ONGOING:
        return abort_by_itself(state, transactional_id, ErrorCode.CONCURRENT_TRANSACTIONS, now_ms)
    if current.is_epoch_exhausted and (expected is None or expected.epoch == current.epoch):
        after = transitions.with_new_producer_id(
            current, state.new_producer_id(now_ms), timeout_ms, wall_ms, keeps_last_epoch=expected is not None
        )
    else:
        epoch = None if expected is None else expected.epoch
        after = transitions.with_next_epoch(current, timeout_ms, epoch, wall_ms)
    return write(state, transactional_id, after, Producer(after.producer_id, after.epoch))


def check_timeout(settings: Timing, timeout_ms: int) -> None:
    """Raises RequestError INVALID_TRANSACTION_TIMEOUT for one that no transaction may have."""
    if not 0 < timeout_ms <= settings.transaction_max_timeout_ms:
        raise RequestError(
            ErrorCode.INVALID_TRANSACTION_TIMEOUT, f"{timeout_ms} is not within transaction.max.timeout.ms"
        )


def may_continue(current: Transaction, expected: Producer) -> bool:
    """Whether the requester's producer id is the present one, or the one before, whose epochs it had used up."""
    return (
        current.epoch == NO_PRODUCER_EPOCH
        or expected.id == current.producer_id
        or (expected.id == current.previous_producer_id and is_exhausted(expected.epoch))
    )
