"""The state machine of one partition of `__transaction_state`, as its shard sees it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Final

from penstock.coordinator.limits import ENDINGS_PER_STEP, TRANSACTIONAL_IDS_PER_STEP
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.coordinator.runtime.shard import Stored
from penstock.coordinator.transaction import ending, expiry, writing
from penstock.coordinator.transaction.records import VALUE_VERSIONS, transaction_of
from penstock.coordinator.transaction.state import TIMEOUT, Transactions
from penstock.coordinator.transaction.transaction import ONGOING, PREPARED
from penstock.events import events
from penstock.protocol.messages.transaction.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction.transaction_log_value import TransactionLogValue
from penstock.protocol.record_frames import two_bytes

RESUME: Final = "resume"
"""The timer after a load: for each step over what was found open."""

logger = events("coordinator.transaction")


class TransactionMachine:
    """See the module's head. Operations are functions of the `state`."""

    last_wins: ClassVar[frozenset[int]] = frozenset({TransactionLogKey.KEY})

    __slots__ = ("state", "timeline")

    def __init__(self, state: Transactions) -> None:
        self.state = state
        self.timeline = state.timeline

    def replay(self, record: CoordinatorRecord, offset: int, producer: tuple[int, int]) -> None:
        """Applies a record."""
        key, value = record.key, record.value
        if not isinstance(key, TransactionLogKey):
            return
        state, transactional_id = self.state, key.transactional_id
        if value is None:
            state.ids.pop(transactional_id)
        else:
            assert isinstance(value, TransactionLogValue)
            state.ids[transactional_id] = transaction_of(value)
        if state.loading:
            transaction = state.ids.get(transactional_id)
            if transaction is not None and (transaction.state is ONGOING or transaction.state in PREPARED):
                state.found[transactional_id] = None
            else:
                state.found.pop(transactional_id, None)

    def replay_stored(self, records: Sequence[Stored]) -> int:
        """Passes over records whose version is newer than any that is known, as Kafka does; others go to `replay`."""
        for position, (_, (offset, value)) in enumerate(records):
            if two_bytes(value) in VALUE_VERSIONS:
                return position
            logger.warning("a transaction of an unknown version is ignored", offset=offset, version=two_bytes(value))
        return len(records)

    def replay_end_marker(self, producer: tuple[int, int], committed: bool, offset: int) -> None:
        """Nothing: no transaction writes to this topic."""

    def loaded(self, now_ms: int) -> None:
        """The log is replayed: open transactions get their timers, and prepared ends go on, in steps."""
        self.state.loading = False
        expiry.plan(self.state, now_ms)
        if self.state.found:
            self.state.timers.set((RESUME,), now_ms)

    def unloaded(self, now_ms: int) -> None:
        """This node is no longer the coordinator: no more markers of these ends are sent."""
        self.state.term.over = True

    def expired(self, key: Hashable, now_ms: int) -> Result[Any]:
        """A timer is due."""
        assert isinstance(key, tuple)
        return EXPIRED[key[0]](self.state, key, now_ms)


def resume(state: Transactions, key: tuple[str, ...], now_ms: int) -> Result[None]:
    """Looks at some transactions that were found open or prepared. It waits for none of them: the markers of any number
    may have to wait for a partition that is offline.
    """
    prepared = 0
    for _ in range(min(TRANSACTIONAL_IDS_PER_STEP, len(state.found))):
        if prepared == ENDINGS_PER_STEP:
            break
        transactional_id, _ = state.found.popitem()
        transaction = state.ids.get(transactional_id)
        if transaction is None:
            continue
        if transaction.state in PREPARED and transactional_id not in state.writing:
            prepared += 1
            state.timers.set((writing.DRIVE, transactional_id), now_ms)
        else:
            state.watch(transactional_id, now_ms)
    if state.found:
        state.timers.set(key, now_ms)
    return Result(is_step=True)


EXPIRED: Mapping[str, Callable[[Transactions, Any, int], Result[Any]]] = {
    TIMEOUT: ending.timed_out,
    ending.COMPLETE: ending.complete_again,
    expiry.EXPIRY: expiry.expire,
    RESUME: resume,
    writing.DRIVE: writing.drive,
}
