"""Reads the files of a model into arrays, column by column, and says what is wrong with a column or a value.

Rows are counted from 1. A problem that many rows have is said for the first of them, with how many there are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from penstock.config.nearest import did_you_mean
from penstock.errors import ConfigError, ConfigErrors
from penstock.guardian.limits import MODEL_PROBLEMS_MAX
from penstock.guardian.model.columns import FILES, Column
from penstock.guardian.plan.model import Array

TYPES = {
    "int16": pa.int16(),
    "int32": pa.int32(),
    "double": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "map<string, string>": pa.map_(pa.string(), pa.string()),
}
ESTIMATES = b"penstock.estimates"
"""The name of sentences on what is estimated, as a JSON list in the metadata of the file of replicas."""
PARTS = ", ".join(f"{name}.parquet" for name in FILES)


class Problems:
    """What is wrong with a model, collected so that a person sees more than the first."""

    def __init__(self) -> None:
        self._found: list[ConfigError] = []
        self._more = 0

    def add(self, text: str) -> None:
        """One more problem."""
        if len(self._found) < MODEL_PROBLEMS_MAX:
            self._found.append(ConfigError(text))
        else:
            self._more += 1

    def at_rows(self, file: str, wrong: Array, text: str, right: str) -> None:
        """A problem that rows have, said for the first of them: what is so, and what would be right."""
        rows = np.flatnonzero(wrong)
        if len(rows):
            more = f" (and {len(rows) - 1} more rows)" if len(rows) > 1 else ""
            self.add(f"{file}.parquet, row {rows[0] + 1}{more}: {text}; {right}")

    def check(self) -> None:
        """Raises ConfigErrors with all problems, if there are any."""
        if self._more:
            self._found.append(ConfigError(f"{self._more} more problems are not listed"))
        if self._found:
            raise ConfigErrors(self._found)


class Table:
    """One file: its columns as arrays, and which of them are missing or have nulls."""

    def __init__(self, name: str, data: pa.Table, problems: Problems) -> None:
        self.name = name
        self.rows = data.num_rows
        self._columns: dict[str, Any] = {}
        self._nulls: dict[str, Array] = {}
        self._problems = problems
        for column in FILES[name]:
            self._read(column, data)
        self.estimates = estimates_of(data, name, problems)
        known = [column.name for column in FILES[name]]
        self.unused = [each for each in data.column_names if each not in known]

    def __getitem__(self, name: str) -> Any:
        return self._columns[name]

    def missing(self, name: str) -> Array:
        """Which rows have nothing in an estimated column."""
        return self._nulls[name]

    def _read(self, column: Column, data: pa.Table) -> None:
        """One column, with defaults filled in; problems are noted, and something harmless stands in."""
        file = self.name
        if column.name not in data.column_names:
            if column.required:
                near = did_you_mean(column.name, data.column_names)
                self._problems.add(f"{file}.parquet has no column {column.name} ({describe(column)}){near}")
            self._keep(column, nothing(column, self.rows))
            return
        values = data[column.name]
        try:
            values = converted(values, column)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, TypeError) as error:
            reason = "" if isinstance(error, TypeError) else f" ({str(error).splitlines()[0]})"
            text = f"{file}.parquet: column {column.name} is {values.type}, it must be {describe(column)}{reason}"
            self._problems.add(text)
            values = nothing(column, self.rows)
        else:
            if column.required and values.null_count:
                nulls = values.is_null().to_numpy()
                text, right = f"{column.name} is null", f"it must be {describe(column)}"
                self._problems.at_rows(file, nulls, text, right)
        self._keep(column, values)

    def _keep(self, column: Column, values: Any) -> None:
        self._nulls[column.name] = nulls = values.is_null().to_numpy()
        if column.type == "map<string, string>":
            return
        if column.type == "string":
            self._columns[column.name] = pc.fill_null(values, column.default or "")
            return
        fill: Any = {"bool": False}.get(column.type, 1 if column.positive else 0)
        fill = pa.scalar(fill if column.default is None else column.default, TYPES[column.type])
        array = pc.fill_null(values, fill).to_numpy()
        self._columns[column.name] = array
        if column.type == "double":
            self._check_numbers(column, array, nulls)

    def _check_numbers(self, column: Column, array: Array, nulls: Array) -> None:
        wrong = ~np.isfinite(array) | ((array <= 0) if column.positive else (array < 0))
        wrong &= ~nulls
        if wrong.any():
            value = array[np.flatnonzero(wrong)[0]]
            least = "above 0" if column.positive else "0 or more"
            self._problems.at_rows(self.name, wrong, f"{column.name} is {value:g}", f"it must be {least} {column.unit}")


def estimates_of(data: pa.Table, name: str, problems: Problems) -> tuple[str, ...]:
    """What the file says of its estimates."""
    text = (data.schema.metadata or {}).get(ESTIMATES)
    if text is None:
        return ()
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        problems.add(f"{name}.parquet: {ESTIMATES.decode()} in its metadata must be a JSON list of sentences")
        return ()
    return tuple(found)


def nothing(column: Column, rows: int) -> Any:
    return pa.chunked_array([pa.nulls(rows, TYPES[column.type])])


def converted(values: Any, column: Column) -> Any:
    """Values in the column's type. Raises ArrowInvalid, ArrowNotImplementedError, or TypeError for another kind."""
    wanted, have = TYPES[column.type], values.type
    if pa.types.is_dictionary(have):
        values = values.cast(have.value_type)
        have = values.type
    if pa.types.is_null(have):
        return values.cast(wanted)
    same_kind = {
        "string": pa.types.is_string(have) or pa.types.is_large_string(have),
        "bool": pa.types.is_boolean(have),
        "double": pa.types.is_floating(have) or pa.types.is_integer(have) or pa.types.is_decimal(have),
        "map<string, string>": pa.types.is_map(have),
    }.get(column.type, pa.types.is_integer(have))
    if not same_kind:
        raise TypeError
    return values.cast(wanted)


def describe(column: Column) -> str:
    return f"{column.type}, {column.unit}" if column.unit else column.type


def read_tables(directory: Path) -> Mapping[str, pa.Table]:
    """The three files. Raises ConfigError where one is missing or is no Parquet."""
    return {name: read_table(directory, name) for name in FILES}


def read_table(directory: Path, name: str) -> pa.Table:
    path = directory / f"{name}.parquet"
    if not directory.is_dir():
        raise ConfigError(f"{directory} is no directory; a model is one with {PARTS}")

    if not path.exists():
        raise ConfigError(f"{directory} has no {path.name}; a model has {PARTS}")
    try:
        data = pq.read_table(path)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
        raise ConfigError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    names = data.column_names
    if twice := sorted({each for each in names if names.count(each) > 1}):
        raise ConfigError(f"{path} has the column {twice[0]} twice; each must be there once")
    return data
