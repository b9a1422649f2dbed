"""What a reader with isolation level read_committed passes over: the batches of aborted transactions.

A fetch response lists the aborted transactions that touch its range, each with its producer and first offset. A
transactional batch of such a producer is aborted from that offset on, until the abort marker of the producer.
Source: KIP-98, and `CompletedFetch` of Apache Kafka 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from penstock.errors import InvalidRecordError
from penstock.records.batch import BatchHeader, Buffer
from penstock.records.control import ControlType, control_type
from penstock.records.reader import Decompress, records


class AbortedTransactions:
    """Says of each batch of a fetch, in order, whether it belongs to an aborted transaction.

    Args:
        transactions: (producer id, first offset) of each, as the fetch response lists them.
        decompress: for control batches that someone compressed.
    """

    __slots__ = ("_aborted", "_decompress", "_waiting")

    def __init__(self, transactions: Iterable[tuple[int, int]], decompress: Decompress | None = None) -> None:
        self._waiting = sorted(((first_offset, producer) for producer, first_offset in transactions), reverse=True)
        self._aborted: set[int] = set()
        self._decompress = decompress

    def __call__(self, view: Buffer, position: int, header: BatchHeader) -> bool:
        """Whether to skip the batch at `position`. False for control batches, which are not user data."""
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._aborted.add(self._waiting.pop()[1])
        if not header.has_producer_id or header.producer_id not in self._aborted:
            return False
        if not header.is_control:
            return header.is_transactional
        if self.marker(view, position, header) is ControlType.ABORT:
            self._aborted.discard(header.producer_id)
        return False

    def marker(self, view: Buffer, position: int, header: BatchHeader) -> ControlType | None:
        """The type of a control batch's first record; None for a batch that compaction has emptied."""
        first = next(records(view, header, position, self._decompress), None)
        if first is None:
            return None
        if first.key is None:
            raise InvalidRecordError(f"the control record at offset {first.offset} has no key")
        return control_type(first.key)
