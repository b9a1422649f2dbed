"""What a pass knows of transactions: whose data is aborted, and which markers have no data left.

Aborted transactions come from the log's `.txnindex` files and begin to count when the pass reaches their first offset.
A marker may go when no batch of its transaction was met before it, the first time only once a delete horizon has passed
(which the caller sees to). Once the pass has met a batch that it cannot read, markers stay, for that batch may be data
of theirs. Source: `CleanedTransactionMetadata` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from penstock.records.batch import BatchHeader
from penstock.records.control import ControlType


class AbortedTransaction(NamedTuple):
    """An entry of a `.txnindex` file; `last_offset` is the marker's."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionState(NamedTuple):
    """What is known of transactions between two parts of a pass.

    Attributes:
        begun: the aborted transactions that count.
        with_data, committed: ids of producers of which data was met since their last marker, of an aborted transaction
            or of another one.
        unread: as that of `CleanedTransactions`.
    """

    begun: tuple[AbortedTransaction, ...] = ()
    with_data: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    unread: bool = False


NOTHING_MET = TransactionState()


class CleanedTransactions:
    """The transactions at one place of a pass, which sees the batches in the order of their offsets.

    A later part of a pass begins with the `state` in which the one before it has ended.

    Attributes: `unread`: the pass has met a batch that it cannot read.
    """

    __slots__ = ("_aborted", "_coming", "_committed", "_with_data", "unread")

    def __init__(self, aborted: Iterable[AbortedTransaction], state: TransactionState = NOTHING_MET) -> None:
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted = {each.producer_id: each for each in state.begun}
        self._with_data = set(state.with_data)
        self._committed = set(state.committed)
        self.unread = state.unread

    @property
    def state(self) -> TransactionState:
        begun, with_data, committed = self._aborted.values(), sorted(self._with_data), sorted(self._committed)
        return TransactionState(tuple(begun), tuple(with_data), tuple(committed), self.unread)

    def data_is_aborted(self, header: BatchHeader) -> bool:
        """Takes note of a batch of data; whether it belongs to an aborted transaction."""
        self._begin(header)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        return False

    def end(self, header: BatchHeader, kind: ControlType | None) -> tuple[bool, AbortedTransaction | None]:
        """Takes note of a control batch, None being an empty one.

        Returns whether nothing of its transaction is left, and the aborted transaction that still has data.
        """
        self._begin(header)
        if kind is None:
            return True, None
        producer_id = header.producer_id
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            has_data = producer_id in self._with_data
            self._with_data.discard(producer_id)
            if aborted is not None and (has_data or self.unread):
                return False, aborted
            return not self.unread, None
        if kind is ControlType.COMMIT:
            has_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not (has_data or self.unread), None
        return False, None

    def _begin(self, header: BatchHeader) -> None:
        """The transactions begin that the index knows up to the end of this batch; those whose marker is past are over.

        They mostly end with the marker itself; a marker that cannot be read must not leave its producer aborted.
        """
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            coming = self._coming.popleft()
            before = self._aborted.get(coming.producer_id)
            if before is None or before.last_offset < coming.first_offset:
                self._aborted[coming.producer_id] = coming
                self._with_data.discard(coming.producer_id)
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and aborted.last_offset < header.base_offset:
            del self._aborted[header.producer_id]
            self._with_data.discard(header.producer_id)
