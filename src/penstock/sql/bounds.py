"""What a filter leaves to be read: partitions, offsets, times.

DuckDB hands a scan its filter as an Arrow expression, which cannot be looked into. But Arrow can be asked whether a
filter may hold under a guarantee ("partition is 3 and offset is less than 100"): that is how it passes over the files
of a data set by what is known of each. So the bounds are found by bisection, 36 µs a question; whatever Arrow cannot
decide counts as "it may", and the filter itself is applied to every row that was read anyway.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from penstock.records.arrow_schema import MICROSECONDS_UTC

FORMAT = ds.IpcFileFormat()
NOWHERE = LocalFileSystem()
"""The data set of one file that is never opened."""
TIME_MIN_US, TIME_MAX_US = -(2**63), 2**63 - 1


class Filter:
    """A filter over rows of `schema` (None: all rows), and what it implies without reading."""

    def __init__(self, expression: Any, schema: Any) -> None:
        self.expression = expression
        self._schema = schema
        self._text = "" if expression is None else str(expression)

    def mentions(self, name: str) -> bool:
        """Whether the filter may look at a column; never wrongly False."""
        return name in self._text

    def may_hold(self, guarantee: Any) -> bool:
        """Whether a row of which `guarantee` is true may pass; never wrongly False."""
        if self.expression is None:
            return True
        fragment = FORMAT.make_fragment("none", NOWHERE, partition_expression=guarantee)
        files = ds.FileSystemDataset([fragment], self._schema, FORMAT, NOWHERE)
        return any(True for _ in files.get_fragments(self.expression))

    def offsets(self, partition: int, start: int, end: int) -> tuple[int, int]:
        """The part of the offsets [start, end) of a partition that must be read: one range, perhaps empty."""
        offset = ds.field("offset")
        here = (ds.field("partition") == partition) & (offset >= start) & (offset < end)
        if not self.may_hold(here):
            return start, start
        if not self.mentions("offset"):
            return start, end
        low = first(start, end, lambda at: self.may_hold(here & (offset <= at)))
        high = first(low, end, lambda at: not self.may_hold(here & (offset >= at)))
        return low, high

    def times_us(self) -> tuple[int, int]:
        """The least and the greatest time that a row which passes may have, in microseconds since 1970."""
        if not self.mentions("timestamp"):
            return TIME_MIN_US, TIME_MAX_US
        timestamp = ds.field("timestamp")

        def scalar(at: int) -> Any:
            return pa.scalar(at, MICROSECONDS_UTC)

        low = first(TIME_MIN_US, TIME_MAX_US, lambda at: self.may_hold(timestamp <= scalar(at)))
        beyond = first(low, TIME_MAX_US, lambda at: not self.may_hold(timestamp >= scalar(at)))
        return low, beyond if beyond == TIME_MAX_US else beyond - 1


def first(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The least number in [low, high) for which `holds`, `high` for none; from there on it must hold for all."""
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low
