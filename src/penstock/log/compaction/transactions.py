"""What a pass knows of transactions: whose data is aborted, and which markers have no data left.

Aborted transactions come from the log's `.txnindex` files and begin to count when the pass reaches their first offset.
A marker may go when no batch of its transaction was met before it, the first time only once a delete horizon has passed
(which the caller sees to). Once the pass has met a batch that it cannot read, markers stay, for that batch may be data
of theirs.

Nothing tells a `.txnindex` of another segment, or one with a flipped bit, from a right one. So the markers are asked:
what counted as aborted must end with an abort marker, at the offset that its entry says, and what did not with a commit
marker. Otherwise the pass ends there, and nothing of it is used. Where batches could not be read, markers may be among
them, and nothing is asked any more. Apache Kafka believes the index. An entry need not have what is below the log
start: if producers are loaded without a snapshot, transactions begin there.

Source: `CleanedTransactionMetadata` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from penstock.log.damaged_index import DamagedIndexError
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
        in_log: those of `committed` of which some of that is not below the log start.
        unread: as that of `CleanedTransactions`.
    """

    begun: tuple[AbortedTransaction, ...] = ()
    with_data: tuple[int, ...] = ()
    committed: tuple[int, ...] = ()
    unread: bool = False
    in_log: tuple[int, ...] = ()


NOTHING_MET = TransactionState()


class CleanedTransactions:
    """The transactions at one place of a pass, which sees the batches in the order of their offsets.

    A later part of a pass begins with the `state` in which the one before it has ended. `index_path` gives the index
    that has the transaction whose marker is at an offset; without it, the markers are not asked, nor need they be told.
    The log begins at `log_start_offset`.

    Attributes: `unread`: the pass has met a batch that it cannot read.
    """

    __slots__ = (
        "_aborted",
        "_coming",
        "_committed",
        "_in_log",
        "_index_path",
        "_log_start_offset",
        "_with_data",
        "unread",
    )

    def __init__(
        self,
        aborted: Iterable[AbortedTransaction],
        state: TransactionState = NOTHING_MET,
        index_path: Callable[[int], str] | None = None,
        log_start_offset: int = 0,
    ) -> None:
        self._index_path = index_path
        self._log_start_offset = log_start_offset
        self._coming = deque(sorted(aborted, key=lambda each: each.first_offset))
        self._aborted = {each.producer_id: each for each in state.begun}
        self._with_data = set(state.with_data)
        self._committed = set(state.committed)
        self._in_log = set(state.in_log)
        self.unread = state.unread

    @property
    def state(self) -> TransactionState:
        begun, with_data, committed = self._aborted.values(), sorted(self._with_data), sorted(self._committed)
        in_log = tuple(sorted(self._in_log))
        return TransactionState(tuple(begun), tuple(with_data), tuple(committed), self.unread, in_log)

    @property
    def unfinished(self) -> set[int]:
        """The producers whose data was met, and not yet the marker that ends their transaction."""
        return self._with_data | self._committed

    def data_is_aborted(self, header: BatchHeader) -> bool:
        """Takes note of a batch of data; whether it belongs to an aborted transaction."""
        self._begin(header)
        if not header.is_transactional:
            return False
        if header.producer_id in self._aborted:
            self._with_data.add(header.producer_id)
            return True
        self._committed.add(header.producer_id)
        if header.last_offset >= self._log_start_offset:
            self._in_log.add(header.producer_id)
        return False

    def end(self, header: BatchHeader, kind: ControlType | None) -> tuple[bool, AbortedTransaction | None]:
        """Takes note of a control batch, None being an empty one.

        Returns whether nothing of its transaction is left, and the aborted transaction that still has data. Raises
        DamagedIndexError if its data did not count as what it says.
        """
        self._begin(header)
        if kind is None:
            return True, None
        producer_id = header.producer_id
        if kind is ControlType.ABORT:
            aborted = self._aborted.pop(producer_id, None)
            has_data = producer_id in self._with_data
            self._with_data.discard(producer_id)
            if producer_id in self._in_log:
                claim = f"offset {header.base_offset} aborts what producer {producer_id} has written before"
                self._differs(header.base_offset, f"{claim}, and no entry has all of that")
            is_left = self._take_committed(producer_id)
            if aborted is not None and has_data and aborted.last_offset != header.last_offset:
                self._is_wrong(aborted)
            if aborted is not None and (has_data or self.unread):
                return False, aborted
            return not (is_left or self.unread), None
        if kind is ControlType.COMMIT:
            if producer_id in self._with_data:
                self._is_wrong(self._aborted[producer_id])
            return not (self._take_committed(producer_id) or self.unread), None
        return False, None

    def _begin(self, header: BatchHeader) -> None:
        """The transactions begin that the index knows up to the end of this batch; those whose marker is past are over.

        They mostly end with the marker itself; a marker that cannot be read must not leave its producer aborted.
        """
        while self._coming and self._coming[0].first_offset <= header.last_offset:
            coming = self._coming.popleft()
            before = self._aborted.get(coming.producer_id)
            if before is None or before.last_offset < coming.first_offset:
                self._is_past(coming.producer_id)
                self._aborted[coming.producer_id] = coming
        aborted = self._aborted.get(header.producer_id)
        if aborted is not None and aborted.last_offset < header.base_offset:
            self._is_past(header.producer_id)

    def _take_committed(self, producer_id: int) -> bool:
        """Whether data of the producer was met that counts as committed; it has its marker now."""
        was_met = producer_id in self._committed
        self._committed.discard(producer_id)
        self._in_log.discard(producer_id)
        return was_met

    def _is_past(self, producer_id: int) -> None:
        """The producer's aborted transaction, if it has one, is over without its marker."""
        aborted = self._aborted.pop(producer_id, None)
        if aborted is not None and producer_id in self._with_data:
            self._with_data.discard(producer_id)
            self._is_wrong(aborted)

    def _is_wrong(self, entry: AbortedTransaction) -> None:
        claim = f"an entry says that offset {entry.last_offset} aborts what producer {entry.producer_id} has written"
        self._differs(entry.last_offset, f"{claim} from offset {entry.first_offset} on, and no marker does so")

    def _differs(self, marker_offset: int, claim: str) -> None:
        if self._index_path is not None and not self.unread:
            raise DamagedIndexError(self._index_path(marker_offset), claim, so="The log is not cleaned")
