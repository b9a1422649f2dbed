"""Transactional ids that nobody has used for transactional.id.expiration.ms are forgotten.

All ids are looked at every transaction.remove.expired.transaction.cleanup.interval.ms, some in each step.
"""

from __future__ import annotations

from typing import Final

from penstock.coordinator.limits import TRANSACTIONAL_IDS_PER_STEP
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.records import tombstone
from penstock.coordinator.transaction.state import Transactions
from penstock.coordinator.transaction.transaction import IDLE

EXPIRY: Final = "expiry"


def plan(state: Transactions, now_ms: int) -> None:
    """Plans the next look."""
    interval_ms = state.context.settings().transaction_remove_expired_transaction_cleanup_interval_ms
    state.timers.set((EXPIRY,), now_ms + interval_ms)


def expire(state: Transactions, key: tuple[str, ...], now_ms: int) -> Result[None]:
    """Forgets those of some ids that have expired. A refused step is taken again with the next look."""
    unexpired = state.unexpired
    if not unexpired:
        unexpired = state.unexpired = list(state.ids)
    some = unexpired[-TRANSACTIONAL_IDS_PER_STEP:]
    del unexpired[-TRANSACTIONAL_IDS_PER_STEP:]
    latest_ms = state.context.wall.at(now_ms) - state.context.settings().transactional_id_expiration_ms
    expired = [each for each in some if has_expired(state, each, latest_ms)]
    if unexpired:
        state.timers.set(key, now_ms)
    else:
        plan(state, now_ms)
    return Result(records=[tombstone(each) for each in expired], atomic=False, is_step=True)


def has_expired(state: Transactions, transactional_id: str, latest_ms: int) -> bool:
    """Whether nobody has used an id since `latest_ms`, and nothing is under way."""
    transaction = state.ids.get(transactional_id)
    return (
        transaction is not None
        and transaction.state in IDLE
        and transaction.updated_ms <= latest_ms
        and transactional_id not in state.writing
        and transactional_id not in state.endings
    )
