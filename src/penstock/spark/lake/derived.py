"""Columns that a load makes of others: `day(at)`, `hour(at)`, `late(at, MS)`.

A table keeps, as properties, which of its columns are made, and of what: so a later run, a reload and the comparison
with the brokers make the same ones. A row's are made of that row alone, so a job that runs again, in whatever parts,
gives the same rows. Times are in UTC. A source is a timestamp, a date, or a whole number that is taken as
milliseconds since 1970; what is no instant of the years 1 to 9999 gives null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError
from penstock.spark.lake.records import (
    DATE,
    DAY_US,
    EPOCH,
    FIRST_INSTANT_MS,
    LAST_INSTANT_MS,
    TIMESTAMP,
)

PROPERTY = "penstock.derived."
"""Begins the name of a table's property that says what a column is made of."""
LATE = "late"
TYPES: Mapping[str, pa.DataType] = {"day": pa.date32(), "hour": pa.string(), LATE: pa.bool_()}
TEXT = re.compile(r"\s*(\w+)\s*\(\s*([^\s(),]+)\s*(?:,\s*(\d+)\s*)?\)\s*")
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
Millis = np.ndarray[Any, np.dtype[np.int64]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, slots=True)
class Derived:
    """One column that is made: `function` of `source`; `bound_ms` is that of `late`."""

    function: str
    source: str
    bound_ms: int = 0

    @classmethod
    def parse(cls, text: str) -> Derived:
        """What `str` gives. Raises ConfigError."""
        found = TEXT.fullmatch(text)
        if found is None or found[1] not in TYPES or (found[3] is not None) != (found[1] == LATE):
            raise ConfigError(f"{text!r} is neither a column, day(COLUMN) nor hour(COLUMN)")
        return cls(found[1], found[2], int(found[3] or 0))

    def __str__(self) -> str:
        return (
            f"{self.function}({self.source}, {self.bound_ms})" if self.bound_ms else f"{self.function}({self.source})"
        )

    @property
    def name(self) -> str:
        """What the column is called: `at_day` of `day(at)`, but `date` the day of a record's timestamp."""
        if self.function == LATE:
            return LATE
        return DATE if (self.function, self.source) == ("day", TIMESTAMP) else f"{self.source}_{self.function}"

    @property
    def type(self) -> pa.DataType:
        return TYPES[self.function]

    def check(self, columns: pa.Schema) -> None:
        """Raises ConfigError if a table with these columns cannot have it."""
        if self.source not in columns.names:
            raise ConfigError(f"{self}: the table has no column {self.source}")
        kind = columns.field(self.source).type
        if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_integer(kind)):
            raise ConfigError(f"{self}: {self.source} is {kind}, and must be a timestamp, a date or milliseconds")

    def of(self, rows: pa.RecordBatch) -> pa.Array:
        """The column for some rows; all null where they lack the source."""
        if self.source not in rows.schema.names:
            return pa.nulls(rows.num_rows, self.type)
        at_ms, known = _millis(rows.column(self.source))
        if self.function == "day":
            days = np.floor_divide(at_ms, DAY_MS).astype(np.int32)
            return pa.array(days, mask=~known).cast(pa.date32())
        if self.function == "hour":
            hours, codes = np.unique(np.floor_divide(at_ms, HOUR_MS), return_inverse=True)
            texts = pa.array([_hour(each) for each in hours.tolist()], pa.string())
            return texts.take(pa.array(codes, mask=~known))
        came_ms, told = _millis(rows.column(TIMESTAMP))
        return pa.array(at_ms < came_ms - self.bound_ms, mask=~(known & told))


def _millis(column: pa.Array) -> tuple[Millis, Mask]:
    """Instants as milliseconds since 1970, and which of them are one."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column, unit = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64()), DAY_US // DAY_MS
    elif pa.types.is_date(kind):
        column, unit = column.cast(pa.date32()).cast(pa.int32()).cast(pa.int64()), 0
    else:
        column, unit = column.cast(pa.int64()), 1
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    at_ms = values * DAY_MS if not unit else np.floor_divide(values, unit)
    known = (at_ms >= FIRST_INSTANT_MS) & (at_ms <= LAST_INSTANT_MS) & column.is_valid().to_numpy(zero_copy_only=False)
    return np.where(known, at_ms, 0), known


def _hour(hours: int) -> str:
    """Hours since 1970 as Iceberg writes them: `2026-01-31-08`."""
    return (EPOCH + timedelta(hours=hours)).isoformat()[:13].replace("T", "-")


def derived_of(settings: Mapping[str, str], partition_by: Sequence[str]) -> dict[str, str]:
    """The columns of a table that are made, and of what, by its properties.

    `date` is the day of `timestamp` in a table that is partitioned by it and says nothing else.
    """
    found = {key.removeprefix(PROPERTY): text for key, text in settings.items() if key.startswith(PROPERTY)}
    if DATE in partition_by:
        found.setdefault(DATE, str(Derived("day", TIMESTAMP)))
    return found


def settings_of(derived: Sequence[Derived]) -> dict[str, str]:
    """The properties of a new table by which it knows them again."""
    return {PROPERTY + each.name: str(each) for each in derived}
