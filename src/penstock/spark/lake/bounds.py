"""What a table knows of a column in one of its files, in a form that can be compared with a filter's value.

Formats, and the libraries that write them, differ in what their statistics leave out, so a bound here is no narrower
than the truth or is missing (None): Delta cuts times to milliseconds, JSON has no infinity, and NaN, which is greater
than all numbers to Spark, is in nobody's statistics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from math import inf, isnan, nextafter
from sys import float_info
from typing import Any

import pyarrow as pa

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FIRST_US, LAST_US = -62_135_596_800_000_000, 253_402_300_799_000_000
"""Times at and beyond which statistics may stand for any time."""
FLOAT32_ERROR = 2.0**-22


@dataclass(frozen=True, slots=True)
class Bounds:
    """A column in a file: no value is less than `low` or greater than `high`, and `nulls` of the `rows` are null.

    Each is None where it is not known. `exact` says that `low` is the value of all rows, as of a partition column.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None
    rows: int | None = None
    exact: bool = False

    @property
    def all_null(self) -> bool:
        return self.nulls is not None and self.nulls == self.rows


@dataclass(frozen=True, slots=True)
class ScanFile:
    """A data file of a table: where it is, relative to the table, and what is known of its rows.

    `partition_values` are of the columns by which the table's files are apart: as text or typed, None for null.
    """

    path: str
    size_bytes: int
    partition_values: Mapping[str, Any] = field(default_factory=dict)
    bounds: Mapping[str, Bounds] = field(default_factory=dict)


def comparable(value: Any, kind: pa.DataType) -> Any:
    """A value of a column as it can be compared with others of the column; None if it cannot.

    Integers, text, booleans and dates are themselves; times are microseconds since 1970.
    """
    types = pa.types
    if value is None:
        return None
    if types.is_boolean(kind):
        return value if isinstance(value, bool) else None
    if types.is_integer(kind):
        return value if isinstance(value, int) and not isinstance(value, bool) else None
    if types.is_floating(kind):
        known = isinstance(value, int | float) and not isinstance(value, bool) and not isnan(value)
        return float(value) if known else None
    if types.is_string(kind) or types.is_large_string(kind):
        return value if isinstance(value, str) else None
    if types.is_date(kind):
        return value if isinstance(value, date) and not isinstance(value, datetime) else None
    if types.is_timestamp(kind) and isinstance(value, datetime):
        return ((value if value.tzinfo else value.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND
    return None


def bounds_of(kind: pa.DataType, low: Any, high: Any, nulls: int | None, rows: int | None) -> Bounds:
    """Bounds by a file's statistics, made so wide that they hold whoever wrote them."""
    low, high = comparable(low, kind), comparable(high, kind)
    if pa.types.is_timestamp(kind):
        low = None if low is None or low <= FIRST_US else low
        high = None if high is None or high >= LAST_US else high + 999
    elif pa.types.is_floating(kind):
        high = None  # there may be NaN
        if low is not None:
            low = -inf if low <= -float_info.max else nextafter(low, -inf)
            low -= abs(low) * FLOAT32_ERROR if pa.types.is_float32(kind) else 0.0
    return Bounds(low, high, nulls, rows)


def bounds_of_partition(kind: pa.DataType, value: Any) -> Bounds:
    """Bounds of a column that has one value in a file."""
    if value is None:
        return Bounds(nulls=1, rows=1)
    if pa.types.is_floating(kind) or (known := comparable(value, kind)) is None:
        return Bounds(nulls=0, rows=1)
    return Bounds(known, known, 0, 1, exact=True)
