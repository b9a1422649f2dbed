"""What becomes of one batch: it stays as it is, stays with fewer records, stays empty, or goes.

- A batch that loses nothing is copied byte for byte, unless it was a message of format 0 or 1. One that loses records
  keeps its offsets, producer, sequence, leader epoch and compression.
- The first pass that meets delete markers, or a transaction's marker with no data left, sets the batch's delete
  horizon: now plus delete.retention.ms, in the place of the base timestamp (KIP-534). A pass after that time removes
  them.
- A batch stays empty if it is the last one of a producer that is still remembered, for its sequence and epoch must not
  be lost, or if it is the last one of what could be cleaned, for the log's end must not be either.

Source: `Cleaner.cleanInto` and `MemoryRecords.filterTo` of Apache Kafka 4.3.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import CorruptRecordError, InvalidRecordError
from penstock.log.compaction.offset_map import LatestOffsets
from penstock.log.compaction.passes import Pass
from penstock.log.compaction.records import Selection, all_of, max_timestamp_ms, rebased, walk
from penstock.log.compaction.report import GroupReport
from penstock.log.compaction.scan import Found
from penstock.log.compaction.transactions import (
    NOTHING_MET,
    AbortedTransaction,
    CleanedTransactions,
    TransactionState,
)
from penstock.log.compaction.unpacking import Unpacking
from penstock.log.producer_state import NO_OFFSET
from penstock.records.batch import (
    CODEC_MASK,
    CRC,
    CRC_POSITION,
    DELETE_HORIZON_FLAG,
    HEADER,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
    computed_crc,
)
from penstock.records.compression import Contexts, compress
from penstock.records.control import ControlType, control_type

HORIZON_MAX_MS = 2**63 - 1
"""The latest time that a batch's header holds: with it, delete markers never go."""


class Kept(NamedTuple):
    """A batch that stays, as it is to be written. `damaged`: not everything in its header may be believed."""

    header: BatchHeader
    data: Buffer
    damaged: bool = False


def transactions_of(work: Pass, state: TransactionState) -> CleanedTransactions:
    """The transactions of a pass, whose markers are asked, from a place on where they are in this state."""
    return CleanedTransactions(work.aborted, state, work.aborted_index_path, work.log_start_offset)


