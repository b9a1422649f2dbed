"""JSON objects as columns, vectorised.

The fast way: a block of values is joined to lines and parsed at once by Arrow with the table's columns as the schema;
no Python object is made a record. It is taken only where it can be trusted to keep records apart and to end: each value
begins with `{` and ends with `}` and is valid UTF-8 (so no value can run into its neighbour without an error), brackets
are few (Arrow's parser descends without a limit), and there are as many rows as values.

What it refuses goes the thorough way, one record at a time in Python: names are mapped to columns, types are checked
field by field, nested values of text columns are written as JSON text, and the block is parsed by Arrow again. A block
that still fails is halved until the records are found that do not fit.

Rules. A missing field and null are null. Whole numbers fit double columns; no other type becomes another: 1.0 is no
bigint and "1" is no number. A string column takes strings as they are and objects and arrays as JSON text. A field
given twice, a number that its column cannot hold, NaN and Infinity, and a nested field that the declared struct does
not have reject the record. New fields become columns: boolean, bigint, double or string, objects and arrays as JSON
text in a string column; a field with whole numbers and others is double, any other mixture string (and what is no
string there is rejected). With `ignore_fields` a field without a column, at any depth, is passed over, and a column's
name is the field's, exactly: so `from_json` of Spark does.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from penstock.spark.limits import JSON_NESTING_MAX
from penstock.spark.load.formats.format import (
    OWN_COLUMNS,
    VALUE_PREFIX,
    Parsed,
    Rejected,
    column_of,
    shortened,
    type_name,
    wider,
    with_tombstones,
)

NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
PIECES, PIECE_ROWS = 16, 64
"""Into how many pieces a block is cut that could not be parsed at once, and how small they get."""
INTEGERS = {pa.int8(): 7, pa.int16(): 15, pa.int32(): 31, pa.int64(): 63}


class JsonFormat:
    """Parses values of one table.

    Args:
        columns: the table's value columns.
        own: names that value columns must not have.
        add_fields: whether new fields are reported as unknown columns; else their records are rejected.
        ignore_fields: whether fields without a column are passed over; wins over `add_fields`.
    """

    def __init__(
        self,
        columns: pa.Schema,
        own: Sequence[str] = OWN_COLUMNS,
        *,
        add_fields: bool = True,
        ignore_fields: bool = False,
    ) -> None:
        self._columns = columns
        self._own = own
        self._add_fields = add_fields
        self._ignore_fields = ignore_fields
        self._by_lower = {name.lower(): name for name in columns.names}
        self._fields = [self._field_of(name) for name in columns.names]
        self._exactly = EXACT if any(_has_decimal(each.type) for each in columns) else {}
        self._readable = [pa.string() if pa.types.is_date(each.type) else each.type for each in columns]

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        present = values.drop_null() if values.null_count else values
        rows = self._parse_fast(present)
        return with_tombstones(values, self._parse_pieces(present) if rows is None else Parsed(rows))

    def _parse_pieces(self, values: pa.Array) -> Parsed:
        """A block that failed, in pieces: one record that does not fit must not slow the whole block down."""
        size = max(PIECE_ROWS, -(-len(values) // PIECES))
        pieces = []
        for start in range(0, len(values), size):
            piece = values.slice(start, size)
            rows = self._parse_fast(piece) if len(values) > size else None
            pieces.append((start, len(piece), self._parse_thoroughly(piece) if rows is None else Parsed(rows)))
        return _joined(pieces)

    def _field_of(self, column: str) -> str:
        """The field of a column: `key` of `value_key`."""
        if self._ignore_fields:
            return column
        name = column.removeprefix(VALUE_PREFIX)
        return name if name != column and column_of(name, self._own) == column else column

    def _parse_fast(self, values: pa.Array) -> pa.RecordBatch | None:
        """All values at once, or None if that cannot be done or trusted."""
        if not len(values):
            return self._batch([])
        try:
            text = values.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        if not _apart(text):
            return None
        lines = pc.binary_join(pa.ListArray.from_arrays([0, len(text)], text), "\n")[0].as_buffer()
        return self._read(lines, self._fields, len(text))

    def _read(self, lines: Any, fields: Sequence[str], rows: int) -> pa.RecordBatch | None:
        """Lines of JSON as the table's columns; None where they do not fit exactly."""
        schema = pa.schema(list(zip(fields, self._readable, strict=True)))
        size = max(len(lines) + 1, 1024)
        unexpected = "ignore" if self._ignore_fields else "infer"
        try:
            table = pj.read_json(
                pa.BufferReader(lines),
                pj.ReadOptions(use_threads=False, block_size=size),
                pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior=unexpected),
            ).combine_chunks()
        except pa.ArrowInvalid:
            return None
        if table.num_rows != rows:
            return None
        known = set(fields)
        if any(field.name not in known and field.type != pa.null() for field in table.schema):
            return None
        columns = [table.column(name) for name in fields]
        if any(column.type != kind for column, kind in zip(columns, self._readable, strict=True)):
            return None  # a struct has more fields than were declared
        if any(_not_finite(column) or _too_long(column) for column in columns):
            return None
        try:
            return self._batch(
                [_only_chunk(column).cast(f.type) for column, f in zip(columns, self._columns, strict=True)], rows
            )
        except pa.ArrowInvalid:
            return None  # a text that is no date

    def _batch(self, arrays: list[Any], rows: int = 0) -> pa.RecordBatch:
        if not len(self._columns):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * rows, pa.struct([])))
        if not arrays:
            return pa.RecordBatch.from_pylist([], schema=self._columns)
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _parse_thoroughly(self, values: pa.Array) -> Parsed:
        unknown: dict[str, pa.DataType] = {}
        rejected: dict[int, str] = {}
        lines: list[tuple[int, bytes]] = []
        for at, value in enumerate(values.to_pylist()):
            try:
                lines.append((at, self._line(value, unknown)))
            except Rejected as error:
                rejected[at] = shortened(error)
        batches = self._parse(lines, rejected) if not unknown else []
        whole = [pa.Table.from_batches(batches).combine_chunks()] if batches and len(self._columns) else []
        if whole and whole[0].num_rows:
            columns = whole[0].to_batches()[0]
        else:
            columns = self._batch([], len(values) - len(rejected))
        kept = pa.array([i for i in range(len(values)) if i not in rejected], pa.int64()) if rejected else None
        return Parsed(columns, kept, rejected, unknown)

    def _line(self, value: bytes, unknown: dict[str, pa.DataType]) -> bytes:
        """A record as one line with the table's column names; notes columns that the table lacks."""
        if self._ignore_fields:
            return _written(self._chosen(value))
        row: dict[str, Any] = {}
        for name, given in _object(value, STRICT | self._exactly).items():
            if given is None:
                continue
            column = column_of(name, self._own)
            known = self._by_lower.get(column.lower())
            if known is not None and known != column:
                raise Rejected(f"{name}: differs only in capitals from the column {known}")
            if column in row:
                raise Rejected(f"{name}: the column {column} is given twice")
            if known is not None:
                row[column] = _fitting(name, given, self._columns.field(column).type)
            elif self._add_fields:
                self._note(column, given, unknown)
            else:
                raise Rejected(f"{name}: the table has no such column")
        return _written(row)

    def _chosen(self, value: bytes) -> dict[str, Any]:
        """The fields that have a column. As the fast way has it, others may hold anything that parses."""
        found = _object(value, LENIENT | self._exactly)
        try:
            row = _projected(found, pa.struct(list(self._columns)))
        except RecursionError:
            raise Rejected("nested too deeply") from None
        kinds = dict(zip(self._columns.names, self._columns.types, strict=True))
        return {name: _fitting(name, given, kinds[name]) for name, given in row.items() if given is not None}

    def _note(self, column: str, given: Any, unknown: dict[str, pa.DataType]) -> None:
        twin = next((name for name in unknown if name.lower() == column.lower() and name != column), None)
        if (
            twin is not None
        ):  # the first in the alphabet gets the column, and the records of the other are rejected then
            if twin < column:
                return
            del unknown[twin]
        unknown[column] = wider(unknown.get(column), _type_of(given))

    def _parse(self, lines: Sequence[tuple[int, bytes]], rejected: dict[int, str]) -> list[pa.RecordBatch]:
        """Parses lines, halving what fails until the single records are found that do not fit."""
        if not lines:
            return []
        nested = max(line.count(b"[") + line.count(b"{") for _, line in lines)
        rows = None
        if nested <= JSON_NESTING_MAX:
            rows = self._read(pa.py_buffer(b"\n".join(line for _, line in lines)), self._columns.names, len(lines))
        if rows is not None:
            return [rows]
        if len(lines) == 1:
            rejected[lines[0][0]] = shortened(self._why(lines[0][1]))
            return []
        half = len(lines) // 2
        return self._parse(lines[:half], rejected) + self._parse(lines[half:], rejected)

    def _why(self, line: bytes) -> str:
        """Which column a record does not fit, found by trying them one at a time."""
        for name, value in json.loads(line).items():
            kind = self._columns.field(name).type
            one = JsonFormat(pa.schema([(name, kind)]), (), ignore_fields=self._ignore_fields)
            if one._read(pa.py_buffer(json.dumps({name: value}).encode()), [name], 1) is None:
                is_number = pa.types.is_decimal(kind) and isinstance(value, str) and NUMBER.fullmatch(value)
                shown = value if is_number else json.dumps(value, ensure_ascii=False)
                return f"{name}: {shown} does not fit {type_name(kind)}"
        return "too many nested values"


