"""Counts by topic and bucket. A bucket is ten minutes of event time, which is the record's timestamp."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipelines.audit.producer import BUCKET_MS

US_PER_MS = 1_000
Tally = Counter[tuple[str, int]]
"""Records by topic and the start of the bucket, in milliseconds since 1970."""


def bucket_of(timestamp_ms: int) -> int:
    """The start of a time's bucket."""
    return timestamp_ms - timestamp_ms % BUCKET_MS


def add_times(tally: Tally, topic: str, timestamps_ms: np.ndarray[Any, np.dtype[np.int64]], since_ms: int) -> None:
    """Counts records of one topic by their times; those of before `since_ms`, which begins a bucket, are left out."""
    starts, counts = np.unique(np.floor_divide(timestamps_ms, BUCKET_MS), return_counts=True)
    for start, count in zip((starts * BUCKET_MS).tolist(), counts.tolist(), strict=True):
        if start >= since_ms:
            tally[topic, start] += count


def add_rows(tally: Tally, rows: pa.RecordBatch, since_ms: int) -> None:
    """Counts rows with `topic` and `timestamp`, as a load's have."""
    times_us = rows.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64())
    topics = rows.column("topic").dictionary_encode()
    codes = topics.indices
    for code, topic in enumerate(topics.dictionary.to_pylist()):
        some = times_us if len(topics.dictionary) == 1 else times_us.filter(pc.equal(codes, code))
        if topic is not None:
            add_times(tally, topic, np.floor_divide(some.drop_null().to_numpy(), US_PER_MS), since_ms)
