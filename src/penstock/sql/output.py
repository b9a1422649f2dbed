"""Results as people and programs read them: a table, CSV, JSON lines, a Parquet file.

All but the table are written as rows come, a batch in memory at a time. Bytes that are UTF-8 are text; others are
`{"base64": ...}` in JSON and `\\x` with hexadecimal digits elsewhere.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import os
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, TextIO

from penstock.errors import PenstockError
from penstock.sql.engine import Result
from penstock.sql.limits import SQL_CELL_CHARACTERS_MAX


class OutputError(PenstockError):
    """A result that cannot be written as asked."""


def write_csv(result: Result, out: TextIO, *, head: bool = True) -> int:
    """Rows as CSV under the names of the columns; returns how many. Null is an empty cell."""
    writer = csv.writer(out, lineterminator="\n")
    if head:
        writer.writerow(result.names)
    rows = 0
    for batch in result.batches:
        columns = [_column(column, csv_cell) for column in batch.columns]
        writer.writerows(zip(*columns, strict=True))
        rows += batch.num_rows
    return rows


def write_json(result: Result, out: TextIO) -> int:
    """Rows as JSON objects, one a line; returns how many."""
    rows = 0
    for batch in result.batches:
        columns = [_column(column, json_value) for column in batch.columns]
        for row in zip(*columns, strict=True):
            out.write(json.dumps(dict(zip(result.names, row, strict=True)), ensure_ascii=False) + "\n")
        rows += batch.num_rows
    return rows


def write_parquet(result: Result, path: Path) -> int:
    """Rows as a Parquet file, which is there whole or not at all; returns how many. Raises OutputError."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    rows = 0
    try:
        with pq.ParquetWriter(part, result.schema, compression="zstd") as writer:
            for batch in result.batches:
                writer.write_batch(batch)
                rows += batch.num_rows
        part.replace(path)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise OutputError(f"the result cannot be written as Parquet: {error}") from None
    finally:
        part.unlink(missing_ok=True)
    return rows


def table_rows(result: Result, at_most: int) -> tuple[list[list[str]], bool]:
    """The first rows as text for a table, and whether there are more."""
    shown: list[list[str]] = []
    for batch in result.batches:
        columns = [_column(column, table_cell) for column in batch.slice(0, at_most - len(shown)).columns]
        shown += (list(row) for row in zip(*columns, strict=True))
        if len(shown) == at_most and (batch.num_rows > at_most or next(_filled(result.batches), None) is not None):
            return shown, True
    return shown, False


def _filled(batches: Iterator[Any]) -> Iterator[Any]:
    return (batch for batch in batches if batch.num_rows)


def _column(column: Any, cell: Callable[[Any], Any]) -> list[Any]:
    return [cell(value) for value in column.to_pylist()]


def csv_cell(value: Any) -> Any:
    return "" if value is None else text_of(value)


def table_cell(value: Any) -> str:
    """A value as a cell of a table, on one line and not too long."""
    text = "null" if value is None else "".join(c if c.isprintable() else " " for c in text_of(value))
    return text if len(text) <= SQL_CELL_CHARACTERS_MAX else text[: SQL_CELL_CHARACTERS_MAX - 1] + "…"


def text_of(value: Any) -> str:
    """A value as text; nested ones as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "\\x" + value.hex()
    if isinstance(value, list | dict):
        return json.dumps(json_value(value), ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    return str(json_value(value))


def json_value(value: Any) -> Any:
    """A value as JSON has them: times in ISO 8601, decimals that are whole as numbers, others as text."""
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z") if value.tzinfo else value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else str(value)
    if isinstance(value, list):
        return [json_value(each) for each in value]
    if isinstance(value, dict):
        return {str(name): json_value(each) for name, each in value.items()}
    if isinstance(value, tuple):  # an entry of a map
        return [json_value(each) for each in value]
    return value.isoformat() if isinstance(value, date | time) else str(value)
