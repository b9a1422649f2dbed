"""`records.arrow` in plain Python: the same results and errors, a hundred times slower.

It is what the compiled decoder is tested against, what explains its errors, and what runs where numba is not installed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidRecordError
from penstock.records.arrow_schema import Decoded, schema
from penstock.records.batch import Buffer, TimestampType
from penstock.records.compression import Contexts
from penstock.records.reader import Record, bounded, read_record
from penstock.records.run import MAX_OFFSET, MAX_RUN_BYTES, Isolation, Limits, Run, RunBatch, plan_run


@dataclass(slots=True)
class Columns:
    """The columns as lists, one entry a record."""

    offsets: list[int] = field(default_factory=list)
    timestamps: list[int] = field(default_factory=list)
    timestamp_types: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: list[list[dict[str, Any]]] = field(default_factory=list)


def to_arrow(
    data: Buffer,
    *,
    start_offset: int = 0,
    end_offset: int = MAX_OFFSET,
    isolation: Isolation | None = None,
    include_headers: bool = False,
    limit_bytes: int = MAX_RUN_BYTES,
    contexts: Contexts | None = None,
) -> Decoded:
    """See `arrow.to_arrow`."""
    limits = Limits(start_offset, end_offset, limit_bytes)
    run = plan_run(data, limits, isolation, bounded(contexts or Contexts()))
    columns = Columns()
    for batch in run.batches:
        for record in read_batch(batch):
            if start_offset <= record.offset < end_offset:
                add(columns, record, batch.header.timestamp_type)
    arrays = [columns.offsets, columns.timestamps, columns.timestamp_types, columns.keys, columns.values]
    if include_headers:
        arrays.append(columns.headers)
    wanted = schema(include_headers)
    typed = [pa.array(column, kind) for column, kind in zip(arrays, wanted.types, strict=True)]
    gaps = missing_offsets(start_offset, run, columns.offsets)
    batch = pa.RecordBatch.from_arrays(typed, schema=wanted)
    return Decoded(batch, run.next_offset, run.consumed_bytes, tuple(run.skipped), gaps, tuple(run.epochs))


def read_batch(batch: RunBatch) -> list[Record]:
    """The records of one batch, whose offsets must rise and stay within the batch's.

    Raises InvalidRecordError, naming the batch and the record, for anything that the compiled decoder refuses.
    """
    header = batch.header
    data = bytes(memoryview(batch.data)[batch.start : batch.end])
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    records: list[Record] = []
    previous, at = header.base_offset - 1, 0
    for index in range(header.record_count):
        try:
            record, at = read_record(data, at, header, is_append_time)
        except InvalidRecordError as error:
            raise InvalidRecordError(f"record {index} of the batch at offset {header.base_offset}: {error}") from None
        if not previous < record.offset <= header.last_offset:
            where = f"record {index} of the batch at offset {header.base_offset}"
            raise InvalidRecordError(f"{where} has offset {record.offset}, it should be after {previous}")
        previous = record.offset
        records.append(record)
    if at != len(data):
        raise InvalidRecordError(f"{len(data) - at} bytes after the last record of the batch at {header.base_offset}")
    return records


def add(columns: Columns, record: Record, timestamp_type: TimestampType) -> None:
    columns.offsets.append(record.offset)
    columns.timestamps.append(record.timestamp_ms)
    columns.timestamp_types.append(int(timestamp_type))
    columns.keys.append(record.key)
    columns.values.append(record.value)
    columns.headers.append([{"key": key, "value": value} for key, value in record.headers])


def missing_offsets(start_offset: int, run: Run, offsets: list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Ranges of offsets, both ends included, that are neither in `offsets` nor in `run.skipped`."""
    present = sorted([(offset, offset) for offset in offsets] + [(each[0], each[1]) for each in run.skipped])
    gaps = []
    expected = start_offset
    for first_offset, last_offset in [*present, (run.next_offset, run.next_offset)]:
        if first_offset > expected:
            gaps.append((expected, first_offset - 1))
        expected = last_offset + 1
    return np.array(gaps, np.int64).reshape(-1, 2)
