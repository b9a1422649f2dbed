"""What every lake table has, whatever its format: the columns of a record, and the words for progress.

Free of the lake libraries, so that Spark's workers do not pay for their import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError

EPOCH = datetime(1970, 1, 1)
FIRST_INSTANT_MS, LAST_INSTANT_MS = -62_135_596_800_000, 253_402_300_799_999

RECORD_SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("topicId", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))),
    ]
)
"""Columns of a loaded record: the official connector's, with headers always there, and the id that tells a topic
from one of the same name that was deleted before it."""


class LakeConflictError(PenstockError):
    """Another writer moved the same partitions since the plan was made. Plan again, or stop: two copies are running."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of one incarnation of a topic: a topic deleted and created again has another id."""

    topic: str
    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) that carry no record, and why: "control" (transaction markers), "aborted", "compacted",
    "deleted" (retention or DeleteRecords overtook the load), "corrupt" (broken, and the load was told to go on)."""

    partition: TopicPartition
    start: int
    end: int
    reason: str


@dataclass(slots=True)
class Progress:
    """What all commits together say of a partition: loaded from `start` to `end`, without the offsets in `gaps`."""

    start: int
    end: int
    gaps: list[Gap]


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a task wrote, relative to the table; `low` and `high` as `Statistics` has them."""

    path: str
    size_bytes: int
    rows: int
    low: Mapping[str, Any]
    high: Mapping[str, Any]


class Statistics:
    """The least and the greatest of a file's columns, by which readers pass files over.

    All columns that can have them must: delta-rs takes a missing one for "no row matches" once another column has one.
    """

    COLUMNS = ("topic", "topicId", "partition", "offset", "timestamp", "timestampType")

    def __init__(self) -> None:
        self.low: dict[str, Any] = {}
        self.high: dict[str, Any] = {}

    def add(self, rows: Any) -> None:
        """Takes in a batch of rows of RECORD_SCHEMA, which must not be empty."""
        for name in self.COLUMNS:
            column = rows.column(name)
            if name == "timestamp":
                column = column.cast(pa.int64())
            found = pc.min_max(column)
            low, high = found["min"].as_py(), found["max"].as_py()
            if name == "timestamp":
                low, high = _instant(low), _instant(high)
            self.low[name] = min(low, self.low.get(name, low))
            self.high[name] = max(high, self.high.get(name, high))


def _instant(timestamp_us: int) -> str:
    """Microseconds since 1970 as Delta's statistics write it; beyond the years 1 to 9999, the nearest of them."""
    milliseconds = min(max(timestamp_us // 1000, FIRST_INSTANT_MS), LAST_INSTANT_MS)
    moment = EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment.isoformat(timespec='milliseconds')}Z"
