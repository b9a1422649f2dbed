"""`segment_scan.scan_segment` with compiled loops over the batches: the same result, many times as fast.

A segment with messages of the formats 0 and 1 is left to the plain scan. They are the oldest of a log, so that mostly
the first one says so; what was reported of batches before one is reported once more, which changes nothing.

Importing this module imports numba, which a broker's own process never does: ask `segment_scanners.fastest_scan` for a
scan, in a worker or in a command.
"""

from __future__ import annotations

import numpy as np

from penstock.log.disk import Disk
from penstock.log.limits import RECOVERY_CHUNK_BYTES
from penstock.log.loading import marker_of
from penstock.log.segment_scan import (
    Account,
    ProducerBatches,
    SegmentScan,
    SegmentToScan,
    is_old_at,
    scan_segment,
)
from penstock.records import batch_kernels as kernels
from penstock.records.batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    computed_crc,
    read_header,
)
from penstock.records.kernels import Array

OFFSET_MAX = 1 << 62
"""Base offsets of segments beyond this, and files beyond FILE_MAX_BYTES, are left to the plain scan."""
FILE_MAX_BYTES = 2**31 - 1
TABLES = kernels.crc_tables()
TABLES.flags.writeable = False
OFFSET_ENTRY = np.dtype(">i4")
TIME_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])


def scan_segment_compiled(disk: Disk, wanted: SegmentToScan, account: Account) -> SegmentScan:
    """See `segment_scan.Scan`."""
    beyond = max(wanted.base_offset, wanted.following or 0) >= OFFSET_MAX or wanted.size_bytes > FILE_MAX_BYTES
    if beyond or wanted.rewrite_from is not None:
        return scan_segment(disk, wanted, account)
    walking = Walking(disk, wanted, account)
    return walking.result() if walking.run() else scan_segment(disk, wanted, account)


