"""Which rows an erasure takes: a condition in SQL, asked of a file and of a batch of its rows.

DuckDB evaluates it. Asked of a file it reads the columns that the condition names, and only the row groups whose
statistics let one match; so files without such rows cost little. The condition sees the columns of the table and the
lists that were given with it. It reads neither files nor the network nor this process's variables.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from penstock.errors import ConfigError
from penstock.spark.lake.table import LakeTable, TableFile, one_line
from penstock.spark.limits import LAKE_ERASURE_MEMORY

CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_external_access": "false",
    "memory_limit": LAKE_ERASURE_MEMORY,
    "python_enable_replacements": "false",  # or a table could be a variable of this process
}


class Condition:
    """A condition on the rows of a table; a context manager.

    Args:
        where: SQL as it stands behind WHERE. A row for which it is null is not taken.
        columns: those of the table.
        lists: tables of one column `value` that the condition may name in a subquery.

    Raises ConfigError for a condition that cannot be evaluated.
    """

    def __init__(self, where: str, columns: pa.Schema, lists: Mapping[str, pa.Array] | None = None) -> None:
        if not where.strip():
            raise ConfigError("the condition is empty: it would take every row, or none")
        self._where = f"({where}\n)"  # a comment at its end ends with the line
        self._columns = columns
        self._rows = f"rows_{uuid.uuid4().hex}"  # a name that the condition cannot know: each row is judged alone
        self._number = f"number_{uuid.uuid4().hex}"
        self._duckdb = duckdb.connect(config=CONFIG)
        self._duckdb.execute("set timezone = 'UTC'; set enable_progress_bar = false")
        for name, values in (lists or {}).items():
            self._duckdb.register(name, pa.table({"value": values}))
        try:
            self._count(columns.empty_table())
            ended = f"select case when {where}\n then 1 end from {self._rows}"  # it must not close our parentheses
            self._asked(lambda: self._duckdb.execute(ended).fetchall())
            self.matches(pa.RecordBatch.from_pylist([], columns))
        except ConfigError:
            self._duckdb.close()
            raise

    def count(self, lake: LakeTable, file: TableFile) -> int:
        """How many rows of a file of the table are taken."""
        layout = ds.ParquetFileFormat()
        known = [_is(self._columns.field(name), value) for name, value in file.partition_values.items()]
        whole = None
        for each in known:
            whole = each if whole is None else whole & each
        fragment = layout.make_fragment(file.path, lake.file_systems(), partition_expression=whole)
        return self._count(ds.FileSystemDataset([fragment], self._columns, layout, lake.file_systems()))

    def matches(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """For each row of a batch, whether it is taken."""
        numbers = pa.array(np.arange(rows.num_rows))  # DuckDB gives rows in any order where it joins
        self._duckdb.register(self._rows, pa.Table.from_batches([rows.append_column(self._number, numbers)]))
        query = f"select {self._number} from {self._rows} where {self._where}"
        taken = np.zeros(rows.num_rows, bool)
        taken[self._asked(lambda: self._duckdb.execute(query).fetchnumpy())[self._number]] = True
        return pa.array(taken)

    def _count(self, rows: Any) -> int:
        self._duckdb.register(self._rows, rows)
        query = f"select count(*) from {self._rows} where {self._where}"
        return int(self._asked(lambda: self._duckdb.execute(query).fetchall())[0][0])

    def _asked(self, ask: Any) -> Any:
        try:
            return ask()
        except duckdb.Error as error:
            hint = ' ("offset" is written in quotes)' if "offset" in self._where else ""
            raise ConfigError(f"the condition cannot be evaluated: {one_line(error)}{hint}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._duckdb.close()


def _is(field: pa.Field, value: str | None) -> Any:
    column = ds.field(field.name)
    return column.is_null() if value is None else column == pa.scalar(value, pa.string()).cast(field.type)