class BatchFilter:
    """Decides on the batches of a pass, which it is given in the order of their offsets.

    Attributes:
        report: of the group of segments that is being cleaned; its figures are counted up here.
        problem: why the last batch cannot be read, "" if it can.
        still_aborted: the aborted transaction that ended with the last batch and still has data.
    """

    def __init__(
        self, work: Pass, offsets: LatestOffsets, latest_offset: int, unpacking: Unpacking, contexts: Contexts
    ) -> None:
        self.work = work
        self.offsets = offsets
        self.latest_offset = latest_offset
        self.unpacking = unpacking
        self.contexts = contexts
        self.transactions = transactions_of(work, work.rest.transactions if work.rest is not None else NOTHING_MET)
        self.report = GroupReport([])
        self.problem = ""
        self.still_aborted: AbortedTransaction | None = None

    def filter(self, found: Found) -> Kept | None:
        """The batch as it stays; None if it goes."""
        self.problem, self.still_aborted = "", None
        header, before = found.header, self.report.before
        before.bytes += found.file_bytes
        before.batches += 1
        if found.damaged:
            kept: Kept | None = self._damaged(found, found.damaged)
        else:
            before.records += max(header.record_count, 0)
            try:
                kept = self._control(found) if header.is_control else self._data(found)
            except (CorruptRecordError, InvalidRecordError) as error:
                kept = self._damaged(found, str(error))
        if kept is not None:
            after = self.report.after
            after.bytes += len(kept.data)
            after.batches += 1
            after.records += 0 if found.damaged else max(kept.header.record_count, 0)
        return kept

    def _damaged(self, found: Found, why: str) -> Kept:
        self.problem = f"the batch at offset {found.header.base_offset} is kept as it is: {why}"
        self.transactions.unread = True
        return Kept(found.header, found.data, damaged=True)

    def _data(self, found: Found) -> Kept | None:
        header = found.header
        aborted = self.transactions.data_is_aborted(header)
        if aborted:
            self.report.aborted += header.record_count
            return self._empty(found) if self._must_stay(header) else None
        if not header.record_count:
            return self._as_it_is(found) if self._must_stay(header) else None
        horizon_ms = header.delete_horizon_ms
        passed = horizon_ms is not None and horizon_ms <= self.work.now_ms
        selection = self.offsets.select(
            self._records(found), header, self.latest_offset, drop_tombstones=passed and not self.transactions.unread
        )
        self.report.superseded += selection.superseded
        self.report.removed_tombstones += selection.removed_tombstones
        self.report.without_key += selection.without_key
        self.report.kept_tombstones += selection.kept_tombstones
        return self._with(found, selection, needs_horizon=selection.kept_tombstones > 0)

    def _control(self, found: Found) -> Kept | None:
        header = found.header
        data = bytes(self._records(found))
        first = next(iter(walk(data, header)), None)
        kind = ControlType(control_type(first.key)) if first is not None else None
        nothing_left, self.still_aborted = self.transactions.end(header, kind)
        horizon_ms = header.delete_horizon_ms
        if nothing_left and horizon_ms is not None and horizon_ms <= self.work.now_ms:
            self.report.markers += header.record_count
            return self._empty(found) if self._must_stay(header) else None
        if first is None:
            return self._as_it_is(found) if self._must_stay(header) else None
        return self._with(found, all_of(data, header), needs_horizon=nothing_left)

    def _must_stay(self, header: BatchHeader) -> bool:
        """Whether a batch may become empty, but not go."""
        if header.next_offset == self.work.first_uncleanable_offset:
            return True
        last = self.work.last_records.get(header.producer_id) if header.has_producer_id else None
        if last is None:
            return False
        if last.all_stay:
            return True
        if last.last_data_offset == NO_OFFSET:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_data_offset

    def _records(self, found: Found) -> Buffer:
        return self.unpacking.records(found) if found.header.record_count else b""

    def _with(self, found: Found, selection: Selection, *, needs_horizon: bool) -> Kept | None:
        """The batch with the records that were selected."""
        header = found.header
        if not selection.kept:
            return self._empty(found) if self._must_stay(header) else None
        sets_horizon = needs_horizon and header.delete_horizon_ms is None
        if selection.kept == header.record_count and not sets_horizon:
            return self._as_it_is(found)
        payload, base_timestamp_ms, attributes = selection.payload, header.base_timestamp_ms, header.attributes
        if sets_horizon:
            horizon_ms = min(self.work.now_ms + self.work.delete_retention_ms, HORIZON_MAX_MS)
            payload = rebased(payload, base_timestamp_ms - horizon_ms)
            base_timestamp_ms, attributes = horizon_ms, attributes | DELETE_HORIZON_FLAG
        payload = compress(header.compression, payload, self.contexts)
        self.report.rewritten_batches += 1
        changed = header._replace(
            size_bytes=HEADER_BYTES + len(payload),
            attributes=attributes,
            base_timestamp_ms=base_timestamp_ms,
            max_timestamp_ms=max_timestamp_ms(header, selection.largest_timestamp_delta),
            record_count=selection.kept,
        )
        return Kept(changed, written(changed, payload))

    def _empty(self, found: Found) -> Kept:
        """The batch without its records: what is left are its offsets, its largest timestamp and its producer."""
        header = found.header
        if not header.record_count:
            return self._as_it_is(found)
        self.report.emptied_batches += 1
        changed = header._replace(
            size_bytes=HEADER_BYTES,
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON_FLAG),
            base_timestamp_ms=NO_TIMESTAMP,
            record_count=0,
        )
        return Kept(changed, written(changed, b""))

    def _as_it_is(self, found: Found) -> Kept:
        self.report.rewritten_batches += bool(found.old_bytes)
        return Kept(found.header, found.data)


def written(header: BatchHeader, payload: Buffer) -> bytearray:
    """The bytes of a batch; its checksum is computed here."""
    base_offset, size_bytes, *rest = header
    batch = bytearray(HEADER.pack(base_offset, size_bytes - LOG_OVERHEAD_BYTES, *rest))
    batch += payload
    CRC.pack_into(batch, CRC_POSITION, computed_crc(batch, 0, len(batch)))
    return batch