def _joined(pieces: Sequence[tuple[int, int, Parsed]]) -> Parsed:
    """The pieces (start, length, parsed) of a block as one."""
    rejected: dict[int, str] = {}
    unknown: dict[str, pa.DataType] = {}
    for start, _, parsed in pieces:
        rejected |= {start + at: reason for at, reason in parsed.rejected.items()}
        for name, kind in parsed.unknown.items():
            unknown[name] = wider(unknown.get(name), kind)
    columns = pa.concat_batches([parsed.columns for _, _, parsed in pieces])
    total = sum(length for _, length, _ in pieces)
    kept = pa.array([i for i in range(total) if i not in rejected], pa.int64()) if rejected else None
    return Parsed(columns, kept, rejected, unknown)


def _apart(text: pa.Array) -> bool:
    """Whether joined lines can be told apart again, whatever the values hold, and their nesting has a bound."""
    if not (pc.all(pc.starts_with(text, "{")).as_py() and pc.all(pc.ends_with(text, "}")).as_py()):
        return False
    brackets = pc.add(pc.count_substring(text, "["), pc.count_substring(text, "{"))
    return bool(pc.max(brackets).as_py() <= JSON_NESTING_MAX)


def _not_finite(column: Any) -> bool:
    """Whether a column has NaN or an infinity, which JSON has not."""
    kind = column.type
    if pa.types.is_list(kind):
        return any(_not_finite(chunk.flatten()) for chunk in _chunks(column))
    if pa.types.is_struct(kind):
        return any(_not_finite(part) for chunk in _chunks(column) for part in chunk.flatten())
    if not pa.types.is_floating(kind):
        return False
    return bool(pc.any(pc.invert(pc.is_finite(column))).as_py())


