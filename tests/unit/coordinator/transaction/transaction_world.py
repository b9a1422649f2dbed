"""A transaction coordinator over one partition, with time, commits, markers and failures under a test's control.

Time stands still unless the test moves it. Markers of an end are written when the test says so (`mark`), or at once
with `marks`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unit.coordinator.one_partition import OnePartition

from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.describe import describe_transaction
from penstock.coordinator.transaction.ending import complete, end_transaction
from penstock.coordinator.transaction.init_producer_id import init_producer_id
from penstock.coordinator.transaction.machine import TransactionMachine
from penstock.coordinator.transaction.partitions import add_partitions, verify_partitions
from penstock.coordinator.transaction.state import Context, Ending, Transactions
from penstock.coordinator.transaction.transaction import Partitions, Producer, Transaction
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.describe_transactions_response import TransactionState as Described
from penstock.protocol.messages.transaction.transaction_log_key import TransactionLogKey
from penstock.protocol.messages.transaction.transaction_log_value import TransactionLogValue
from penstock.protocol.record_frames import decode_coordinator_key, decode_coordinator_value
from penstock.records.batch import read_header
from penstock.records.reader import records
from penstock.records.wall import WallTime

TIMEOUT_MS = 60_000
T = "t"


@dataclass
class Settings:
    """The settings of the coordinator."""

    transaction_max_timeout_ms: int = 900_000
    transactional_id_expiration_ms: int = 604_800_000
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = 10_000
    transaction_remove_expired_transaction_cleanup_interval_ms: int = 3_600_000


class Answer:
    """What an operation is answered: `value`, or an error; nothing before the commit."""

    def __init__(self) -> None:
        self.done = False
        self.value: Any = None
        self.code = ErrorCode.NONE

    def __repr__(self) -> str:
        return f"Answer({self.code.name}, {self.value})" if self.done else "Answer(waits)"

    def finished(self, response: Any, code: ErrorCode, message: str, now_ms: int) -> None:
        assert not self.done, "an answer comes once"
        self.done, self.value, self.code = True, response, code
        if isinstance(response, ErrorCode):
            self.code = response


class World(OnePartition[TransactionMachine]):
    """See the module's head.

    Attributes:
        marks: whether markers are written at once.
        endings: all ends that were begun, in every term.
        producer_ids: how many producer ids are at hand.
    """

    def __init__(self, *, version: int = 2, **settings: int) -> None:
        self.wall = WallTime()
        self.settings = Settings(**settings)
        self.version = version
        self.marks = True
        self.endings: list[Ending] = []
        self.next_producer_id = 1000
        self.producer_ids = 1_000_000
        context = Context(
            settings=lambda: self.settings,
            transaction_version=lambda: self.version,
            new_producer_id=self._new_producer_id,
            ended=self._ended,
            wall=self.wall,
        )
        super().__init__(
            "__transaction_state",
            "transaction",
            lambda index, timers: TransactionMachine(Transactions(timers, context)),
            self.wall,
        )
        self.elect()

    def _new_producer_id(self, now_ms: int) -> int | None:
        if not self.producer_ids:
            return None
        self.producer_ids -= 1
        self.next_producer_id += 1
        return self.next_producer_id - 1

    def _ended(self, ending: Ending, now_ms: int) -> None:
        self.endings.append(ending)
        if self.marks:
            self.mark(ending, settle=False)

    @property
    def state(self) -> Transactions:
        state: Transactions = self.shard.machine.state
        return state

    def transaction(self, transactional_id: str = T) -> Transaction:
        """The transaction of an id, committed or not."""
        return self.state.ids[transactional_id]

    def fail_over(self, *, keep_uncommitted: bool = False) -> None:
        """As there; the ends that were prepared go on at once."""
        super().fail_over(keep_uncommitted=keep_uncommitted)
        self.advance(0)

    # Requests

    def write(self, operation: Callable[[Transactions], Result[Any]], *, settle: bool = True) -> Answer:
        answer = Answer()
        self.runtime.write(self.PARTITION, lambda machine: operation(machine.state), answer.finished, self.now_ms)
        if settle:
            self.settle()
        return answer

    def init(
        self, transactional_id: str = T, *, timeout_ms: int = TIMEOUT_MS, expected: Producer | None = None
    ) -> Answer:
        """InitProducerId."""
        return self.write(lambda state: init_producer_id(state, transactional_id, timeout_ms, expected, self.now_ms))

    def begin(self, transactional_id: str = T, **more: Any) -> Producer:
        """InitProducerId that succeeds."""
        answer = self.init(transactional_id, **more)
        assert isinstance(answer.value, Producer), answer
        return answer.value

    def add(self, producer: Producer, *partitions: tuple[str, int], version: int = 2, of: str = T) -> Answer:
        """AddPartitionsToTxn."""
        return self.write(
            lambda state: add_partitions(
                state, of, producer, by_topic(*partitions), self.now_ms, client_version=version
            )
        )

    def verify(self, producer: Producer, *partitions: tuple[str, int], of: str = T) -> Partitions | ErrorCode:
        """AddPartitionsToTxn that only verifies: what is missing, or the error."""
        try:
            return self.runtime.read(
                self.PARTITION,
                lambda machine, at: verify_partitions(machine.state, at, of, producer, by_topic(*partitions)),
            )
        except RequestError as error:
            return error.code

    def end(self, producer: Producer, *, commit: bool = True, version: int = 2, of: str = T) -> Answer:
        """EndTxn."""
        return self.write(lambda state: end_transaction(state, of, producer, version, self.now_ms, commit=commit))

    def describe(self, transactional_id: str = T) -> Described:
        """DescribeTransactions."""
        return self.runtime.read(
            self.PARTITION, lambda machine, at: describe_transaction(machine.state, at, transactional_id)
        )

    def mark(self, ending: Ending, *, settle: bool = True) -> Answer:
        """All markers of an end are written."""
        for topic, partitions in list(ending.remaining.items()):
            for partition in list(partitions):
                ending.is_marked(topic, partition)
        return self.write(lambda state: complete(state, ending, self.now_ms), settle=settle)

    # The log

    def written(self) -> list[tuple[str, TransactionLogValue | None, int]]:
        """All records in the log: id, value, version of the value."""
        found: list[tuple[str, TransactionLogValue | None, int]] = []
        for batch in self.log.batches:
            for record in records(batch, read_header(batch), 0):
                assert record.key is not None
                key = decode_coordinator_key("transaction", record.key)
                assert isinstance(key, TransactionLogKey)
                if record.value is None:
                    found.append((key.transactional_id, None, -1))
                else:
                    value, version = decode_coordinator_value("transaction", key.KEY, record.value)
                    assert isinstance(value, TransactionLogValue)
                    found.append((key.transactional_id, value, version))
        return found

    def states(self, transactional_id: str = T) -> list[int]:
        """The states of an id that were written."""
        values = [value for written_id, value, _ in self.written() if written_id == transactional_id]
        return [-1 if value is None else value.transaction_status for value in values]


def by_topic(*partitions: tuple[str, int]) -> Partitions:
    """Partitions as the coordinator has them."""
    merged: dict[str, frozenset[int]] = {}
    for topic, partition in partitions:
        merged[topic] = merged.get(topic, frozenset()) | {partition}
    return merged
