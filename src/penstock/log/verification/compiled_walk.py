"""`record_checks.plain_walk` with the compiled loop of the kernels; what it refuses, the plain one explains.

Importing this module imports numba: ask `walks.walk_for`, in a command and never in a broker's process.
"""

from __future__ import annotations

import numpy as np

from penstock.log.verification.record_checks import plain_walk
from penstock.records import kernels
from penstock.records.batch import BatchHeader, Buffer
from penstock.records.reader import MIN_RECORD_BYTES

SCRATCH_RECORDS = 1024
FEW_RECORDS = 8
"""For so few numbers an array's own maximum takes longer than Python's."""


class CompiledWalk:
    """A `WalkRecords`."""

    def __init__(self) -> None:
        self._found = np.empty((SCRATCH_RECORDS, kernels.RECORD_COLUMNS), np.int64)

    def __call__(self, data: Buffer, header: BatchHeader) -> int:
        count = header.record_count
        if not 0 < count <= len(data) // MIN_RECORD_BYTES:
            return plain_walk(data, header)
        if count >= len(self._found):
            self._found = np.empty((2 * count, kernels.RECORD_COLUMNS), np.int64)
        records = np.frombuffer(data, np.uint8)
        records.flags.writeable = False  # one type of array, so that all is compiled once
        if not kernels.find_records(records, count, header.last_offset_delta, self._found):
            return plain_walk(data, header)
        if count < FEW_RECORDS:
            return max(self._found.item(row, kernels.TIMESTAMP_DELTA) for row in range(count))
        return int(self._found[:count, kernels.TIMESTAMP_DELTA].max())
