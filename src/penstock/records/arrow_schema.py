"""The Arrow form of records: the columns, and what a decoder tells beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.records.run import SeenEpoch, Skipped

HEADER_TYPE = pa.list_(pa.struct([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.binary())]))

COLUMNS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.int64(), nullable=False),
        pa.field("timestamp_type", pa.int32(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
COLUMNS_WITH_HEADERS = COLUMNS.append(pa.field("headers", HEADER_TYPE, nullable=False))

MICROSECONDS_UTC = pa.timestamp("us", tz="UTC")
MAX_TIMESTAMP_MS = (2**63 - 1) // 1000


def schema(include_headers: bool) -> Any:
    """offset, timestamp (ms), timestamp_type (0 create, 1 log append), key, value, and headers if asked for."""
    return COLUMNS_WITH_HEADERS if include_headers else COLUMNS


@dataclass(frozen=True, slots=True)
class Decoded:
    """Records as Arrow columns, and an account of every offset of the run.

    Attributes:
        batch: pyarrow.RecordBatch of `schema`.
        next_offset: where the next run begins; every offset before it is in `batch`, in `skipped` or in `gaps`.
        consumed_bytes: how much of the input is done with; 0 when not even its first batch is whole.
        skipped: markers, and what the isolation hides.
        gaps: int64 [n, 2], the first and the last offset of ranges that hold nothing: compaction and deletion.
        epochs: the leader epochs of the batches, oldest first, each with the offset up to which it was seen.
    """

    batch: Any
    next_offset: int
    consumed_bytes: int
    skipped: tuple[Skipped, ...]
    gaps: np.ndarray[Any, np.dtype[np.int64]]
    epochs: tuple[SeenEpoch, ...] = ()


def timestamps_us(timestamps: Any) -> Any:
    """A column of milliseconds as Spark's timestamps, in microseconds. What 64 bits cannot hold becomes the extreme."""
    milliseconds = timestamps.to_numpy(zero_copy_only=False)
    microseconds = np.clip(milliseconds, -MAX_TIMESTAMP_MS, MAX_TIMESTAMP_MS) * 1000
    return pa.array(microseconds, pa.int64()).view(MICROSECONDS_UTC)
