"""The transactions of one partition of `__transaction_state`, and what their rules use. It knows no rules itself.

Replicated is `ids` alone. What waits for a commit, and which ends are under way, is soft state.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple, Protocol

from penstock.coordinator.runtime.timers import ShardTimers
from penstock.coordinator.transaction.transaction import (
    ONGOING,
    PREPARED,
    Transaction,
)
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.timeline import Timeline, TimelineMap
from penstock.records.wall import WallTime

TIMEOUT: Final = "timeout"
"""A timer of each open transaction."""


class Timing(Protocol):
    """The settings of the broker that the coordinator uses, as they are now."""

    @property
    def transaction_max_timeout_ms(self) -> int: ...

    @property
    def transactional_id_expiration_ms(self) -> int: ...

    @property
    def transaction_abort_timed_out_transaction_cleanup_interval_ms(self) -> int: ...

    @property
    def transaction_remove_expired_transaction_cleanup_interval_ms(self) -> int: ...


class Term:
    """The time from loading a partition to losing it. `over`: the partition is lost."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


class Ending:
    """A transaction whose end is decided and committed, and whose markers are being written.

    Attributes:
        transactional_id, transaction: as they were prepared.
        remaining: partitions without the marker so far; whoever writes markers takes them out.
        begun_ms: wall time of the beginning, which the completed transaction is stamped with.
        over: nothing is left to do here: it is complete, or the coordinator is another one.
    """

    __slots__ = ("_complete", "_term", "_then", "begun_ms", "remaining", "transaction", "transactional_id")

    def __init__(self, transactional_id: str, transaction: Transaction, term: Term, begun_ms: int) -> None:
        self.transactional_id = transactional_id
        self.transaction = transaction
        self.begun_ms = begun_ms
        self.remaining = {topic: set(partitions) for topic, partitions in transaction.partitions.items()}
        self._term = term
        self._complete = False
        self._then: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"Ending({self.transactional_id!r}, {self.transaction.state.name}, {len(self.remaining)} topics left)"

    @property
    def over(self) -> bool:
        return self._complete or self._term.over

    def is_marked(self, topic: str, partition: int) -> None:
        """The partition has the marker, or needs none any more."""
        partitions = self.remaining.get(topic)
        if partitions is not None:
            partitions.discard(partition)
            if not partitions:
                del self.remaining[topic]

    def finish(self) -> None:
        """The completed state is in the log, or is being committed."""
        self._complete = True
        waiting, self._then = self._then, []
        for then in waiting:
            then()

    def when_finished(self, then: Callable[[], None]) -> None:
        """Calls `then` at `finish`; never, if the coordinator becomes another one before."""
        self._then.append(then)


class Context(NamedTuple):
    """What the rules use of the node.

    Attributes:
        settings: the broker's, as they are now. transaction_version: the cluster's, as it is now.
        new_producer_id: the next producer id, given the time; None if none is at hand.
        ended: told of each end that is decided, with the time, once in a term.
        wall: for timestamps.
    """

    settings: Callable[[], Timing]
    transaction_version: Callable[[], int]
    new_producer_id: Callable[[int], int | None]
    ended: Callable[[Ending, int], None]
    wall: WallTime


class Transactions:
    """See the module's head. `timers`: of the partition's shard.

    Attributes:
        ids: transactional id -> transaction; replicated.
        writing: transactional ids with a transition that is not committed -> the transaction before it, if any.
        endings: ends under way.
        found: ids with an open transaction or a prepared end among the loaded ones, to be looked at.
        unexpired: ids that a search for expired ones has still to look at.
    """

    __slots__ = ("context", "endings", "found", "ids", "loading", "term", "timeline", "timers", "unexpired", "writing")

    def __init__(self, timers: ShardTimers, context: Context) -> None:
        self.timers = timers
        self.context = context
        self.timeline = Timeline()
        self.ids: TimelineMap[str, Transaction] = TimelineMap(self.timeline)
        self.writing: dict[str, Transaction | None] = {}
        self.endings: dict[str, Ending] = {}
        self.loading = True
        self.found: dict[str, None] = {}
        self.unexpired: list[str] = []
        self.term = Term()

    def current(self, transactional_id: str) -> Transaction | None:
        """The transaction as far as it is committed. Raises RequestError INVALID_REQUEST for the empty id."""
        check_id(transactional_id)
        if transactional_id in self.writing:
            return self.writing[transactional_id]
        return self.ids.get(transactional_id)

    def is_pending(self, transactional_id: str) -> bool:
        """Whether a transition is under way, so that clients have to wait."""
        if transactional_id in self.writing:
            return True
        transaction = self.ids.get(transactional_id)
        return transaction is not None and transaction.state in PREPARED

    def new_producer_id(self, now_ms: int) -> int:
        """A producer id. Raises RequestError COORDINATOR_LOAD_IN_PROGRESS if none is at hand, as in Kafka."""
        producer_id = self.context.new_producer_id(now_ms)
        if producer_id is None:
            raise RequestError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "this broker waits for producer ids")
        return producer_id

    def watch(self, transactional_id: str, now_ms: int) -> None:
        """Sets the timer of an open transaction, or cancels that of another one.

        The transaction is aborted at the first multiple of the interval of
        transaction.abort.timed.out.transaction.cleanup.interval.ms after its time-out. It counts by the node's time
        once it is known here: a clock that is set does not end transactions.
        """
        transaction = self.ids.get(transactional_id)
        key: Hashable = (TIMEOUT, transactional_id)
        if transaction is None or transaction.state is not ONGOING or transaction.is_two_phase:
            self.timers.cancel(key)
        elif key not in self.timers:
            left_ms = transaction.start_ms + transaction.timeout_ms - self.context.wall.at(now_ms)
            due_ms = now_ms + max(0, min(left_ms, transaction.timeout_ms))
            interval_ms = self.context.settings().transaction_abort_timed_out_transaction_cleanup_interval_ms
            self.timers.set(key, (due_ms // interval_ms + 1) * interval_ms)


def check_id(transactional_id: str) -> None:
    """Raises RequestError INVALID_REQUEST for the empty id."""
    if not transactional_id:
        raise RequestError(ErrorCode.INVALID_REQUEST, "a transactional id must not be empty")
