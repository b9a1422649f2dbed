"""The offsets that a lake table really holds, read from every row, as sorted runs.

Statistics of files are not looked at: they can lie. Only four columns are read; topic and id come as dictionary codes,
and a batch that is all of one partition and without a break, as a load writes them, is settled by a few passes over
its offsets. Threads read a file each (Parquet decoding releases the GIL). Memory: one batch a thread, and 16 bytes a
run; a healthy table has a run or two a file until they are joined.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.errors import PenstockError
from penstock.spark.lake.ranges import Range
from penstock.spark.lake.records import TopicPartition
from penstock.spark.lake.table import LakeTable, TableFile
from penstock.spark.limits import LAKE_RUNS_UNJOINED, LAKE_VERIFY_THREADS

Offsets = np.ndarray[Any, np.dtype[np.int64]]
Runs = np.ndarray[Any, np.dtype[np.int64]]
"""Shape (n, 2): [start, end) of consecutive offsets, sorted by start."""
COLUMNS = ("topic", "topicId", "partition", "offset")
BATCH_ROWS = 1 << 18


@dataclass(slots=True)
class Held:
    """The offsets that a table has of one partition. An offset that occurs n times is in n runs."""

    rows: int = 0
    runs: Runs = field(default_factory=lambda: np.empty((0, 2), np.int64))
    _new: list[Runs] = field(default_factory=list)
    _unjoined: int = 0

    def add(self, rows: int, runs: Runs) -> None:
        self.rows += rows
        self._new.append(runs)
        self._unjoined += len(runs)
        if self._unjoined > max(LAKE_RUNS_UNJOINED, len(self.runs)):
            self.join()

    def join(self) -> None:
        if self._new:
            self.runs = joined(np.concatenate([self.runs, *self._new]))
        self._new, self._unjoined = [], 0


@dataclass(slots=True)
class Part:
    """A row group of a file that holds rows which are watched, and between which offsets: [start, end), a partition."""

    file: TableFile
    row_group: int
    rows: int
    size_bytes: int
    """Of all its columns, decompressed, but encoded."""
    spans: dict[TopicPartition, Range] = field(default_factory=dict)


@dataclass(slots=True)
class Watch:
    """Ranges of offsets per partition, whose place in the table a reader wants to know."""

    ranges: Mapping[TopicPartition, Sequence[Range]]
    found: dict[tuple[str, int], Part] = field(default_factory=dict)
    """The row groups that hold some of them, by path and number."""
    held: Mapping[TopicPartition, Held] = field(default_factory=dict)
    """All offsets that the table holds."""

    def note(self, part: Part, partition: TopicPartition, offsets: Offsets) -> None:
        """Notes the part if it has watched offsets."""
        ranges = self.ranges.get(partition, ())
        if not ranges or not len(offsets):
            return
        low, high = int(offsets.min()), int(offsets.max()) + 1
        if any(start < high and low < end for start, end in ranges):
            part = self.found.setdefault((part.file.path, part.row_group), part)
            known = part.spans.get(partition, (low, high))
            part.spans[partition] = min(low, known[0]), max(high, known[1])


def held_by(
    lake: LakeTable, topic: str | None = None, threads: int | None = None, watch: Watch | None = None
) -> dict[TopicPartition, Held]:
    """All offsets of the table's current version (of one topic if named), a partition.

    Raises PenstockError for a row without topic, id, partition or offset.
    """
    held: dict[TopicPartition, Held] = {}
    workers = threads or min(LAKE_VERIFY_THREADS, os.cpu_count() or 1)
    system = lake.file_systems()
    with ThreadPoolExecutor(workers, "penstock-verify") as pool:
        for found in pool.map(lambda file: _of_file(system, file, topic, watch), lake.files()):
            for partition, (rows, runs) in found.items():
                held.setdefault(partition, Held()).add(rows, runs)
    for each in held.values():
        each.join()
    if watch is not None:
        watch.held = held
    return held


def _of_file(
    system: Any, file: TableFile, topic: str | None, watch: Watch | None
) -> dict[TopicPartition, tuple[int, Runs]]:
    held: dict[TopicPartition, Held] = {}
    with system.open_input_file(file.path) as source:
        for part, partition, offsets in _parts(source, file, topic):
            if watch is not None:
                watch.note(part, partition, offsets)
            held.setdefault(partition, Held()).add(len(offsets), runs_of(offsets))
    for each in held.values():
        each.join()
    return {partition: (each.rows, each.runs) for partition, each in held.items()}


def _parts(source: Any, file: TableFile, topic: str | None) -> Iterator[tuple[Part, TopicPartition, Offsets]]:
    """The offsets of a file with their row group, a batch at a time, apart by partition."""
    parquet = pq.ParquetFile(source, read_dictionary=["topic", "topicId"])
    present = [name for name in COLUMNS if name in parquet.schema_arrow.names]
    for group in range(parquet.num_row_groups):
        told = parquet.metadata.row_group(group)
        part = Part(file, group, told.num_rows, told.total_byte_size)
        for batch in parquet.iter_batches(BATCH_ROWS, row_groups=[group], columns=present, use_threads=False):
            columns = [batch.column(n) if n in present else _constant(file, n, batch.num_rows) for n in COLUMNS]
            if any(column.null_count for column in columns):
                raise PenstockError(f"{file.path} has rows without topic, topicId, partition or offset: not a load's")
            for partition, offsets in _by_partition(columns):
                if topic in (None, partition.topic):
                    yield part, partition, offsets


def _constant(file: TableFile, name: str, rows: int) -> Any:
    """A column that the table is partitioned by, which its files do not hold."""
    value = file.partition_values.get(name)
    if value is None:
        raise PenstockError(f"{file.path} has no column {name}: not a load's")
    if name in ("topic", "topicId"):
        return pa.repeat(value, rows).dictionary_encode()
    return pa.repeat(int(value), rows)


def partitions_of(rows: pa.RecordBatch) -> list[tuple[TopicPartition, Offsets]]:
    """The offsets of some rows of a load's table, apart by partition."""
    topics, ids = (rows.column(name).dictionary_encode() for name in COLUMNS[:2])
    return _by_partition([topics, ids, rows.column("partition"), rows.column("offset")])


