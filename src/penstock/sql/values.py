"""JSON values as columns: the table `json."topic"` beside the table `"topic"`.

The columns are learnt from a sample, the first and the last records of each partition. A field that the sample has is
a column, of the type that all its values there fit; nested objects and lists keep their shape. Then nothing fails any
more and no row is left out: a field that is missing or does not fit its column is null, and so are all of them where
the value is no JSON object; the column `value` still has the bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from penstock.errors import ErrorCode, RequestError
from penstock.sql.limits import SQL_JSON_COLUMNS_MAX

TEXT = "try(decode(value))"
LEARN = f"select json_group_structure(try_cast({TEXT} as json)), count(value) from sample"
NUMBERS = {"UBIGINT": "BIGINT", "NULL": "JSON"}
"""What a sample says too narrowly: a number that was never negative there, a field that was always null."""


def learnt(topic: str, structure: str | None, values: int) -> dict[str, Any]:
    """The shape of the values by what json_group_structure says of a sample. Raises RequestError."""
    shape = None if structure is None else widened(json.loads(structure))
    if not isinstance(shape, dict):
        what = f"of its {values:,} sampled values not all are" if values else "there is none among its records:"
        where = f"json.{quoted(topic)} has columns where values are JSON objects"
        raise RequestError(ErrorCode.INVALID_RECORD, f"{where}; {what} a JSON object")
    if len(shape) > SQL_JSON_COLUMNS_MAX:
        has = f"values of topic {topic} have {len(shape):,} fields"
        raise RequestError(ErrorCode.INVALID_RECORD, f"{has}; a table may have {SQL_JSON_COLUMNS_MAX:,}")
    return shape


def widened(shape: Any) -> Any:
    """The types of a structure as columns need them."""
    if isinstance(shape, dict):
        return {name: widened(each) for name, each in shape.items()} or "JSON"
    if isinstance(shape, list):
        return [widened(each) for each in shape]
    return NUMBERS.get(shape, shape)


def view(topic: str, shape: dict[str, Any], record_columns: Iterable[str]) -> str:
    """The statement that makes `json."topic"`: the record's own columns, then those of its value."""
    taken = {name.lower() for name in record_columns}
    chosen = []
    for field in shape:
        name = field
        while name.lower() in taken:
            name = f"value_{name}"
        taken.add(name.lower())
        chosen.append(f"shaped.{quoted(field)} as {quoted(name)}")
    own = ", ".join(f"{quoted(name)}" for name in record_columns)
    transform = f"json_transform(try_cast({TEXT} as json), {literal(json.dumps(shape))})"
    inner = f"select *, {transform} as shaped from main.{quoted(topic)}"
    return f"create or replace view json.{quoted(topic)} as select {own}, {', '.join(chosen)} from ({inner})"


def quoted(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
