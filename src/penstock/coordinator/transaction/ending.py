"""EndTxn, and ends that no client asks for: time-outs, and producers that are fenced.

The client is answered as soon as the end is committed; the markers follow. With transaction version 2 the next epoch is
part of the end, and the answer: a repeated EndTxn is told by its older epoch.

    with version 2:   abort, repeated   abort           commit, repeated   commit
    Empty             PRODUCER_FENCED   ends            PRODUCER_FENCED    INVALID_TXN_STATE
    CompleteAbort     answered again    ends            INVALID_TXN_STATE  INVALID_TXN_STATE
    CompleteCommit    INVALID_TXN_STATE ends            answered again     INVALID_TXN_STATE

An abort without a transaction ends one all the same: its client does not know whether a first append has added a
partition. With version 1, Empty takes no end, and a completed one is answered again if it was the same.
"""

from __future__ import annotations

from typing import Any, Final

from penstock.coordinator.limits import COORDINATOR_TIMER_RETRY_MS
from penstock.coordinator.runtime.result import KEPT, Result
from penstock.coordinator.transaction import transaction as transitions
from penstock.coordinator.transaction.partitions import check_producer, known
from penstock.coordinator.transaction.records import record_of
from penstock.coordinator.transaction.state import Ending, Transactions
from penstock.coordinator.transaction.transaction import (
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    EMPTY,
    EPOCH_BUMP_FROM,
    EPOCH_MAX,
    NAMES,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARED,
    Producer,
    Transaction,
)
from penstock.coordinator.transaction.writing import write
from penstock.errors import ErrorCode, RequestError

COMPLETE: Final = "complete"
"""A timer of an end whose completion could not be appended."""
NO_NEWS: Final = Producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)
"""The answer to a client of transaction version 1, which goes on as it is."""


