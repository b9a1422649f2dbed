"""Proves from a lake table alone that no offset is missing and none is there twice.

The offsets themselves are read (file statistics can lie), a batch of rows at a time: each batch becomes sorted runs of
consecutive offsets, and runs are merged at the end. So memory grows with the number of runs, not of rows: a healthy
table has a few runs a file. What the commits say about where a partition began and ended, and which offsets legally
carry no record, is held against what is there.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import asdict, dataclass, field
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.lake.records import Progress, TopicPartition
from penstock.spark.lake.table import LakeTable

Range = tuple[int, int]
GapRange = tuple[int, int, str]
Offsets = np.ndarray[Any, np.dtype[np.int64]]
BATCH_ROWS = 1 << 17
SHOWN_RANGES = 20
"""Ranges kept of each kind a partition; a table that is wrong everywhere must not fill the memory with proof of it."""


@dataclass(slots=True)
class PartitionVerdict:
    """What a table holds of one partition. Ranges are [start, end)."""

    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    rows: int
    missing: int = 0
    missing_ranges: list[Range] = field(default_factory=list)
    duplicates: int = 0
    duplicate_ranges: list[Range] = field(default_factory=list)
    outside: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    """Offsets that legally carry no record, by reason; "corrupt" are the broken ones that a load was told to skip."""

    @property
    def clean(self) -> bool:
        """Whether each offset from start to end is there exactly once, or legally absent."""
        return not (self.missing or self.duplicates or self.outside)

    @property
    def legal_gaps(self) -> int:
        """Offsets that legally carry no record."""
        return sum(self.gaps.values())

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"legal_gaps": self.legal_gaps, "clean": self.clean}


def verify(lake: LakeTable, topic: str | None = None) -> list[PartitionVerdict]:
    """A verdict on each partition of the table (of one topic if named), sorted by topic and partition."""
    runs, rows = _runs(lake, topic)
    expected = {known: progress for known, progress in lake.progress().items() if topic in (None, known.topic)}
    verdicts = []
    for partition in sorted(set(runs) | set(expected)):
        found = runs.get(partition, [])
        progress = expected.get(partition) or Progress(found[0][0], max(end for _, end in found), [])
        name, topic_id = partition.topic, str(partition.topic_id)
        verdict = PartitionVerdict(
            name, topic_id, partition.partition, progress.start, progress.end, rows.get(partition, 0)
        )
        _judge(verdict, sorted(found), sorted((gap.start, gap.end, gap.reason) for gap in progress.gaps))
        verdicts.append(verdict)
    return verdicts


def _runs(lake: LakeTable, topic: str | None) -> tuple[dict[TopicPartition, list[Range]], dict[TopicPartition, int]]:
    """Runs of consecutive offsets a partition, and rows a partition. A doubled offset is a run of its own."""
    runs: dict[TopicPartition, list[Range]] = defaultdict(list)
    rows: dict[TopicPartition, int] = defaultdict(int)
    dataset = lake.table.to_pyarrow_dataset()
    wanted = None if topic is None else pc.field("topic") == topic
    columns = ["topic", "topicId", "partition", "offset"]
    for batch in dataset.to_batches(columns=columns, filter=wanted, batch_size=BATCH_ROWS):
        for partition, offsets in _by_partition(batch):
            rows[partition] += len(offsets)
            runs[partition] += runs_of(offsets)
            if len(runs[partition]) > BATCH_ROWS:
                runs[partition] = _joined(runs[partition])
    return {partition: _joined(found) for partition, found in runs.items()}, rows


def _by_partition(batch: pa.RecordBatch) -> list[tuple[TopicPartition, Offsets]]:
    """The offsets of a batch of rows, apart by partition."""
    if not batch.num_rows:
        return []
    topics = batch.column("topic").dictionary_encode()
    ids = batch.column("topicId").dictionary_encode()
    partitions = batch.column("partition").to_numpy(zero_copy_only=False)
    offsets = batch.column("offset").to_numpy(zero_copy_only=False)
    codes = [column.indices.to_numpy(zero_copy_only=False).astype(np.int64) for column in (topics, ids)]
    combined = (codes[0] * len(ids.dictionary) + codes[1]) << 32 | partitions.astype(np.int64)
    found = []
    for code in np.unique(combined).tolist():
        topic, topic_id = divmod(code >> 32, len(ids.dictionary))
        names = topics.dictionary[topic].as_py(), UUID(ids.dictionary[topic_id].as_py())
        found.append((TopicPartition(*names, code & 0xFFFFFFFF), offsets[combined == code]))
    return found


def runs_of(offsets: Offsets) -> list[Range]:
    """Sorted runs [start, end) of consecutive offsets; an offset that is there n times is in n runs."""
    offsets = np.sort(offsets)
    runs: list[Range] = []
    while len(offsets):
        first = np.concatenate(([True], offsets[1:] != offsets[:-1]))
        once, offsets = offsets[first], offsets[~first]
        breaks = np.flatnonzero(np.diff(once) != 1)
        starts = once[np.concatenate(([0], breaks + 1))]
        ends = once[np.concatenate((breaks, [len(once) - 1]))] + 1
        runs += list(zip(starts.tolist(), ends.tolist(), strict=True))
    return runs


def _joined(runs: list[Range]) -> list[Range]:
    """Runs that touch become one; runs that overlap stay apart, for they are duplicates."""
    joined: list[Range] = []
    open_ends: dict[int, int] = {}
    for start, end in sorted(runs):
        at = open_ends.pop(start, None)
        if at is None:
            at = len(joined)
            joined.append((start, end))
        else:
            joined[at] = (joined[at][0], end)
        open_ends[end] = at
    return joined


def _judge(verdict: PartitionVerdict, found: list[Range], gaps: list[GapRange]) -> None:
    """Walks the sorted runs, filling in what is missing, double, or outside of what the commits say."""
    position = verdict.start
    for run_start, run_end in found:
        start, end = max(run_start, verdict.start), min(run_end, verdict.end)
        verdict.outside += (run_end - run_start) - max(0, end - start)
        if start >= end:
            continue
        if start > position:
            _missing(verdict, (position, start), gaps)
        elif start < position:
            double = (start, min(end, position))
            verdict.duplicates += double[1] - double[0]
            _keep(verdict.duplicate_ranges, double)
        position = max(position, end)
    if position < verdict.end:
        _missing(verdict, (position, verdict.end), gaps)


def _missing(verdict: PartitionVerdict, hole: Range, gaps: list[GapRange]) -> None:
    """Splits a hole into what is legally absent and what is missing. `gaps` are sorted."""
    position, end = hole
    for gap_start, gap_end, reason in gaps:
        low, high = max(gap_start, position), min(gap_end, end)
        if low >= high:
            continue
        if low > position:
            verdict.missing += low - position
            _keep(verdict.missing_ranges, (position, low))
        verdict.gaps[reason] = verdict.gaps.get(reason, 0) + high - low
        position = high
    if position < end:
        verdict.missing += end - position
        _keep(verdict.missing_ranges, (position, end))


def _keep(ranges: list[Range], new: Range) -> None:
    if len(ranges) < SHOWN_RANGES:
        ranges.append(new)
