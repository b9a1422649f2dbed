"""DescribeTransactions and ListTransactions: what is committed, without the partitions that have their markers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from penstock.config.linear_regex import InvalidRegexError
from penstock.coordinator.group.consumer.regex import compile_regex
from penstock.coordinator.limits import LISTED_PATTERN_WORK, LISTED_PATTERN_WORK_MAX, LISTED_TRANSACTIONS_PER_STEP
from penstock.coordinator.transaction.state import Transactions, check_id
from penstock.coordinator.transaction.transaction import NAMES, Transaction, TransactionState
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.describe_transactions_response import TopicData
from penstock.protocol.messages.describe_transactions_response import TransactionState as Described
from penstock.protocol.messages.list_transactions_response import TransactionState as Listed

BY_NAME = {name: state for state, name in NAMES.items()}


def describe_transaction(state: Transactions, at: int, transactional_id: str) -> Described:
    """One transaction as of the committed offset `at`. Raises RequestError: INVALID_REQUEST,
    TRANSACTIONAL_ID_NOT_FOUND.
    """
    check_id(transactional_id)
    transaction = state.ids.get(transactional_id, at=at)
    if transaction is None:
        raise RequestError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, "nobody uses this transactional id")
    ending = state.endings.get(transactional_id)
    ends = ending is not None and ending.transaction == transaction
    partitions = ending.remaining if ending is not None and ends else transaction.partitions
    return Described(
        transactional_id=transactional_id,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.epoch,
        transaction_state=NAMES[transaction.state],
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        topics=[TopicData(topic=topic, partitions=sorted(indexes)) for topic, indexes in partitions.items()],
    )


class ListFilter(NamedTuple):
    """Which transactions to list: empty collections, a negative duration and no pattern match all."""

    producer_ids: Collection[int]
    has_states: bool
    states: Collection[TransactionState]
    duration_ms: int
    pattern: Any

    def matches(self, transactional_id: str, transaction: Transaction, wall_ms: int) -> bool:
        if self.producer_ids and transaction.producer_id not in self.producer_ids:
            return False
        if self.has_states and transaction.state not in self.states:
            return False
        if self.duration_ms >= 0 and wall_ms - transaction.start_ms <= self.duration_ms:
            return False
        return self.pattern is None or self.pattern.fullmatch(transactional_id) is not None

    def portions(
        self, transactional_ids: Sequence[str], may_see: Callable[[str], bool] = lambda transactional_id: True
    ) -> Iterator[Sequence[str]]:
        """The ids in portions, each for one step. Raises RequestError INVALID_REGULAR_EXPRESSION for a pattern that
        would take too long with one of them; one that the requester may not see is left out, as the refusal would tell
        of it.

        RE2 takes no longer than the pattern's instructions times the bytes of the id. There are small patterns that
        take as long, with ids made for them.
        """
        instructions = 0 if self.pattern is None else self.pattern.programsize
        start, work = 0, 0
        for position, transactional_id in enumerate(transactional_ids):
            matching = instructions * len(transactional_id.encode())
            if matching > LISTED_PATTERN_WORK_MAX:
                if not may_see(transactional_id):
                    yield transactional_ids[start:position]
                    start, work = position + 1, 0
                    continue
                raise RequestError(
                    ErrorCode.INVALID_REGULAR_EXPRESSION,
                    f"The transaction ID pattern is too large for an ID of {len(transactional_id)} characters.",
                )
            cost = 1 + matching // LISTED_PATTERN_WORK
            if work + cost > LISTED_TRANSACTIONS_PER_STEP and position > start:
                yield transactional_ids[start:position]
                start, work = position, 0
            work += cost
        if start < len(transactional_ids):
            yield transactional_ids[start:]


def list_filter(
    producer_ids: Iterable[int], states: Collection[str], duration_ms: int, pattern: str | None
) -> tuple[ListFilter, list[str]]:
    """The filter, and names of states that there are not. Raises RequestError INVALID_REGULAR_EXPRESSION.

    The pattern is one of RE2, which Kafka's regular expressions nearly all are as well.
    """
    compiled = None
    if pattern:
        try:
            compiled = compile_regex(pattern)
        except InvalidRegexError as error:
            raise RequestError(
                ErrorCode.INVALID_REGULAR_EXPRESSION,
                f"Transaction ID pattern `{pattern}` is not a valid regular expression: {error}.",
            ) from None
    named = dict.fromkeys(states)
    known = {BY_NAME[name] for name in named if name in BY_NAME}
    unknown = [name for name in named if name not in BY_NAME]
    return ListFilter(frozenset(producer_ids), bool(states), known, duration_ms, compiled), unknown


def list_some(
    state: Transactions, at: int, transactional_ids: Iterable[str], wanted: ListFilter, wall_ms: int
) -> Iterator[Listed]:
    """Lists those of some ids that the filter matches, as of the committed offset `at`."""
    for transactional_id in transactional_ids:
        transaction = state.ids.get(transactional_id, at=at)
        if transaction is not None and wanted.matches(transactional_id, transaction, wall_ms):
            yield Listed(
                transactional_id=transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=NAMES[transaction.state],
            )
