"""Rows with a key: what may be one, which of a table's files may hold some keys, and which row of a key is its latest.

Of two rows of a key the one with the greater value of `latestBy` is the later; a null is less than any. Of equal values
a row of the batch is later than the table's. Of a batch's own rows that are still equal one that deletes is the later,
and then the one whose columns, compared from the left, are greater: a rule without a meaning of its own, so that a
batch that is run again has the same outcome in whatever order its rows come.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError
from penstock.spark.frames.columns import columns_of
from penstock.spark.frames.options import FrameOptions
from penstock.spark.lake.records import FIRST_DAY, FIRST_INSTANT_MS, LAST_DAY, LAST_INSTANT_MS
from penstock.spark.lake.table import TableFile
from penstock.spark.limits import UPSERT_LOOSE_BYTES, UPSERT_LOOSE_FILES

if TYPE_CHECKING:
    from pyspark.sql import Column

KEY_TYPES = (IntegralType, DecimalType, StringType, BinaryType, BooleanType, DateType, TimestampType, TimestampNTZType)
ORDERED_TYPES = (NumericType, StringType, BinaryType, DateType, TimestampType, TimestampNTZType)
COLLATION = "UTF8_BINARY"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND_US = 1000
Span = tuple[int | str, int | str]
"""The least and the greatest of a column: numbers, days or microseconds since 1970, or text."""


@dataclass(frozen=True, slots=True)
class Keyed:
    """How the rows of a DataFrame replace those of a table.

    Attributes:
        key: columns of the key.
        latest_by: the column by which of two rows one is the later, or None.
        delete_when: the column that says that a row deletes its key, or None.
        is_flag: whether that one is a boolean and no column of the table; else a null in it deletes.
        rows: the columns that the table gets.
    """

    key: tuple[str, ...]
    latest_by: str | None
    delete_when: str | None
    is_flag: bool
    rows: pa.Schema


def keyed(schema: StructType, options: FrameOptions) -> Keyed:
    """Holds options against a DataFrame's columns. Raises ConfigError for what cannot be a key, an order or a mark."""
    for name in options.upsert_by:
        kind = _field(schema, name, "upsertBy").dataType
        if not isinstance(kind, KEY_TYPES) or _is_collated(kind):
            raise ConfigError(
                f"column {name}, {kind.simpleString()}, cannot be a key: only whole numbers, decimals, text, bytes, "
                "booleans, dates and times"
            )
    if options.latest_by is not None:
        kind = _field(schema, options.latest_by, "latestBy").dataType
        if not isinstance(kind, ORDERED_TYPES) or _is_collated(kind):
            raise ConfigError(
                f"column {options.latest_by}, {kind.simpleString()}, does not say which row is later: only numbers, "
                "text, bytes, dates and times"
            )
    flag = False
    if options.delete_when is not None:
        flag = isinstance(_field(schema, options.delete_when, "deleteWhen").dataType, BooleanType)
    kept = [each for each in schema.fields if not (flag and each.name == options.delete_when)]
    return Keyed(options.upsert_by, options.latest_by, options.delete_when, flag, columns_of(StructType(kept)))


def _field(schema: StructType, name: str, option: str) -> StructField:
    if name not in schema.names:
        raise ConfigError(f"option {option}: the rows have no column {name}{did_you_mean(name, schema.names)}")
    return schema[name]


def _is_collated(kind: DataType) -> bool:
    """Whether texts that differ are equal to Spark."""
    return isinstance(kind, StringType) and getattr(kind, "collation", COLLATION) != COLLATION


def is_ordered(kind: DataType) -> bool:
    """Whether Spark can sort by a type: maps, at any depth, have no order."""
    if isinstance(kind, StructType):
        return all(is_ordered(each.dataType) for each in kind.fields)
    element = getattr(kind, "elementType", None)
    return not isinstance(kind, MapType) and (element is None or is_ordered(element))


def ends_of(schema: StructType, key: Sequence[str]) -> dict[str, Column]:
    """For the columns of a key that have a span, the value to take the least and the greatest of, as `Span` has it."""
    from pyspark.sql import functions as f

    found = {}
    for name in key:
        kind, column = schema[name].dataType, f.col(quoted(name))
        if isinstance(kind, IntegralType | StringType):
            found[name] = column
        elif isinstance(kind, DateType):
            found[name] = f.unix_date(column)
        elif isinstance(kind, TimestampType):
            found[name] = f.unix_micros(column)
    return found


def quoted(name: str) -> str:
    """A column's name as Spark's expressions take it."""
    return "`" + name.replace("`", "``") + "`"


def may_hold(
    files: Iterable[TableFile], known: Mapping[str, Mapping[str, tuple[Any, Any]]], spans: Mapping[str, Span]
) -> list[TableFile]:
    """The files whose columns reach into spans; one of which nothing is known may hold anything.

    Args:
        files: of a table.
        known: by path and column the least and the greatest, as the table tells them.
        spans: by column, of the rows that are looked for.
    """
    return [file for file in files if all(_reaches(known.get(file.path, {}).get(name), spans[name]) for name in spans)]


def _reaches(ends: tuple[Any, Any] | None, span: Span) -> bool:
    if ends is None or ends[0] is None or ends[1] is None:
        return True
    low, high = _ordinal(ends[0]), _ordinal(ends[1])
    least, greatest = _told(span[0], ends[1]), _told(span[1], ends[1])
    if isinstance(ends[1], datetime):
        high += MILLISECOND_US  # other writers cut times to milliseconds
    return bool(low <= greatest and high >= least)


def _told(value: int | str, like: Any) -> Any:
    """What stands for a date or time in statistics: beyond the years 1 to 9999, the nearest of them."""
    if isinstance(like, datetime):
        return min(max(int(value), FIRST_INSTANT_MS * 1000), LAST_INSTANT_MS * 1000)
    return min(max(int(value), FIRST_DAY), LAST_DAY) if isinstance(like, date) else value


def _ordinal(value: Any) -> Any:
    if isinstance(value, datetime):
        since = value.replace(tzinfo=value.tzinfo or UTC) - EPOCH
        return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds
    return (value - EPOCH.date()).days if isinstance(value, date) else value


def loose(files: Iterable[TableFile]) -> list[TableFile]:
    """Small files, where there are so many of one partition value that they are better made one."""
    groups: dict[tuple[tuple[str, str | None], ...], list[TableFile]] = {}
    for file in files:
        if file.size_bytes < UPSERT_LOOSE_BYTES:
            groups.setdefault(tuple(sorted(file.partition_values.items())), []).append(file)
    return [file for group in groups.values() if len(group) > UPSERT_LOOSE_FILES for file in group]


def total_bytes(files: Collection[TableFile]) -> int:
    """How much some files hold."""
    return sum(each.size_bytes for each in files)