class Walking:
    """The scan of one segment, chunk by chunk."""

    def __init__(self, disk: Disk, wanted: SegmentToScan, account: Account) -> None:
        self._disk = disk
        self._wanted = wanted
        self._producers = ProducerBatches(account, wanted.account_from)
        self._state = state = np.zeros(kernels.STATE_SIZE, np.int64)
        state[kernels.NEXT_OFFSET] = state[kernels.LARGEST_OFFSET] = wanted.base_offset
        state[kernels.LARGEST_TIMESTAMP] = NO_TIMESTAMP
        state[kernels.LATEST_EPOCH] = -1
        self._counts = np.zeros(3, np.int64)
        self._chunk = b""
        self._chunk_start = 0
        self._make_rows(min(RECOVERY_CHUNK_BYTES, wanted.size_bytes))
        self._offset_index = bytearray()
        self._time_index = bytearray()
        self._indexed_timestamp = NO_TIMESTAMP
        self._epochs: list[tuple[int, int]] = []

    def run(self) -> bool:
        """Walks to the end of the batches; False if a message of format 0 or 1 is there."""
        wanted, state = self._wanted, self._state
        following = -1 if wanted.following is None else wanted.following
        status, checked = kernels.MORE, -1
        while status in (kernels.MORE, kernels.CHECK):
            if status == kernels.MORE and not self._read():
                status = kernels.INVALID
                break
            data = np.frombuffer(self._chunk, np.uint8)
            status = kernels.walk(
                data, self._chunk_start, wanted.size_bytes, wanted.base_offset, following,
                wanted.index_interval_bytes, checked, TABLES, state, self._batches, self._entries, self._epochs_found,
                self._counts,
            )  # fmt: skip
            self._take()
            if status == kernels.CHECK:
                checked = int(state[kernels.POSITION])
                if not self._is_right(checked - self._chunk_start):
                    status = kernels.INVALID
        if status == kernels.INVALID:
            if is_old_at(self._disk, wanted.path, int(state[kernels.POSITION]), wanted.size_bytes):
                return False
            kernels.walk_ended(
                following, wanted.base_offset, wanted.index_interval_bytes,
                state, self._batches, self._entries, self._epochs_found, self._counts,
            )  # fmt: skip
            self._take()
        return True

    def result(self) -> SegmentScan:
        state = self._state
        timestamp, offset = int(state[kernels.LARGEST_TIMESTAMP]), int(state[kernels.LARGEST_OFFSET])
        if timestamp > self._indexed_timestamp:
            entry = np.array([(timestamp, offset - self._wanted.base_offset)], TIME_ENTRY)
            self._time_index += entry.tobytes()
        self._producers.finish()
        return SegmentScan(
            int(state[kernels.VALID_BYTES]),
            int(state[kernels.NEXT_OFFSET]),
            bytes(self._offset_index),
            bytes(self._time_index),
            self._epochs,
        )

    def _make_rows(self, size_bytes: int) -> None:
        """Room for the rows of a chunk of this size."""
        rows = size_bytes // HEADER_BYTES + 2
        self._batches = np.empty((rows, kernels.BATCH_COLUMNS), np.int64)
        self._entries = np.empty((rows, kernels.ENTRY_COLUMNS), np.int64)
        self._epochs_found = np.empty((rows, kernels.EPOCH_COLUMNS), np.int64)

    def _read(self) -> bool:
        """Reads the chunk that begins with the next batch; False if the file has not all of that any more."""
        position = int(self._state[kernels.POSITION])
        at = position - self._chunk_start
        known = len(self._chunk) - at >= HEADER_BYTES
        needed = read_header(self._chunk, at).size_bytes if known else HEADER_BYTES
        length = max(RECOVERY_CHUNK_BYTES, needed)
        self._chunk, self._chunk_start = self._disk.read(self._wanted.path, position, length), position
        return len(self._chunk) >= needed

    def _is_right(self, at: int) -> bool:
        """Whether the CRC of a large batch in the chunk is that of its header."""
        header = read_header(self._chunk, at)
        return computed_crc(self._chunk, at, header.size_bytes) == header.crc

    # What was found in a chunk

    def _take(self) -> None:
        batches, entries, epochs = self._counts.tolist()
        if entries:
            self._take_entries(self._entries[:entries])
        if epochs:
            self._epochs += map(tuple, self._epochs_found[:epochs].tolist())
        if batches:
            self._take_batches(self._batches[:batches])
        self._counts[:] = 0

    def _take_entries(self, entries: Array) -> None:
        base = self._wanted.base_offset
        pairs = np.empty((len(entries), 2), OFFSET_ENTRY)
        pairs[:, 0] = entries[:, kernels.ENTRY_OFFSET] - base
        pairs[:, 1] = entries[:, kernels.ENTRY_POSITION]
        self._offset_index += pairs.tobytes()
        timestamps = entries[:, kernels.ENTRY_TIMESTAMP]
        newer = timestamps > np.concatenate(([self._indexed_timestamp], timestamps[:-1]))
        times = np.empty(int(newer.sum()), TIME_ENTRY)
        times["timestamp"] = timestamps[newer]
        times["offset"] = entries[newer, kernels.ENTRY_TIMESTAMP_OFFSET] - base
        self._time_index += times.tobytes()
        self._indexed_timestamp = int(timestamps[-1])

    def _take_batches(self, batches: Array) -> None:
        """Hands on the batches of producers that may matter: of each producer, between two control batches of
        whomever, the first one of a transaction and the last one.
        """
        attributes = batches[:, kernels.BATCH_ATTRIBUTES]
        control = attributes & CONTROL_FLAG != 0
        kept, passed_over = control.copy(), control.copy()
        accounted = int(np.searchsorted(batches[:, kernels.BATCH_BASE], self._wanted.account_from))
        passed_over[:accounted] = True
        kept[max(accounted - 1, 0) : accounted] = True  # it may reach beyond where the account begins
        spans = np.cumsum(control)
        order = np.lexsort((spans, batches[:, kernels.BATCH_PRODUCER]))  # stable: by position within a span
        order = order[~passed_over[order]]
        self._mark_last(batches, spans, order, kept)
        transactional = order[attributes[order] & TRANSACTIONAL_FLAG != 0]
        self._mark_last(batches, spans, transactional[::-1], kept)
        for position, _, size_bytes, _, row_attributes in batches[kept].tolist():
            if row_attributes & CONTROL_FLAG:
                data = self._bytes(position, size_bytes)
                header = read_header(data)
                self._producers.add(header, marker_of(data, header))
            else:
                self._producers.add(self._header(position), None)

    def _mark_last(self, batches: Array, spans: Array, order: Array, kept: Array) -> None:
        """Marks the last row of each producer and span, in an order in which these are together."""
        if len(order):
            producers, spans = batches[order, kernels.BATCH_PRODUCER], spans[order]
            ends = np.append((producers[1:] != producers[:-1]) | (spans[1:] != spans[:-1]), True)
            kept[order[ends]] = True

    def _header(self, position: int) -> BatchHeader:
        return read_header(self._bytes(position, HEADER_BYTES))

    def _bytes(self, position: int, length: int) -> bytes:
        """Bytes of a batch, which is in the chunk unless it has waited for the batch after it."""
        at = position - self._chunk_start
        if at >= 0:
            return self._chunk[at : at + length]
        return self._disk.read(self._wanted.path, position, length)