def _by_partition(columns: Sequence[Any]) -> list[tuple[TopicPartition, Offsets]]:
    """One batch's offsets, apart by topic, id and partition: mostly it is all of one."""
    topics, ids = columns[0], columns[1]
    codes = [column.indices.to_numpy(zero_copy_only=False) for column in (topics, ids)]
    partitions = columns[2].to_numpy(zero_copy_only=False)
    offsets = columns[3].to_numpy(zero_copy_only=False)
    if not len(offsets):
        return []
    if all(len(each) and each.min() == each.max() for each in (*codes, partitions)):
        return [(_partition(topics, ids, int(codes[0][0]), int(codes[1][0]), int(partitions[0])), offsets)]
    width = len(ids.dictionary)
    combined = (codes[0].astype(np.int64) * width + codes[1]) << 32 | partitions.astype(np.int64)
    order = np.argsort(combined, kind="stable")
    values, firsts = np.unique(combined[order], return_index=True)
    found = []
    for code, some in zip(values.tolist(), np.split(order, firsts[1:]), strict=True):
        topic, topic_id = divmod(code >> 32, width)
        found.append((_partition(topics, ids, topic, topic_id, code & 0xFFFFFFFF), offsets[some]))
    return found


def _partition(topics: Any, ids: Any, topic: int, topic_id: int, partition: int) -> TopicPartition:
    text = ids.dictionary[topic_id].as_py()
    try:
        return TopicPartition(topics.dictionary[topic].as_py(), UUID(text), partition)
    except ValueError:
        raise PenstockError(f"a row's topicId is {text!r}, which is no topic's id: not a load's") from None


def runs_of(offsets: Offsets) -> Runs:
    """The runs of some offsets in any order."""
    steps = np.diff(offsets)
    if len(offsets) and (steps == 1).all():
        return np.array([[offsets[0], offsets[-1] + 1]], np.int64)
    if not (steps > 0).all():
        offsets = np.sort(offsets)
    found = []
    while len(offsets):
        first = np.concatenate(([True], offsets[1:] != offsets[:-1]))
        once, offsets = offsets[first], offsets[~first]
        breaks = np.flatnonzero(np.diff(once) != 1)
        starts = once[np.concatenate(([0], breaks + 1))]
        ends = once[np.concatenate((breaks, [len(once) - 1]))] + 1
        found.append(np.stack((starts, ends), axis=1))
    return np.concatenate(found) if found else np.empty((0, 2), np.int64)


def joined(runs: Runs) -> Runs:
    """Runs that touch become one; runs that overlap stay apart, for they are duplicates."""
    runs = runs[np.lexsort((runs[:, 1], runs[:, 0]))]
    if len(runs) < 2:
        return runs
    if (runs[1:, 0] >= runs[:-1, 1]).all():
        apart = np.flatnonzero(runs[1:, 0] != runs[:-1, 1])
        starts = runs[np.concatenate(([0], apart + 1)), 0]
        ends = runs[np.concatenate((apart, [len(runs) - 1])), 1]
        return np.stack((starts, ends), axis=1)
    chains: list[list[int]] = []
    open_ends: dict[int, list[int]] = {}
    for start, end in runs.tolist():
        chain = open_ends.pop(start, None)
        if chain is None:
            chains.append(chain := [start, end])
        chain[1] = end
        open_ends[end] = chain
    return np.array(chains, np.int64)
