"""What every format does: a column of record values in, table columns out, and an account of what did not fit.

A format never drops a record. Each value becomes a row, or is rejected with a reason, and the load then puts the record
into the quarantine table as it came. A value with a field that the table has no column for makes the format report
that field: nothing of the job is written then, the load adds the column and runs the job again. So a column is there
before the data that needs it, and whatever is repeated after a crash gives the same rows.

A null value (a tombstone) is a row whose value columns are all null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

OWN_COLUMNS = ("topic", "topicId", "partition", "offset", "timestamp", "timestampType", "key", "headers")
"""Columns of the record itself, which a value's field of the same name must not touch: it becomes `value_<name>`."""
VALUE_PREFIX = "value_"
UNFIT = re.compile(r"[ ,;{}()\n\t=]")
"""What Delta and Spark allow in no column's name."""
REASON_MAX = 300
"""Characters of a reason."""


class Rejected(Exception):
    """A value does not fit; the message says why."""


@dataclass(slots=True)
class Parsed:
    """Values of one batch as columns.

    Attributes:
        columns: RecordBatch of the value columns, a row for each value that fits.
        kept: which values those are, int64 and ascending; None: all.
        rejected: the others, by position, with the reason.
        unknown: columns that the table lacks, with their types; if there are any, the rows are worth nothing.
        unknown_schemas: ids of Avro schemas that the plan does not hold; likewise.
    """

    columns: pa.RecordBatch
    kept: pa.Array | None = None
    rejected: Mapping[int, str] = field(default_factory=dict)
    unknown: Mapping[str, pa.DataType] = field(default_factory=dict)
    unknown_schemas: Sequence[int] = ()


class Format(Protocol):
    """Turns values into columns; one object a task and table, so it may remember what it learnt."""

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        """Values (binary, nulls are tombstones) of records of one topic as columns."""
        ...


def column_of(name: str, own: Sequence[str] = OWN_COLUMNS) -> str:
    """The column of a value's field: its own name, unless the record has that (in any case) or no table may."""
    name = UNFIT.sub("_", name) or "_"
    return VALUE_PREFIX + name if name.lower() in {each.lower() for each in own} else name


def with_tombstones(values: pa.Array, parsed: Parsed) -> Parsed:
    """`parsed` are the columns of the values that are not null: puts a row of nulls where a value is."""
    if not values.null_count or parsed.unknown or parsed.unknown_schemas:
        return parsed
    present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    rejected = {int(present[i]): reason for i, reason in parsed.rejected.items()}
    at = np.full(len(values), -1, np.int64)
    at[present if parsed.kept is None else present[parsed.kept.to_numpy()]] = np.arange(parsed.columns.num_rows)
    rows = np.delete(np.arange(len(values)), list(rejected))
    columns = parsed.columns.take(pa.array(at[rows], mask=at[rows] < 0))
    kept_rows = pa.array(rows, pa.int64()) if rejected else None
    return Parsed(columns, kept_rows, rejected, parsed.unknown, parsed.unknown_schemas)


def wider(one: pa.DataType | None, other: pa.DataType) -> pa.DataType:
    """The type of a new column that both were found for: whole numbers and doubles are doubles, the rest is text."""
    if one is None or one == other:
        return other
    numbers = {pa.int64(), pa.float64()}
    return pa.float64() if one in numbers and other in numbers else pa.string()


def shortened(reason: Any) -> str:
    """A reason as a column can hold it: on one line, not too long, and valid Unicode though it quotes what is not."""
    text = " ".join(str(reason).encode(errors="backslashreplace").decode().split())
    return text if len(text) <= REASON_MAX else text[: REASON_MAX - 1] + "…"


def type_name(kind: pa.DataType) -> str:
    """A type as Spark names it."""
    names = {
        "int8": "tinyint",
        "int16": "smallint",
        "int32": "int",
        "int64": "bigint",
        "float": "float",
        "bool": "boolean",
    }
    return names.get(str(kind), "timestamp" if pa.types.is_timestamp(kind) else str(kind))
