"""Rows that take the place of all rows of a Delta table, or of those of a range of time, in one commit.

Readers see the old rows or the new ones. Tasks write the new files; of a file that holds rows of the range and others
they write the others anew. A commit that conflicts with another writer's is planned again from the table as it is then
(see `upsert`, which replaces rows by key).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa

from penstock.errors import ConfigError, PenstockError
from penstock.spark.frames.columns import columns_of
from penstock.spark.frames.keyed import may_hold, quoted
from penstock.spark.frames.options import FrameOptions, parse
from penstock.spark.frames.sink import Target, Written, check_still_fits, discard, opened, target_of
from penstock.spark.lake.batches import QueryBatch
from penstock.spark.lake.delta import DeltaLake
from penstock.spark.lake.records import DAY_US, DataFile, LakeConflictError
from penstock.spark.lake.rows import rows_of
from penstock.spark.lake.table import TableFile, reading
from penstock.spark.limits import UPSERT_TRIES
from penstock.spark.session import parallelism

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The rows whose `column`, a timestamp, is from `start` on and before `end`."""

    column: str
    start: datetime
    end: datetime

    @property
    def condition(self) -> str:
        """As SQL."""
        column = quoted(self.column)
        return f"{column} >= {_literal(self.start)} and {column} < {_literal(self.end)}"

    def span(self, kind: pa.DataType) -> tuple[int, int]:
        """The first and the last that may be in it of a column of this type, as statistics count: days since 1970 of
        dates, else microseconds. What has no time zone is in that of Spark's session, a day away at most."""
        around_us = 0 if pa.types.is_timestamp(kind) and kind.tz is not None else DAY_US
        first, last = _micros(self.start) - around_us, _micros(self.end) - 1 + around_us
        return (first // DAY_US, last // DAY_US) if pa.types.is_date(kind) else (first, last)


def _micros(moment: datetime) -> int:
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def _literal(moment: datetime) -> str:
    return f"timestamp '{moment.astimezone(UTC).isoformat(' ')}'"


def replace(rows: DataFrame, path: str, *, within: TimeRange | None = None, **options: str) -> int:
    """Puts the rows of a DataFrame into the place of a table's; returns how many they are.

    Args:
        rows: read as often as the table changes meanwhile. With `within` those outside of the range are left out.
        path: the table: a path, or a URI of a store; made if it is missing.
        within: what is replaced; None is everything.
        options: as `format("penstock-lake")` has them, without those of upserts and batches.

    Raises:
        ConfigError: wrong options, or columns that do not fit them.
        UnfitError: the rows do not fit the table.
        LakeConflictError: others committed in between every time.
        PenstockError: the table cannot be read or written.
    """
    told = parse({"path": path, **options})
    if told.upsert_by or told.batch.query is not None:
        raise ConfigError("rows that are replaced have no key and are no batch of a query")
    if within is not None:
        rows = rows.where(within.condition)
    columns = columns_of(rows.schema)
    for tried in range(UPSERT_TRIES):
        try:
            return _once(rows, told, columns, within)
        except LakeConflictError as error:
            logger.info("planned again: %s", error)
            if tried == UPSERT_TRIES - 1:
                raise
    raise AssertionError("the last try returns or raises")


def _once(rows: DataFrame, options: FrameOptions, columns: pa.Schema, within: TimeRange | None) -> int:
    """Plans, writes and commits. Raises LakeConflictError if the table changed meanwhile."""
    lake = opened(options, columns)
    if not isinstance(lake, DeltaLake):
        raise ConfigError(f"the table at {lake.uri} is {lake.format}: rows are replaced in Delta tables only")
    lake.check_takes_upserts()
    target = target_of(lake, columns)
    with reading(lake):
        replaced = _touched(lake, within)
    written = _written(rows, target)
    count = sum(file.rows for each in written for file in each.files)
    if within is not None and replaced:
        old = rows_of(rows.sparkSession, lake, lake.columns.names, parallelism(rows.sparkSession), files=replaced)
        written += _written(old.where(f"not coalesce({within.condition}, false)"), target)
    files = [file for each in written for file in each.files]
    if not files and not replaced:
        return 0

    def check() -> None:
        check_still_fits(lake, columns, written)

    try:
        with reading(lake):
            check()
    except PenstockError:
        discard(target.destination, written)
        raise
    with reading(lake):  # from here on a store may yet apply the commit: the files stay, for vacuum if need be
        lake.replace(files, replaced, QueryBatch(), (), check)
    return count


def _touched(lake: DeltaLake, within: TimeRange | None) -> list[TableFile]:
    """The files that may hold rows which are replaced."""
    files = lake.files()
    if within is None:
        return files
    span = within.span(lake.columns.field(within.column).type)
    return may_hold(files, lake.spans([within.column]), {within.column: span})


def _written(rows: DataFrame, target: Target) -> list[Written]:
    """Has tasks write rows into files of the table."""
    told = rows.mapInArrow(Writing(target), "files string").collect()
    return [Written(tuple(DataFile(**each) for each in json.loads(row[0])), target.identity) for row in told]


class Writing:
    """What a task does: writes its rows; its result is the files."""

    def __init__(self, target: Target) -> None:
        self._target = target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files = [asdict(file) for file in self._target.write(batches).files]
        yield pa.RecordBatch.from_pydict({"files": [json.dumps(files)]})
