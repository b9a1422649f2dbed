"""The columns of a DataFrame held against those of a table: what a new table gets, and what fits one that is there.

A table's columns are what Spark may hand over, all of them nullable: a column has the table's type or a narrower number
(int for bigint, float for double). Columns that a row lacks are null. What the formats cannot keep, or
read back as something else, is refused before anything is written.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError, PenstockError
from penstock.spark.lake.records import DATE, with_date

KEPT = frozenset(
    [
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "decimal",
        "string",
        "binary",
        "date",
        "timestamp",
    ]
)
KEPT_TIMES = frozenset(["timestamp_ntz"])
"""Kept by Delta and Iceberg alike, but without a time zone."""
WIDER = (
    (pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    (pa.float32(), pa.float64()),
)
UNPRINTABLE = re.compile(r"[ ,;{}()\n\t=]")
"""Characters that Delta forbids in names of columns."""
PARTITION_TYPES = "text, whole numbers or dates"


class UnfitError(PenstockError):
    """The rows do not fit the table; the message says which column, and what would be right."""


def columns_of(schema: StructType) -> pa.Schema:
    """A DataFrame's columns as a table keeps them. Raises ConfigError for a column that it cannot keep."""
    if not schema.fields:
        raise ConfigError("the DataFrame has no columns")
    names = sorted(name.lower() for name in schema.names)
    twice = [one for one, other in pairwise(names) if one == other]
    if twice:
        raise ConfigError(f"there are two columns {twice[0]}: names that differ only in case are one to Spark")
    for field in schema.fields:
        if not field.name or UNPRINTABLE.search(field.name):
            raise ConfigError(f"a table cannot have a column {field.name!r}: rename it, without blanks and ,;{{}}()=")
        _check_kept(field.name, field.dataType)
    found = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(each.name, nullable(each.type)) for each in found])


def _check_kept(name: str, kind: DataType) -> None:
    """Raises ConfigError for a type that is no table's, at any depth."""
    if isinstance(kind, ArrayType):
        _check_kept(f"{name}.element", kind.elementType)
    elif isinstance(kind, MapType):
        _check_kept(f"{name}.key", kind.keyType)
        _check_kept(f"{name}.value", kind.valueType)
    elif isinstance(kind, StructType):
        for field in kind.fields:
            _check_kept(f"{name}.{field.name}", field.dataType)
    elif kind.typeName() not in KEPT | KEPT_TIMES and not isinstance(kind, StringType):
        raise ConfigError(f"a table cannot keep column {name}, {kind.simpleString()}: cast it")


def nullable(kind: pa.DataType) -> pa.DataType:
    """A type whose parts may all be null, and whose lists and maps are named alike."""
    types = pa.types
    if types.is_large_string(kind):
        return pa.string()
    if types.is_large_binary(kind):
        return pa.binary()
    if types.is_list(kind) or types.is_large_list(kind):
        return pa.list_(pa.field("element", nullable(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(nullable(kind.key_type), nullable(kind.item_type))
    if types.is_struct(kind):
        return pa.struct([pa.field(each.name, nullable(each.type)) for each in kind])
    return kind


def with_derived(columns: pa.Schema, partition_by: Sequence[str]) -> pa.Schema:
    """The columns of a new table: `date`, if it is partitioned by it and the rows have none, is the day of `timestamp`.

    Raises ConfigError for a column that a table cannot be partitioned by.
    """
    if DATE in partition_by and DATE not in columns.names and _is_instant(columns):
        columns = with_date(columns)
    check_partitioning(columns, partition_by)
    if len(partition_by) == len(columns):
        raise ConfigError("the table cannot be partitioned by all its columns: nothing would be left in the files")
    return columns


def check_partitioning(columns: pa.Schema, partition_by: Sequence[str]) -> None:
    """Raises ConfigError for a column by which files cannot be apart."""
    for name in partition_by:
        if name not in columns.names:
            raise ConfigError(
                f"the table cannot be partitioned by {name}{did_you_mean(name, columns.names)}: no column"
            )
        kind = columns.field(name).type
        if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date(kind)):
            raise ConfigError(f"the table cannot be partitioned by {name}, {kind}: only by {PARTITION_TYPES}")


def _is_instant(columns: pa.Schema) -> bool:
    return "timestamp" in columns.names and pa.types.is_timestamp(columns.field("timestamp").type)


def lacking(rows: pa.Schema, table: pa.Schema) -> list[pa.Field]:
    """The columns of rows that a table does not have."""
    return [each for each in rows if each.name not in table.names]


def check_fits(rows: pa.Schema, table: pa.Schema, partition_by: Sequence[str]) -> None:
    """Raises UnfitError for rows that a table cannot take."""
    for each in lacking(rows, table):
        raise UnfitError(
            f"the table has no column {each.name}{did_you_mean(each.name, table.names)}\n"
            "  select the table's columns, or let it be added by the option mergeSchema = true"
        )
    for each in table:
        if each.name not in rows.names:
            derived = each.name == DATE and DATE in partition_by and _is_instant(rows)
            if not each.nullable and not derived:
                raise UnfitError(f"column {each.name} of the table may not be null, and the rows have no such column")
            continue
        if not takes(nullable(each.type), nullable(rows.field(each.name).type)):
            raise UnfitError(
                f"column {each.name} is {each.type} in the table, not {rows.field(each.name).type}: cast it"
            )


def takes(wanted: pa.DataType, given: pa.DataType) -> bool:
    """Whether a column of a type takes all values of another: it is the same, or a narrower number."""
    if wanted == given:
        return True
    return any(given in kinds and wanted in kinds and kinds.index(given) < kinds.index(wanted) for kinds in WIDER)


def as_table(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Rows with the types of the table's columns; those that they lack are left to the writer.

    Raises UnfitError for a null where the table forbids it.
    """
    names = [name for name in rows.schema.names if name in columns.names]
    for name in names:
        if not columns.field(name).nullable and rows.column(name).null_count:
            raise UnfitError(f"column {name} of the table may not be null, and a row has none")
    arrays = [rows.column(name).cast(nullable(columns.field(name).type)) for name in names]
    return pa.RecordBatch.from_arrays(arrays, names=names)
