"""What rows to write must look like, and how an Arrow batch of them is gone through.

The columns are the official connector's: `value` (needed), `key`, `headers`, `topic`, `partition`; others are left
alone, so that what was read from a topic can be written as it is. Strings are written as UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import ConfigError, ErrorCode, PenstockError
from penstock.spark.limits import SINK_COMPILED_ROWS
from penstock.spark.write.options import WriteOptions

BYTES = ("string", "binary")
TYPES = {
    "value": BYTES,
    "key": BYTES,
    "headers": ("array<struct<key:string,value:binary>>",),
    "topic": ("string",),
    "partition": ("int",),
    "timestamp": ("timestamp", "timestamp_ntz"),
}
"""The columns that a write knows, and the types that each may have, as Spark names them."""


class SinkError(PenstockError):
    """Rows that could not be written: which, and why. The task fails."""

    code = ErrorCode.INVALID_RECORD


def columns_of(types: dict[str, str], options: WriteOptions) -> tuple[str, ...]:
    """The columns that are used of a frame, given its types by name. Raises ConfigError for one that cannot be."""
    used = ["value", "key", "partition"]
    used += ["headers"] if options.include_headers else []
    used += ["timestamp"] if options.timestamps else []
    used += ["topic"] if options.topic is None else []
    if "value" not in types:
        raise ConfigError(f"column `value` is missing; the rows have {', '.join(types) or 'no columns'}")
    if options.topic is None and "topic" not in types:
        raise ConfigError("where do the rows go? set the option topic, or add a column `topic`")
    if options.timestamps and "timestamp" not in types:
        raise ConfigError("penstock.timestamps = true, and there is no column `timestamp`")
    for name in used:
        found = types.get(name)
        if found is not None and found not in TYPES[name]:
            raise ConfigError(f"column `{name}` is {found}, it must be {' or '.join(TYPES[name])}")
    return tuple(name for name in used if name in types)


class Row(NamedTuple):
    """A record to be, as columns of many; what a column lacks is repeated for ever."""

    topics: Iterable[str]
    values: Iterable[bytes | None]
    keys: Iterable[bytes | None]
    partitions: Iterable[int]
    timestamps_ms: Iterable[int]
    headers: Iterable[list[tuple[str, bytes | None]] | None]


def rows_of(batch: Any, names: Sequence[str], topic: str | None) -> Row:
    """The columns of a batch as Python values. Raises SinkError for what no record can have."""
    column = {name: batch.column(name) for name in names}
    return Row(
        topics=repeat(topic) if topic is not None else _topics(column["topic"]),
        values=_bytes(column["value"]),
        keys=_bytes(column["key"]) if "key" in column else repeat(None),
        partitions=pc.fill_null(column["partition"], -1).to_pylist() if "partition" in column else repeat(-1),
        timestamps_ms=_milliseconds(column["timestamp"]) if "timestamp" in column else repeat(0),
        headers=_headers(column["headers"]) if "headers" in column else repeat(None),
    )


def keyed_rows(
    batch: Any, names: Sequence[str], partitions: int
) -> tuple[list[int], list[bytes], list[bytes | None]] | None:
    """Partitions, keys and values of rows that all have a key, and are many; None where rows have more or less.

    The keys' partitions are those of `partitioner`, by a compiled loop: that is loaded for many rows only.
    """
    if set(names) != {"key", "value"} or batch.num_rows < SINK_COMPILED_ROWS or batch.column("key").null_count:
        return None
    from penstock.records.kernels import partitions as find_partitions

    keys = batch.column("key").cast(pa.binary())
    _, ends, data = keys.buffers()
    found = np.empty(len(keys), np.int32)
    content = np.frombuffer(data if data is not None else b"", np.uint8)
    find_partitions(
        content, np.frombuffer(ends, np.int32)[keys.offset : keys.offset + len(keys) + 1], partitions, found
    )
    return found.tolist(), keys.to_pylist(), _bytes(batch.column("value"))


def destinations(batch: Any, names: Sequence[str], topic: str | None) -> Iterator[tuple[str, int, int]]:
    """(topic, least, greatest partition asked for) of a batch's rows; partitions are 0 where none is asked for."""
    if batch.num_rows == 0:
        return
    topics = pa.repeat(topic, batch.num_rows) if topic is not None else batch.column("topic")
    partitions = pc.fill_null(batch.column("partition"), 0) if "partition" in names else pa.repeat(0, batch.num_rows)
    found = pa.table({"topic": topics, "partition": partitions}).group_by("topic")
    for each in found.aggregate([("partition", "min"), ("partition", "max")]).to_pylist():
        yield each["topic"], each["partition_min"], each["partition_max"]


def _topics(column: Any) -> list[str]:
    if column.null_count:
        raise SinkError("a row has no topic: its column `topic` is null, and the option topic is not set")
    topics: list[str] = column.to_pylist()
    return topics


def _bytes(column: Any) -> list[bytes | None]:
    values: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return values


def _milliseconds(column: Any) -> list[int]:
    """CreateTime of each row; the producer's clock (0) where there is none."""
    milliseconds = pc.divide(column.cast(pa.int64()), 1000)  # Spark's timestamps are in microseconds
    if pc.any(pc.less(milliseconds, 0)).as_py():
        raise SinkError("a row's column `timestamp` is before 1970; a record cannot have that time")
    times: list[int] = pc.fill_null(milliseconds, 0).to_pylist()
    return times


def _headers(column: Any) -> Iterator[list[tuple[str, bytes | None]] | None]:
    """The headers of each row. Rows without them cost nothing."""
    keys, values = (pc.struct_field(column.values, name).to_pylist() for name in ("key", "value"))
    offsets, valid = column.offsets.to_pylist(), column.is_valid().to_pylist()
    for row, present in enumerate(valid):
        start, end = offsets[row], offsets[row + 1]
        if not present or start == end:
            yield None
            continue
        if None in keys[start:end]:
            raise SinkError("a row has a header without a key")
        yield list(zip(keys[start:end], values[start:end], strict=True))
