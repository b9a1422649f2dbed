"""How a task turns its ranges into rows, and what it does about offsets that vanish while it reads.

Between planning and reading, retention may delete what was planned, or somebody a topic. With `failOnDataLoss` the task
fails; else it asks the brokers what is left of the rest of its ranges and goes on with that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from penstock.errors import ErrorCode, RequestError
from penstock.spark.limits import SPARK_ARROW_BATCH_BYTES, SPARK_ARROW_BATCH_ROWS, SPARK_TASK_REPLANS
from penstock.spark.read.brokers import Brokers
from penstock.spark.read.options import ReadOptions
from penstock.spark.read.plan import (
    DataLossError,
    Losses,
    OffsetRange,
    Position,
    Snapshot,
    ranges_between,
    task_count,
    tasks_at_once,
    tasks_of,
)
from penstock.spark.read.values import ValuePlan, Values

LOST = (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


@dataclass(frozen=True, slots=True)
class Task(InputPartition):
    """The ranges that one Spark task reads."""

    ranges: Sequence[OffsetRange]


def tasks(options: ReadOptions, ranges: Sequence[OffsetRange]) -> list[Task]:
    """The tasks that share the ranges."""
    count = task_count(
        sum(each.size for each in ranges),
        tasks_at_once(options.parallelism, os.cpu_count() or 1, len(ranges)),
        at_least=options.min_partitions,
        task_offsets=options.max_records_per_task,
    )
    return [Task(packed) for packed in tasks_of(ranges, count)]


def rows(
    options: ReadOptions, names: Sequence[str], ranges: Sequence[OffsetRange], values: ValuePlan | None = None
) -> Iterator[Any]:
    """The records of the ranges as Arrow batches with the named columns; `values` types the column `value`.

    Raises DataLossError, CorruptBatchError, BadValueError, RegistryError, RequestError, UnreachableError.
    """
    from penstock.records.arrow_schema import Decoded
    from penstock.spark.read.fetching import Connect, decoded  # imports numba: in workers only

    connect = Connect(
        options.bootstrap,
        options.client_id,
        options.timeout_ms,
        options.isolation,
        options.read,
        options.log_dirs,
        options.security,
    )
    typed = None if values is None else Values(values)
    left = list(ranges)
    for _ in range(SPARK_TASK_REPLANS):
        done: dict[OffsetRange, int] = {}
        try:
            for wanted, got in decoded(connect, left, include_headers="headers" in names):
                assert isinstance(got, Decoded)  # a broken batch is an error here
                yield from in_pieces(_batch(wanted, got, names, typed))
                done[wanted] = got.next_offset
            return
        except (RequestError, DataLossError) as error:
            if error.code not in LOST:
                raise
            failure = error
        left = _what_is_left(options, left, done)
    raise DataLossError(f"offsets vanish faster than they are read: {failure}")


def _batch(wanted: OffsetRange, got: Any, names: Sequence[str], typed: Values | None) -> pa.RecordBatch:
    """A decoded run as the named columns."""
    from penstock.spark.read.fetching import record_batch

    if typed is None:
        return record_batch(wanted, got, names)
    values = got.batch.column("value")
    columns = typed.columns(wanted.topic, wanted.partition, got.batch.column("offset"), values)
    others = record_batch(wanted, got, [name for name in names if name not in columns])
    arrays = [columns[name] if name in columns else others.column(name) for name in names]
    return pa.RecordBatch.from_arrays(arrays, list(names))


def in_pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch cut as Spark gets it: by rows, and by bytes where rows are large."""
    mean_bytes = batch.nbytes / max(1, batch.num_rows)
    at_once = max(1, min(SPARK_ARROW_BATCH_ROWS, int(SPARK_ARROW_BATCH_BYTES / max(1.0, mean_bytes))))
    for start in range(0, batch.num_rows, at_once):
        yield batch.slice(start, at_once)


def _what_is_left(
    options: ReadOptions, ranges: Sequence[OffsetRange], done: dict[OffsetRange, int]
) -> list[OffsetRange]:
    """The rest of the ranges that the brokers still have. Raises DataLossError where loss is an error."""
    rest = [replace(each, start=max(each.start, done.get(each, each.start))) for each in ranges]
    chosen = replace(options, assign=None, subscribe=tuple(sorted({each.topic for each in rest})), pattern=None)
    brokers = Brokers(chosen)
    try:
        snapshot = brokers.snapshot()
    finally:
        brokers.close()
    return [left for each in rest for left in _cut(each, snapshot, Losses(options.fail_on_data_loss))]


def _cut(each: OffsetRange, snapshot: Snapshot, losses: Losses) -> list[OffsetRange]:
    key = (each.topic, each.partition)
    end = Position(each.topic_id, each.end, each.start)
    return ranges_between({}, {key: end}, snapshot, losses)
