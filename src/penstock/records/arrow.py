"""A run of record batches into Arrow columns, with no Python object a record.

    decoded = to_arrow(fetched, start_offset=1000)
    decoded.batch            # offset, timestamp, timestamp_type, key, value [, headers]
    decoded.next_offset      # where to go on

`run` picks the batches, `kernels` decodes their records into buffers from Arrow's pool, and here the buffers become
columns. Uncompressed batches are read where they are; if some are compressed, all are first laid side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import InvalidRecordError
from penstock.records import arrow_plain, kernels
from penstock.records.arrow_schema import HEADER_TYPE, Decoded, schema
from penstock.records.batch import Buffer, TimestampType
from penstock.records.compression import Contexts
from penstock.records.reader import bounded
from penstock.records.run import MAX_OFFSET, MAX_RUN_BYTES, Isolation, Limits, Run, plan_run

Array = np.ndarray[Any, np.dtype[Any]]


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
    """Decodes the whole batches at the start of `data`.

    Args:
        data: batches one after the other; the last may be cut off.
        start_offset: records before it are passed over, since a fetch returns whole batches.
        end_offset: the first offset that is not wanted.
        isolation: which batches to hide, such as `isolation.AbortedTransactions`; None reads uncommitted.
        include_headers: whether to make the headers column.
        limit_bytes: stops before the batch with which the decompressed records would exceed it (at most 1 GiB), but
            always takes one batch.
        contexts: compression state of the calling thread.

    Raises CorruptRecordError for a batch whose header, CRC or compressed data is broken, InvalidRecordError for a
    record that is; then nothing is returned.
    """
    limits = Limits(start_offset, end_offset, limit_bytes)
    run = plan_run(data, limits, isolation, bounded(contexts or Contexts()))
    columns = Columns(run, side_by_side(data, run))
    columns.decode(limits)
    gaps = missing_offsets(start_offset, run, columns.offset.array[: columns.rows])
    batch = columns.record_batch(include_headers)
    return Decoded(batch, run.next_offset, run.consumed_bytes, tuple(run.skipped), gaps, tuple(run.epochs))


def side_by_side(view: Buffer, run: Run) -> tuple[Array, Array]:
    """The bytes that hold all records, and the table of batches that the kernel reads.

    The bytes are the view itself, or a new buffer if any batch was compressed.
    """
    table = np.empty((len(run.batches), kernels.BATCH_COLUMNS), np.int64)
    position = 0
    for row, (header, _, start, end) in enumerate(run.batches):
        append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
        if run.has_compressed:
            start, end = position, position + end - start  # noqa: PLW2901
            position = end
        table[row] = (
            start,
            end,
            header.record_count,
            header.base_offset,
            header.last_offset_delta,
            header.base_timestamp_ms,
            header.max_timestamp_ms if append_time else kernels.NOT_APPEND_TIME,
        )
    if run.has_compressed:
        view = b"".join(memoryview(batch.data)[batch.start : batch.end] for batch in run.batches)
    data = np.frombuffer(view, np.uint8) if run.batches else np.empty(0, np.uint8)
    data.flags.writeable = False
    return data, table


def missing_offsets(start_offset: int, run: Run, offsets: Array) -> Array:
    """Ranges of offsets, both ends included, that are neither in `offsets` nor in `run.skipped`."""
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    skipped = np.array(run.skipped, np.int64).reshape(-1, 3)
    end = [run.next_offset]
    firsts = np.concatenate((offsets[:1], offsets[breaks + 1], skipped[:, 0], end))
    lasts = np.concatenate((offsets[breaks], offsets[-1:], skipped[:, 1], end))
    order = np.argsort(firsts)
    expected = np.concatenate(([start_offset], lasts[order][:-1] + 1))
    gaps = np.stack((expected, firsts[order] - 1), axis=1)
    return gaps[gaps[:, 0] <= gaps[:, 1]]


class Column:
    """A buffer of Arrow's pool that a kernel writes through `array`."""

    __slots__ = ("array", "buffer")

    def __init__(self, length: int, dtype: Any) -> None:
        self.buffer = pa.allocate_buffer(max(length, 1) * np.dtype(dtype).itemsize, resizable=True)
        self.array: Array = np.frombuffer(self.buffer, dtype)

    def finish(self, length: int) -> Any:
        """The buffer cut to its first `length` elements, with the rest given back. `array` is gone after this."""
        size_bytes = length * self.array.itemsize
        del self.array
        self.buffer.resize(size_bytes, shrink_to_fit=True)
        return self.buffer


