"""Runs the tests of a node over its rows: how many fail, and some of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError, PenstockError
from penstock.pipelines.limits import TEST_SAMPLE_CHARACTERS, TEST_SAMPLE_ROWS
from penstock.pipelines.models.frames import RECORD_TIME, Ends, Frames, Whole, ends_now
from penstock.pipelines.models.position import Positions
from penstock.pipelines.models.project import (
    ACCEPTED_VALUES,
    ERROR,
    FRESHNESS,
    NOT_NULL,
    ROW_COUNT,
    UNIQUE,
    Node,
    Source,
    Test,
)
from penstock.pipelines.models.results import ERROR as BROKEN
from penstock.pipelines.models.results import FAIL, PASS, WARN, Result, now
from penstock.spark.frames.keyed import quoted
from penstock.spark.session import one_line

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from penstock.pipelines.context import Context

Found = tuple[int, str, str]
"""Failures, a sample of them, a message."""


class Testing:
    """Tests the nodes of a project.

    Args:
        context: of the pipeline.
        frames: gives the rows.
        positions: of the models.
    """

    __test__ = False

    def __init__(self, context: Context, frames: Frames, positions: Positions) -> None:
        self._context = context
        self._frames = frames
        self._positions = positions
        self._kinds: Mapping[str, Callable[[Node, Test, DataFrame], Found]] = {
            NOT_NULL: self._not_null,
            UNIQUE: self._unique,
            ACCEPTED_VALUES: self._accepted_values,
            FRESHNESS: self._freshness,
            ROW_COUNT: self._row_count,
        }

    def of(self, node: Node, ends: Mapping[str, Ends]) -> list[Result]:
        """Runs all tests of a node; topics are looked at within `ends`, by source. Never raises for a failure."""
        return [self._run(node, test, ends) for test in node.tests]

    def _run(self, node: Node, test: Test, ends: Mapping[str, Ends]) -> Result:
        began = time.monotonic()
        failures, sample, message = 0, "", ""
        try:
            rows = self._rows(node, test, ends)
            if test.where:
                rows = rows.where(test.where)
            failures, sample, message = self._kinds[test.kind](node, test, rows)
            bad = FAIL if test.severity == ERROR else WARN
            status = bad if failures else PASS
        except Exception as error:  # a condition that is no SQL, a table that is not there, brokers that are gone
            status = BROKEN
            message = str(error) if isinstance(error, PenstockError) else one_line(error)
        seconds = time.monotonic() - began
        return Result(now(), self._context.name, node.name, test.name, status, failures, sample, message, seconds)

    def _rows(self, node: Node, test: Test, ends: Mapping[str, Ends]) -> DataFrame:
        recent = test.kind == FRESHNESS and test.columns == (RECORD_TIME,) and not test.where
        if isinstance(node, Source) and node.topic is not None and recent:
            since = now() - timedelta(seconds=test.seconds)  # brokers find it: the topic is not read
            ends = {**ends, **ends_now(self._context, [node], since)}
        rows = self._frames.of(node.name, Whole(ends))
        for column in test.columns:
            if column.split(".")[0] not in rows.columns:
                raise ConfigError(f"{node.name} has no column {column}{did_you_mean(column, rows.columns)}")
        return rows

    def _not_null(self, _node: Node, test: Test, rows: DataFrame) -> Found:
        return _bad(rows.where(" or ".join(f"{_name(column)} is null" for column in test.columns)))

    def _unique(self, _node: Node, test: Test, rows: DataFrame) -> Found:
        columns = [_name(column) for column in test.columns]
        there = rows.where(" and ".join(f"{column} is not null" for column in columns))
        return _bad(there.selectExpr(*columns).groupBy(*_selected(test)).count().where("count > 1"))

    def _accepted_values(self, _node: Node, test: Test, rows: DataFrame) -> Found:
        from pyspark.sql import functions as f

        text = f.expr(_name(test.columns[0])).cast("string")
        failures, sample, _ = _bad(rows.where(text.isNotNull() & ~text.isin(*test.values)))
        return failures, sample, f"accepted: {', '.join(test.values)}" if failures else ""

    def _freshness(self, _node: Node, test: Test, rows: DataFrame) -> Found:
        column = _name(test.columns[0])
        (newest,) = rows.selectExpr(f"unix_millis(cast(max({column}) as timestamp))").collect()[0]
        if newest is None:
            return 1, "", f"there is no row, or none of the last {test.seconds:,} s"
        age = now().timestamp() - newest / 1000
        return int(age > test.seconds), "", f"the newest row is {age:,.0f} s old" if age > test.seconds else ""

    def _row_count(self, node: Node, test: Test, rows: DataFrame) -> Found:
        position = self._positions.read(node.name)
        if test.source not in position:
            raise ConfigError(f"{node.name} has not run yet, so it is not known what it has read of {test.source}")
        read = sum(end - start for start, end in position[test.source].values())
        if test.columns:
            (counted,) = rows.selectExpr(f"coalesce(sum({_name(test.columns[0])}), 0)").collect()[0]
        else:
            counted = rows.count()
        differ = abs(int(counted) - read)
        message = f"{int(counted):,} rows of {read:,} offsets that were read of {test.source}"
        return (differ, "", message) if differ > test.tolerance else (0, "", "")


def _bad(rows: DataFrame) -> Found:
    """Counts rows that should not be, and shows some."""
    count = rows.count()
    if not count:
        return 0, "", ""
    some = [row.asDict(recursive=True) for row in rows.limit(TEST_SAMPLE_ROWS).collect()]
    return count, json.dumps(some, default=str, ensure_ascii=False)[:TEST_SAMPLE_CHARACTERS], ""


def _name(column: str) -> str:
    """A column, or a field of one, as SQL."""
    return ".".join(quoted(part) for part in column.split("."))


def _selected(test: Test) -> list[str]:
    """What columns are called once they are selected: a field by its own name."""
    return [quoted(column.split(".")[-1]) for column in test.columns]