def _too_long(column: Any) -> bool:
    """Whether a decimal has more digits than its type: Arrow lets some through that have an exponent."""
    if not _has_decimal(column.type):
        return False
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return True
    return False


def _has_decimal(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _has_decimal(kind.value_type)
    return any(_has_decimal(each.type) for each in kind) if pa.types.is_struct(kind) else pa.types.is_decimal(kind)


def _chunks(column: Any) -> list[Any]:
    return list(column.chunks) if isinstance(column, pa.ChunkedArray) else [column]


def _only_chunk(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


class _Exact(float):
    """A number that remembers how it was written: a decimal has more digits than a float."""

    text: str


def _exactly(text: str) -> _Exact:
    found = _Exact(text)
    found.text = text
    return found


def _as_decimals(given: Any, kind: pa.DataType) -> Any:
    """A value whose numbers are text where decimals are wanted, which Arrow reads just so."""
    if isinstance(given, _Exact) and pa.types.is_decimal(kind):
        return given.text
    if isinstance(given, list) and pa.types.is_list(kind):
        return [_as_decimals(each, kind.value_type) for each in given]
    if isinstance(given, dict) and pa.types.is_struct(kind):
        kinds = {each.name: each.type for each in kind}
        return {name: _as_decimals(each, kinds.get(name, pa.null())) for name, each in given.items()}
    return given


class _Fields(dict[str, Any]):
    """An object of which one may ask which field was given twice."""

    twice: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Unreadable:
    """What stands for a number that is none or too long, and why."""

    why: str


def _fields(pairs: list[tuple[str, Any]]) -> _Fields:
    found = _Fields(pairs)
    if len(found) < len(pairs):
        found.twice = frozenset(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
    return found


def _whole_number(text: str) -> int | _Unreadable:
    try:
        return int(text)
    except ValueError as error:
        return _Unreadable(f"no valid JSON: {error}")


def _projected(given: Any, kind: pa.DataType | None) -> Any:
    """A lenient value without the fields that its type lacks. Raises Rejected for what is wrong in the others."""
    if isinstance(given, _Unreadable):
        raise Rejected(given.why)
    if isinstance(given, list):
        inner = kind.value_type if kind is not None and pa.types.is_list(kind) else None
        return [_projected(each, inner) for each in given]
    if not isinstance(given, _Fields):
        return given
    if kind is not None and pa.types.is_struct(kind):
        kinds: dict[str, pa.DataType | None] = {each.name: each.type for each in kind}
    else:
        kinds = dict.fromkeys(given)
    for name in kinds:
        if name in given.twice:
            raise Rejected(f"{name}: the field is given twice")
    return {name: _projected(given[name], inner) for name, inner in kinds.items() if name in given}


def _written(row: dict[str, Any]) -> bytes:
    try:
        return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()
    except (UnicodeEncodeError, RecursionError) as error:
        raise Rejected(f"a text that is no valid Unicode, or nested too deeply: {error}") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Rejected(f"{twice}: the field is given twice")
    return found


def _no_constant(name: str) -> None:
    raise Rejected(f"no valid JSON: {name}")


STRICT: dict[str, Any] = {"object_pairs_hook": _unique, "parse_constant": _no_constant}
EXACT: dict[str, Any] = {"parse_float": _exactly}
LENIENT: dict[str, Any] = {
    "object_pairs_hook": _fields,
    "parse_constant": lambda name: _Unreadable(f"no valid JSON: {name}"),
    "parse_int": _whole_number,
}


def _object(value: bytes, hooks: Mapping[str, Any]) -> Any:
    """A value as an object; one of LENIENT may still hold what cannot be read. Raises Rejected."""
    try:
        found = json.loads(value.decode(), **hooks)
    except UnicodeDecodeError as error:
        raise Rejected(f"no valid UTF-8: {error.reason} at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise Rejected("an empty value is no JSON" if not value.strip() else f"no valid JSON: {error}") from None
    except RecursionError:
        raise Rejected("nested too deeply") from None
    except ValueError as error:  # a whole number of thousands of digits
        raise Rejected(f"no valid JSON: {error}") from None
    if not isinstance(found, dict):
        raise Rejected(f"a JSON {_kind(found)}, not an object")
    return found


def _fitting(name: str, given: Any, kind: pa.DataType) -> Any:
    """What goes into a column, checked where that is quick; Arrow checks the rest. Raises Rejected."""
    if pa.types.is_string(kind):
        if isinstance(given, str):
            return given
        fits = isinstance(given, dict | list)
        given = _text(given) if fits else given
    elif pa.types.is_integer(kind):
        fits = type(given) is int and -(1 << INTEGERS[kind]) <= given < 1 << INTEGERS[kind]
    elif pa.types.is_floating(kind):
        fits = type(given) in (int, float, _Exact) and _finite(given)
    elif pa.types.is_boolean(kind):
        fits = isinstance(given, bool)
    elif pa.types.is_list(kind):
        fits = isinstance(given, list)
    elif pa.types.is_struct(kind):
        fits = isinstance(given, dict)
    elif pa.types.is_decimal(kind):
        fits = type(given) in (int, float, _Exact, str)
    else:
        fits = isinstance(given, str)
    if not fits:
        raise Rejected(f"{name}: {shortened(_text(given))} is a {_kind(given)}, the column is {type_name(kind)}")
    return _as_decimals(given, kind) if _has_decimal(kind) else given


def _finite(number: float) -> bool:
    try:
        return math.isfinite(float(number))
    except OverflowError:
        return False


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:
        raise Rejected("nested too deeply") from None


def _kind(value: Any) -> str:
    if isinstance(value, _Unreadable | _Exact):
        return "number"
    if isinstance(value, bool):
        return "boolean"
    names = {int: "whole number", float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return names[type(value)]


def _type_of(value: Any) -> pa.DataType:
    """The type of a new column for a value."""
    if isinstance(value, bool):
        return pa.bool_()
    if isinstance(value, int):
        return pa.int64() if -(1 << 63) <= value < 1 << 63 else pa.float64()
    return pa.float64() if isinstance(value, float) else pa.string()
