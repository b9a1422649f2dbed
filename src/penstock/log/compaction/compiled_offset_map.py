"""`offset_map.OffsetMap` with compiled loops over the records: the same answers, many times as fast.

Importing this module imports numba, which a broker's own process never does: ask `maps.offset_map` for a map, in a
worker or in a command.
"""

from __future__ import annotations

from struct import unpack
from typing import NoReturn

import numpy as np

from penstock.log.compaction.offset_map import Added, room
from penstock.log.compaction.records import Selection, walk
from penstock.records import kernels, key_kernels
from penstock.records.batch import BatchHeader, Buffer
from penstock.records.reader import MIN_RECORD_BYTES

SCRATCH_RECORDS = 1024
"""The scratch arrays have room for so many records at first."""


class CompiledOffsetMap:
    """See `offset_map.OffsetMap`."""

    __slots__ = (
        "_found", "_hash_key", "_hashes", "_payload", "_result", "_stays", "_table", "limit", "size", "slots",
    )  # fmt: skip

    def __init__(self, buffer_bytes: int, load_factor: float, hash_key: bytes) -> None:
        self.slots, self.limit = room(buffer_bytes, load_factor)
        self.size = 0
        self._hash_key = np.array(unpack("<QQ", hash_key), np.uint64)
        self._table = np.zeros(self.slots * key_kernels.ENTRY_NUMBERS, np.uint64)
        self._result = np.zeros(key_kernels.RESULT_SIZE, np.int64)
        self._payload = np.empty(0, np.uint8)
        self._make_scratch(SCRATCH_RECORDS)

    def clear(self) -> None:
        self.size = 0
        self._table.fill(0)

    def add(self, data: Buffer, header: BatchHeader, start_offset: int) -> Added:
        records = self._walk(data, header)
        size, last_delta, full = key_kernels.add(
            records, self._found, header.record_count, np.uint64(header.base_offset), np.uint64(max(start_offset, 0)),
            self._hash_key, self._hashes, self._table, self.size, self.limit,
        )  # fmt: skip
        self.size = size
        return Added(full, header.base_offset + last_delta) if last_delta >= 0 else Added(full)

    def select(self, data: Buffer, header: BatchHeader, latest_offset: int, *, drop_tombstones: bool) -> Selection:
        records = self._walk(data, header)
        if len(self._payload) < len(records):
            self._payload = np.empty(len(records), np.uint8)
        key_kernels.select(
            records, self._found, header.record_count, np.uint64(header.base_offset),
            np.uint64(max(latest_offset + 1, 0)), drop_tombstones, self._hash_key, self._hashes, self._table,
            self._stays, self._payload, self._result,
        )  # fmt: skip
        *figures, payload_bytes = self._result.tolist()
        kept = figures[key_kernels.KEPT]
        payload = data if kept == header.record_count else self._payload[:payload_bytes].tobytes()
        return Selection(payload, *figures)

    def _walk(self, data: Buffer, header: BatchHeader) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        """The records as an array, all of them checked and found. Raises InvalidRecordError for a broken batch."""
        assert header.base_offset >= 0
        records = np.frombuffer(data, np.uint8)
        records.flags.writeable = False  # one type of array, so that all is compiled once
        count = header.record_count
        if not 0 <= count <= len(records) // MIN_RECORD_BYTES:
            explain(data, header)
        if count >= len(self._found):
            self._make_scratch(2 * count)
        if not kernels.find_records(records, count, header.last_offset_delta, self._found):
            explain(data, header)
        return records

    def _make_scratch(self, records: int) -> None:
        self._found = np.empty((records + 1, kernels.RECORD_COLUMNS), np.int64)
        self._hashes = np.empty((records, 2), np.uint64)
        self._stays = np.empty(records, np.bool_)


def explain(data: Buffer, header: BatchHeader) -> NoReturn:
    """Raises what the plain walk raises for a batch that the compiled one refuses."""
    walk(bytes(data), header)
    raise AssertionError("the plain walk takes the batch for a good one")