def end_transaction(
    state: Transactions,
    transactional_id: str,
    producer: Producer,
    client_version: int,
    now_ms: int,
    *,
    commit: bool,
) -> Result[Producer]:
    """EndTxn: the producer to go on with. `client_version`: the transaction version of the client.

    Raises RequestError: INVALID_REQUEST, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS,
    INVALID_TXN_STATE, COORDINATOR_LOAD_IN_PROGRESS.
    """
    current = state.current(transactional_id)
    if client_version < EPOCH_BUMP_FROM:
        return end_in_old_way(state, transactional_id, known(current), producer, now_ms, commit=commit)
    if state.is_pending(transactional_id):
        # First of all: the producer may use a new producer id that is not committed here.
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transactional id is being changed")
    current = known(current)
    if is_repeated(current, producer):
        if current.state is not (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
            raise wrong_state(current, commit=commit)
        return Result(Producer(current.producer_id, current.epoch))
    if commit and current.state is not ONGOING:
        raise wrong_state(current, commit=commit)
    next_producer_id = state.new_producer_id(now_ms) if current.is_epoch_exhausted else NO_PRODUCER_ID
    wall_ms = state.context.wall.at(now_ms)
    prepare = PREPARE_COMMIT if commit else PREPARE_ABORT
    after = transitions.prepared(current, prepare, client_version, next_producer_id, wall_ms)
    goes_on = transitions.completed(after, wall_ms)
    return write(state, transactional_id, after, Producer(goes_on.producer_id, goes_on.epoch))


def is_repeated(current: Transaction, producer: Producer) -> bool:
    """Whether a client of version 2 asks again for the end before, as it may not have had the answer.

    Raises RequestError, INVALID_PRODUCER_ID_MAPPING or PRODUCER_FENCED, unless the client may end a transaction.
    """
    has_overflowed = (
        current.epoch == 0 and producer.epoch == EPOCH_MAX - 1 and current.previous_producer_id == producer.id
    )
    is_same = current.producer_id == producer.id
    is_complete = current.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
    if is_complete and (has_overflowed or (is_same and current.epoch == producer.epoch + 1)):
        return True
    check_producer(current, Producer(current.producer_id, producer.epoch) if has_overflowed else producer)
    return False


def end_in_old_way(
    state: Transactions,
    transactional_id: str,
    current: Transaction,
    producer: Producer,
    now_ms: int,
    *,
    commit: bool,
) -> Result[Producer]:
    """EndTxn of a client of transaction version 1: the epoch stays."""
    check_producer(current, producer)
    if state.is_pending(transactional_id):
        raise RequestError(ErrorCode.CONCURRENT_TRANSACTIONS, "the transactional id is being changed")
    if current.state is ONGOING:
        prepare = PREPARE_COMMIT if commit else PREPARE_ABORT
        after = transitions.prepared(current, prepare, 0, NO_PRODUCER_ID, state.context.wall.at(now_ms))
        return write(state, transactional_id, after, NO_NEWS)
    if current.state is EMPTY or current.state is not (COMPLETE_COMMIT if commit else COMPLETE_ABORT):
        raise wrong_state(current, commit=commit)
    return Result(NO_NEWS)


def wrong_state(current: Transaction, *, commit: bool) -> RequestError:
    """The error of an end that does not fit."""
    what = "commit" if commit else "abort"
    return RequestError(ErrorCode.INVALID_TXN_STATE, f"there is nothing to {what} in state {NAMES[current.state]}")


def abort_by_itself(state: Transactions, transactional_id: str, response: Any, now_ms: int) -> Result[Any]:
    """Aborts an open transaction that nobody goes on with, and fences its producer, in the cluster's way.

    Raises RequestError COORDINATOR_LOAD_IN_PROGRESS.
    """
    current = state.ids[transactional_id]
    assert current.state is ONGOING, current
    version = state.context.transaction_version()
    next_producer_id = NO_PRODUCER_ID
    if version < EPOCH_BUMP_FROM:
        current, version = transitions.fenced(current), 0
    elif current.is_epoch_exhausted:
        next_producer_id = state.new_producer_id(now_ms)
    after = transitions.prepared(current, PREPARE_ABORT, version, next_producer_id, state.context.wall.at(now_ms))
    return write(state, transactional_id, after, response)


def timed_out(state: Transactions, key: tuple[str, str], now_ms: int) -> Result[None]:
    """The time of a transaction is over."""
    _, transactional_id = key
    transaction = state.ids.get(transactional_id)
    if transaction is None or transaction.state is not ONGOING or transactional_id in state.writing:
        return Result()  # what is being written sets the timer again, if need be
    return abort_by_itself(state, transactional_id, None, now_ms)


# Completion


def complete(state: Transactions, ending: Ending, now_ms: int) -> Result[None]:
    """All markers of an end are written: so says the log from now on."""
    transactional_id, prepared = ending.transactional_id, ending.transaction
    if ending.over or state.endings.get(transactional_id) is not ending:
        return Result()
    assert not ending.remaining, ending
    if state.ids[transactional_id] is not prepared:
        return Result()  # it is being written: two answers about the last markers may have come in one turn
    after = transitions.completed(prepared, ending.begun_ms)

    def replay() -> None:
        state.ids[transactional_id] = after

    def appended(code: ErrorCode, at_ms: int) -> None:
        if code in KEPT:
            ending.finish()
            state.endings.pop(transactional_id, None)
        elif not ending.over:
            state.timers.set((COMPLETE, transactional_id), at_ms + COORDINATOR_TIMER_RETRY_MS)

    record = record_of(transactional_id, after, state.context.transaction_version())
    return Result(None, [record], appended=appended, replay=replay)


def complete_again(state: Transactions, key: tuple[str, str], now_ms: int) -> Result[None]:
    """Tries again to complete an end, if it is still to be completed."""
    ending = state.endings.get(key[1])
    if ending is None or state.ids[key[1]].state not in PREPARED:
        return Result()
    return complete(state, ending, now_ms)
