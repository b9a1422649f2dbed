"""How a transition is written, and what follows when it is committed: the next step of an end, or a time-out."""

from __future__ import annotations

from typing import Any, Final

from penstock.coordinator.limits import COORDINATOR_TIMER_RETRY_MS
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.records import record_of
from penstock.coordinator.transaction.state import Ending, Transactions
from penstock.coordinator.transaction.transaction import PREPARED, Transaction
from penstock.errors import ErrorCode

DRIVE: Final = "drive"
"""A timer of an id whose end is prepared, and perhaps not committed."""


def write(state: Transactions, transactional_id: str, after: Transaction, response: Any) -> Result[Any]:
    """The result that makes a transition; the response leaves when it is committed."""
    before = state.ids.get(transactional_id)
    state.writing[transactional_id] = before

    def replay() -> None:
        state.ids[transactional_id] = after

    def appended(code: ErrorCode, now_ms: int) -> None:
        state.writing.pop(transactional_id, None)
        state.watch(transactional_id, now_ms)
        if after.state in PREPARED and code in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
            proceed(state, transactional_id, code, now_ms)

    record = record_of(transactional_id, after, state.context.transaction_version())
    return Result(response, [record], appended=appended, replay=replay)


def drive(state: Transactions, key: tuple[str, str], now_ms: int) -> Result[None]:
    """Begins an end that is prepared, as soon as what is written is committed."""
    _, transactional_id = key
    transaction = state.ids.get(transactional_id)
    waits = transactional_id in state.writing or transactional_id in state.endings
    if transaction is None or transaction.state not in PREPARED or waits:
        return Result()
    return Result(appended=lambda code, at_ms: proceed(state, transactional_id, code, at_ms))


def proceed(state: Transactions, transactional_id: str, code: ErrorCode, now_ms: int) -> None:
    """Begins the end if its preparation is committed; looks again later if that takes long."""
    if code is ErrorCode.REQUEST_TIMED_OUT:
        state.timers.set((DRIVE, transactional_id), now_ms + COORDINATOR_TIMER_RETRY_MS)
    elif not code:
        begin(state, transactional_id, now_ms)


def begin(state: Transactions, transactional_id: str, now_ms: int) -> None:
    """Has the markers of a decided end sent, once."""
    transaction = state.ids.get(transactional_id)
    if transaction is None or transaction.state not in PREPARED or transactional_id in state.endings:
        return
    ending = Ending(transactional_id, transaction, state.term, state.context.wall.at(now_ms))
    state.endings[transactional_id] = ending
    state.context.ended(ending, now_ms)