class BytesColumn:
    """The buffers of a binary column: where each value ends, the bytes, and which are not null."""

    __slots__ = ("data", "ends", "valid")

    def __init__(self, rows: int, data_bytes: int) -> None:
        self.ends = Column(rows + 1, np.int32)
        self.data = Column(data_bytes, np.uint8)
        self.valid = np.zeros(rows // 8 + 1, np.uint8)
        self.ends.array[0] = 0

    def arguments(self) -> tuple[Array, Array, Array]:
        return self.ends.array, self.data.array, self.valid

    def finish(self, kind: Any, rows: int, data_bytes: int, nulls: int) -> Any:
        valid = pa.py_buffer(self.valid) if nulls else None
        buffers = [valid, self.ends.finish(rows + 1), self.data.finish(data_bytes)]
        return pa.Array.from_buffers(kind, rows, buffers, null_count=nulls)


class Columns:
    """The columns of one run while they are made. Sized by what the run could hold at most, cut to size at the end."""

    __slots__ = (
        "data", "header_ends", "header_starts", "key", "offset", "result", "run", "table", "timestamp",
        "timestamp_type", "value",
    )  # fmt: skip

    def __init__(self, run: Run, source: tuple[Array, Array]) -> None:
        self.run = run
        self.data, self.table = source
        rows = int(self.table[:, kernels.RECORD_COUNT].sum())
        self.offset = Column(rows, np.int64)
        self.timestamp = Column(rows, np.int64)
        self.timestamp_type = Column(rows, np.int32)
        self.key = BytesColumn(rows, run.record_bytes)
        self.value = BytesColumn(rows, run.record_bytes)
        self.header_ends = Column(rows + 1, np.int32)
        self.header_ends.array[0] = 0
        self.header_starts = np.empty(rows, np.int64)
        self.result = np.zeros(kernels.RESULT_SIZE, np.int64)

    @property
    def rows(self) -> int:
        return int(self.result[kernels.ROWS])

    def decode(self, limits: Limits) -> None:
        """Fills the columns. Raises InvalidRecordError for a broken record."""
        kernels.decode(
            self.data,
            self.table,
            limits.start_offset,
            limits.end_offset,
            self.offset.array,
            self.timestamp.array,
            self.timestamp_type.array,
            *self.key.arguments(),
            *self.value.arguments(),
            self.header_ends.array,
            self.header_starts,
            self.result,
        )
        broken = int(self.result[kernels.BROKEN_BATCH])
        if broken >= 0:
            arrow_plain.read_batch(self.run.batches[broken])  # says which record and why
            raise InvalidRecordError(f"broken records in the batch at {self.run.batches[broken].header.base_offset}")

    def record_batch(self, include_headers: bool) -> Any:
        rows = self.rows
        key_bytes, value_bytes, null_keys, null_values = self.result[kernels.KEY_BYTES : kernels.HEADERS].tolist()
        headers = [self.headers(rows)] if include_headers else []
        arrays = [
            pa.Array.from_buffers(pa.int64(), rows, [None, self.offset.finish(rows)], null_count=0),
            pa.Array.from_buffers(pa.int64(), rows, [None, self.timestamp.finish(rows)], null_count=0),
            pa.Array.from_buffers(pa.int32(), rows, [None, self.timestamp_type.finish(rows)], null_count=0),
            self.key.finish(pa.binary(), rows, key_bytes, null_keys),
            self.value.finish(pa.binary(), rows, value_bytes, null_values),
        ]
        return pa.RecordBatch.from_arrays(arrays + headers, schema=schema(include_headers))

    def headers(self, rows: int) -> Any:
        count, key_bytes, value_bytes = self.result[kernels.HEADERS : kernels.BROKEN_BATCH].tolist()
        keys, values = BytesColumn(count, key_bytes), BytesColumn(count, value_bytes)
        null_values = kernels.decode_headers(
            self.data, self.header_starts, self.header_ends.array, rows, *keys.arguments()[:2], *values.arguments()
        )
        key_array = as_text(keys.finish(pa.binary(), count, key_bytes, 0))
        value_array = values.finish(pa.binary(), count, value_bytes, null_values)
        pairs = pa.StructArray.from_arrays([key_array, value_array], fields=list(HEADER_TYPE.value_type))
        ends = self.header_ends.finish(rows + 1)
        return pa.Array.from_buffers(HEADER_TYPE, rows, [None, ends], null_count=0, children=[pairs])


def as_text(keys: Any) -> Any:
    """Binary keys as strings. Bytes that are not UTF-8 become U+FFFD, as in the Java client."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([key.decode("utf-8", "replace") for key in keys.to_pylist()], pa.string())
