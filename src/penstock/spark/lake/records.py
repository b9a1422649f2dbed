"""What every lake table has, whatever its format: the columns of a record, and the words for progress.

Free of the lake libraries, so that Spark's workers do not pay for their import.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from math import inf, isnan, nextafter
from sys import float_info
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError

EPOCH = datetime(1970, 1, 1)
FIRST_INSTANT_MS, LAST_INSTANT_MS = -62_135_596_800_000, 253_402_300_799_999
DAY_US = 86_400_000_000
FIRST_DAY, LAST_DAY = FIRST_INSTANT_MS * 1000 // DAY_US, LAST_INSTANT_MS * 1000 // DAY_US
FLOAT_MAX = float_info.max
TEXT_MAX = 32
"""Characters kept of a string in statistics."""
LAST_CHARACTER = "\U0010ffff"
DATE = "date"
"""The partition column that is derived from `timestamp`."""
TIMESTAMP = "timestamp"

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
    "deleted" (retention or DeleteRecords overtook the load), "corrupt" (broken, and the load was told to go on),
    ERASED.

    DIVERGED is another matter: the table has the records that the brokers had there, and they lost them later. What
    they have there now is not in the table, for no offset may be in it twice."""

    partition: TopicPartition
    start: int
    end: int
    reason: str


DIVERGED = "diverged"
"""Reason of a gap: the brokers' log was cut there after the load, by an unclean election, and goes on otherwise."""

ERASED = "erased"
"""Reason of a gap: the row was there, and was taken out of the table on demand (see `erasure`)."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The gaps of a long range [start, end) in constant size: how many offsets, by reason, and a fingerprint.

    `fingerprint` is that of exactly the offsets without a record (see `folding.fingerprint`).
    """

    start: int
    end: int
    fingerprint: int
    reasons: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Claim:
    """A record that a pipeline has loaded all offsets in [start, end)."""

    pipeline: str
    start: int
    end: int


@dataclass(slots=True)
class Progress:
    """The combined progress of all commits in a partition: loaded from `start` to `end`, without the offsets in `gaps`.

    Of several pipelines each has its claim, and what lies between the claims was not loaded yet. Gaps of long ago may
    be folded into `sealed` ranges, which do not overlap; no gap reaches into one of its own pipeline.
    """

    start: int
    end: int
    gaps: list[Gap]
    sealed: list[Sealed] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    diverged: list[Gap] = field(default_factory=list)
    """Offsets of which the table has records that the brokers lost."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file that a task wrote, relative to the table; `low`, `high` and `nulls` as `Statistics` has them.

    `partition_values` are the file's values of the table's partition columns, as text.
    """

    path: str
    size_bytes: int
    rows: int
    low: Mapping[str, Any]
    high: Mapping[str, Any]
    nulls: Mapping[str, int] = field(default_factory=dict)
    partition_values: Mapping[str, str | None] = field(default_factory=dict)


class Statistics:
    """The least and the greatest of a file's columns and how often each is null, by which readers pass files over.

    All columns that can have them must: delta-rs takes a missing one for "no row matches" once another column has one.
    Columns of bytes and nested ones have none, as Delta has it. What they say may be wider than the truth
    (long strings are cut, times rounded to milliseconds), never narrower.
    """

    COLUMNS = ("topic", "topicId", "partition", "offset", "timestamp", "timestampType")
    """Those of a record."""

    def __init__(self) -> None:
        self.low: dict[str, Any] = {}
        self.high: dict[str, Any] = {}
        self.nulls: dict[str, int] = {}

    def add(self, rows: Any) -> None:
        """Takes in a batch or table of rows, which must not be empty."""
        for column_field, column in zip(rows.schema, rows.columns, strict=True):
            bounds = _bounds(column_field.type, column)
            if bounds is None:
                continue
            name, (low, high) = column_field.name, bounds
            self.nulls[name] = self.nulls.get(name, 0) + column.null_count
            if low is not None:
                self.low[name] = min(low, self.low.get(name, low))
                self.high[name] = max(high, self.high.get(name, high))


def with_date(columns: pa.Schema) -> pa.Schema:
    """A table's columns and DATE, the day of `timestamp` in UTC, by which it can be partitioned."""
    return columns if DATE in columns.names else columns.append(pa.field(DATE, pa.date32()))


def _bounds(kind: pa.DataType, column: Any) -> tuple[Any, Any] | None:
    """The least and greatest of a column as Delta's statistics write them, (None, None) if all is null.

    None for a type that has no statistics.
    """
    types = pa.types
    if types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    if types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        low, high = _min_max(micros)
        return (None, None) if low is None else (_instant(low), _instant(high + 999 if high % 1000 else high))
    if types.is_floating(kind):
        return _float_bounds(column)
    if types.is_date(kind):
        low, high = _min_max(column.cast(pa.date32()).cast(pa.int32()))
        return (None, None) if low is None else (_day(low), _day(high))
    if any(has(kind) for has in (types.is_integer, types.is_boolean, types.is_string)):
        low, high = _min_max(column)
        if isinstance(low, str):
            cut = len(high) > TEXT_MAX and high[TEXT_MAX] != LAST_CHARACTER
            return low[:TEXT_MAX], high[:TEXT_MAX] + LAST_CHARACTER if cut else high
        return low, high
    if types.is_decimal(kind):
        low, high = _min_max(column)
        return (None, None) if low is None else (nextafter(float(low), -inf), nextafter(float(high), inf))
    return None


def _float_bounds(column: Any) -> tuple[Any, Any]:
    """JSON has no infinity and no NaN (which is greater than all): the largest finite ones stand in for them."""
    low, high = _min_max(column.cast(pa.float64()))
    if low is None:
        return None, None
    if pc.any(pc.is_nan(column)).as_py():
        high = inf
        low = -FLOAT_MAX if isnan(low) else low
    return tuple(min(FLOAT_MAX, max(-FLOAT_MAX, each)) for each in (low, high))


def _min_max(column: Any) -> tuple[Any, Any]:
    found = pc.min_max(column)
    return found["min"].as_py(), found["max"].as_py()


def _instant(timestamp_us: int) -> str:
    """Microseconds since 1970 as Delta's statistics write it; beyond the years 1 to 9999, the nearest of them."""
    milliseconds = min(max(timestamp_us // 1000, FIRST_INSTANT_MS), LAST_INSTANT_MS)
    moment = EPOCH + timedelta(milliseconds=milliseconds)
    return f"{moment.isoformat(timespec='milliseconds')}Z"


def _day(days: int) -> str:
    """Days since 1970 as Delta's statistics write it; beyond the years 1 to 9999, the nearest of them."""
    return (EPOCH.date() + timedelta(days=min(max(days, FIRST_DAY), LAST_DAY))).isoformat()
