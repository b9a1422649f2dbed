"""Flat Avro values as columns by compiled loops, eighty times as fast as one value after the other (six fields).

Flat is a schema whose fields are booleans, numbers, strings, bytes, fixed and enums, dates and timestamps, each also in
a union with null. `flat` makes a table of fields of it that `avro_kernels` walks; the reader's schema is resolved
beforehand: which column a field goes to, promotions, symbols of enums, defaults as constants. It answers None to
anything else (nested fields, decimals, a resolution whose outcome hangs on the value): such values are decoded one by
one. The outcome is the same either way; the tests hold the two against each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from penstock.spark.load.formats.format import Rejected


class Schema(Protocol):
    """The part of a parsed schema (`penstock.spark.load.formats.avro`) that is needed here."""

    parsed: Any
    fields: dict[str, Any]
    is_record: bool


Numbers = np.ndarray[Any, np.dtype[Any]]
Shape = Sequence[tuple[str, str, Callable[[Any], Any] | None]]
"""Fields that are wanted, with their columns and what makes a value for it of a decoded one."""
INT32, INT64 = (-(2**31), 2**31 - 1), (-(2**63), 2**63 - 1)
DAYS = (-719_162, 2_932_896)
"""Of the years 1 and 9999, the first and the last that a decoded date can have."""
MICROS = (DAYS[0] * 86_400_000_000, (DAYS[1] + 1) * 86_400_000_000 - 1)
MILLIS = (MICROS[0] // 1000, MICROS[1] // 1000)
MICROSECONDS = pa.timestamp("us", tz="UTC")
WHOLE, FRACTIONS, TEXTS = ("int", "long"), ("float", "double"), ("string", "bytes")
LOGICAL = {
    ("int", "date"): (pa.date32(), DAYS),
    ("long", "timestamp-millis"): (MICROSECONDS, MILLIS),
    ("long", "timestamp-micros"): (MICROSECONDS, MICROS),
}
KNOWN_LOGICAL = (
    "date", "timestamp-millis", "timestamp-micros", "decimal", "uuid", "time-millis", "time-micros",
    "local-timestamp-millis", "local-timestamp-micros",
)  # fmt: skip
"""Names that a column is chosen by, whatever type they stand on."""
LEAST_BYTES = {"boolean": 1, "float": 4, "double": 8}


class NotFlat(Exception):
    """A schema that is not flat, or whose resolution is not known beforehand."""


@dataclass(frozen=True, slots=True)
class Type:
    """A field's type without the union around it. `null_at` is the branch that is null, -1 if there is no union."""

    base: str
    logical: str | None = None
    null_at: int = -1
    name: str = ""
    size: int = 0
    symbols: tuple[str, ...] = ()
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table: where its numbers are, or the constant that it is of."""

    type: pa.DataType
    source: Type | None = None
    number_at: int = -1
    place_at: int = -1
    symbols: pa.Array | None = None
    constant: pa.Array | None = None


@dataclass(frozen=True, slots=True)
class Flat:
    """The values of one writer's schema as columns of a table."""

    fields: Numbers
    least_bytes: int
    number_rows: int
    place_rows: int
    columns: Mapping[str, Column]

    def read(self, data: Numbers, starts: Numbers, ends: Numbers, schema: pa.Schema) -> tuple[Numbers, pa.RecordBatch]:
        """Which of the values from `starts` to `ends` (int64) in `data` were read, and their columns."""
        from penstock.spark.load.formats import avro_kernels  # imports numba: in workers only

        # What is shorter than any value could be gets no room: the room is in proportion to the bytes.
        candidates = np.flatnonzero(ends - starts >= self.least_bytes)
        starts, ends = starts[candidates], ends[candidates]
        numbers = np.zeros((self.number_rows, len(starts)), np.int64)
        lengths = np.zeros((self.place_rows, len(starts)), np.int32)
        valid = np.zeros((self.number_rows, len(starts)), np.uint8)
        is_good = np.zeros(len(starts), np.uint8)
        data = data.view()
        data.flags.writeable = False  # of one type for the compiler, whatever it came from
        avro_kernels.read(data, starts, ends, self.fields, numbers, lengths, valid, is_good)
        if not is_good.all():
            good = np.flatnonzero(is_good)
            candidates, numbers, lengths, valid = candidates[good], numbers[:, good], lengths[:, good], valid[:, good]
        found = _Found(data, numbers, lengths, valid)
        arrays = [found.array(self.columns.get(each.name) or Column(each.type)) for each in schema]
        return candidates, pa.RecordBatch.from_arrays(arrays, schema=schema)


@dataclass(frozen=True, slots=True)
class _Found:
    """What was read of the good values: see `avro_kernels.read`."""

    data: Numbers
    numbers: Numbers
    lengths: Numbers
    valid: Numbers

    def array(self, column: Column) -> pa.Array:
        count = self.numbers.shape[1]
        if column.source is None:
            if column.constant is None:
                return pa.nulls(count, column.type)
            return column.constant.take(pa.array(np.zeros(count, np.int64)))
        found, is_valid = self.numbers[column.number_at], self.valid[column.number_at]
        nulls = None if is_valid.all() else pa.py_buffer(np.packbits(is_valid, bitorder="little"))
        if column.symbols is not None:
            return column.symbols.take(pa.array(found, mask=None if nulls is None else is_valid == 0))
        if column.place_at < 0:
            return pa.Array.from_buffers(column.type, count, [nulls, pa.py_buffer(_content(column, found))])
        from penstock.spark.load.formats import avro_kernels

        bounds = np.zeros(count + 1, np.int32)
        np.cumsum(self.lengths[column.place_at], out=bounds[1:])
        out = np.empty(int(bounds[-1]), np.uint8)
        avro_kernels.gather(self.data, np.ascontiguousarray(found), bounds, out)
        return pa.Array.from_buffers(column.type, count, [nulls, pa.py_buffer(bounds), pa.py_buffer(out)])


def _content(column: Column, found: Numbers) -> Numbers:
    """Numbers as the column holds them."""
    assert column.source is not None
    base, kind = column.source.base, column.type
    if kind == pa.bool_():
        return np.packbits(found.astype(np.uint8), bitorder="little")
    if base == "double":
        return np.ascontiguousarray(found).view(np.float64)
    if base == "float":
        floats = found.astype(np.uint32).view(np.float32)
        return floats.astype(np.float64) if kind == pa.float64() else floats
    if kind in (pa.float32(), pa.float64()):
        doubles = found.astype(np.float64)
        return doubles.astype(np.float32) if kind == pa.float32() else doubles
    if column.source.logical == "timestamp-millis":
        return found * 1000
    return found.astype(np.int32) if kind in (pa.int32(), pa.date32()) else np.ascontiguousarray(found)


def flat(writer: Schema, reader: Schema, shape: Shape, extra: Shape, columns: pa.Schema) -> Flat | None:
    """How the values of a writer's schema are read into columns, or None.

    Args:
        writer: their schema.
        reader: what they are resolved to; the same object where they are not.
        shape: the reader's fields that are wanted.
        extra: those that only the writer has, likewise.
        columns: of the table.
    """
    try:
        return _Making(writer, reader, shape, extra, columns).made()
    except NotFlat:
        return None


class _Making:
    """Makes one `Flat`."""

    def __init__(self, writer: Schema, reader: Schema, shape: Shape, extra: Shape, columns: pa.Schema) -> None:
        self._writer = writer
        self._reader = reader
        self._shape = {name: (column, convert) for name, column, convert in shape}
        self._extra = {name: column for name, column, _ in extra}
        self._table = columns
        self._fields: list[list[int]] = []
        self._least_bytes = self._number_rows = self._place_rows = 0
        self._columns: dict[str, Column] = {}

    def made(self) -> Flat:
        if self._writer.is_record != self._reader.is_record:
            raise NotFlat
        if self._reader is self._writer:
            for name, kind in self._writer.fields.items():
                self._add(self._type(kind), None, self._wanted(name))
        elif self._writer.is_record:
            self._resolve()
        else:
            ((name, given),) = self._writer.fields.items()
            self._add(self._type(given), self._type(self._reader.fields[name]), self._wanted(name))
        if not self._fields:
            raise NotFlat
        fields = np.array(self._fields, np.int64)
        return Flat(fields, self._least_bytes, self._number_rows, self._place_rows, self._columns)

    def _wanted(self, name: str) -> str | None:
        return self._shape[name][0] if name in self._shape else None

    def _resolve(self) -> None:
        """Fields by names, then aliases, in the way and in the order in which a decoder does it."""
        if not _names_match(self._writer.parsed, self._reader.parsed):
            raise NotFlat
        left = {each["name"]: each for each in self._reader.parsed["fields"]}
        aliases = {alias: each for each in left.values() for alias in each.get("aliases", ())}
        for each in self._writer.parsed["fields"]:
            name = each["name"]
            met = left.get(name, aliases.get(name))
            given = self._type(each["type"])
            if met is None:
                self._add(given, None, self._extra.get(name))
            elif met["name"] not in left:
                raise NotFlat
            else:
                del left[met["name"]]
                self._add(given, self._type(met["type"]), self._wanted(met["name"]))
        for name, each in left.items():
            if "default" not in each:
                raise NotFlat
            if name in self._shape:
                self._set(self._shape[name][0], self._constant(name, each["default"]))

    def _constant(self, name: str, default: Any) -> Column:
        column, convert = self._shape[name]
        kind = self._column_type(column)
        try:
            made = default if default is None or convert is None else convert(default)
            return Column(kind, constant=pa.array([made], kind))
        except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError, Rejected):
            raise NotFlat from None

    def _column_type(self, column: str) -> pa.DataType:
        if column not in self._table.names:
            raise NotFlat
        return self._table.field(column).type

    def _set(self, name: str, column: Column) -> None:
        if name in self._columns:
            raise NotFlat
        self._columns[name] = column

    def _type(self, schema: Any) -> Type:
        if isinstance(schema, list):
            if len(schema) != 2 or schema.count("null") != 1:
                raise NotFlat
            at = schema.index("null")
            inner = _simple(schema[1 - at])
            return Type(inner.base, inner.logical, at, inner.name, inner.size, inner.symbols, inner.default)
        return _simple(schema)

    def _add(self, given: Type, wanted: Type | None, name: str | None) -> None:
        """One field of the writer, which is `wanted` (None: as it is) in the column `name` (None: in none)."""
        from penstock.spark.load.formats import avro_kernels as kernels

        null_fits = wanted is None or wanted.null_at >= 0
        symbols = _resolved(given, wanted)
        least, most = LOGICAL[given.base, given.logical][1] if given.logical else INT64
        if given.base == "enum":
            least, most = 0, len(given.symbols) - 1
        number_at = place_at = kernels.NOWHERE
        if name is not None:
            kind = self._column_type(name)
            if not _fits(given, wanted or given, kind):
                raise NotFlat
            if kind == pa.int32():
                least, most = INT32
            number_at, self._number_rows = self._number_rows, self._number_rows + 1
            if given.base in (*TEXTS, "fixed"):
                place_at, self._place_rows = self._place_rows, self._place_rows + 1
            self._set(name, Column(kind, given, number_at, place_at, symbols))
        kinds = {"boolean": kernels.BOOLEAN, "float": kernels.FLOAT, "double": kernels.DOUBLE, "fixed": kernels.FIXED}
        kind_of = kernels.BYTES if given.base in TEXTS else kinds.get(given.base, kernels.NUMBER)
        is_text = "string" in (given.base, wanted.base if wanted is not None else given.base)
        self._fields.append(
            [kind_of, given.null_at, null_fits, least, most, given.size, is_text, number_at, place_at]
        )  # fmt: skip
        self._least_bytes += 1 if given.null_at >= 0 else LEAST_BYTES.get(given.base, given.size or 1)


def _simple(schema: Any) -> Type:
    """A type that is no union. Raises NotFlat."""
    from fastavro.read import LOGICAL_READERS

    if schema in ("boolean", *WHOLE, *FRACTIONS, *TEXTS):
        return Type(schema)
    if not isinstance(schema, dict):
        raise NotFlat
    base, logical = schema["type"], schema.get("logicalType")
    if base == "enum" and logical is None:
        symbols = tuple(schema["symbols"])
        return Type(base, name=schema["name"], symbols=symbols, default=schema.get("default"))
    if base == "fixed" and logical is None and schema["size"] > 0:
        return Type(base, name=schema["name"], size=schema["size"])
    if base not in ("boolean", *WHOLE, *FRACTIONS, *TEXTS):
        raise NotFlat
    if (base, logical) in LOGICAL:
        return Type(base, logical)
    if logical is not None and (f"{base}-{logical}" in LOGICAL_READERS or logical in KNOWN_LOGICAL):
        raise NotFlat
    return Type(base)


def _resolved(given: Type, wanted: Type | None) -> pa.Array | None:
    """The symbols of an enum as its reader has them. Raises NotFlat for types that do not match."""
    symbols = given.symbols
    if wanted is not None:
        if given.logical != wanted.logical or not _promotes(given.base, wanted.base):
            raise NotFlat
        if given.name.rsplit(".", 1)[-1] != wanted.name.rsplit(".", 1)[-1] or given.size != wanted.size:
            raise NotFlat
        symbols = tuple(each if each in wanted.symbols else wanted.default or "" for each in symbols)
        if not all(each in wanted.symbols for each in symbols):
            raise NotFlat
    return pa.array(symbols, pa.string()) if symbols else None


def _promotes(given: str, wanted: str) -> bool:
    """Avro 1.12's promotions."""
    numbers = ("int", "long", "float", "double")
    if given in numbers and wanted in numbers:
        return numbers.index(given) <= numbers.index(wanted)
    return given == wanted or (given in TEXTS and wanted in TEXTS)


def _fits(given: Type, wanted: Type, kind: pa.DataType) -> bool:
    """Whether a column takes all that a decoder makes of such a field, numbers out of its range aside."""
    if given.logical is not None:
        return bool(LOGICAL[given.base, given.logical][0] == kind)
    if given.base in WHOLE:
        return kind in ((pa.int32(), pa.int64()) if wanted.base in WHOLE else (pa.float32(), pa.float64()))
    if given.base == "float":
        return kind in (pa.float32(), pa.float64())
    natural = {"boolean": pa.bool_(), "double": pa.float64(), "fixed": pa.binary(), "enum": pa.string()}
    texts = {"string": pa.string(), "bytes": pa.binary()}
    return bool(kind == natural.get(given.base, texts.get(wanted.base)))


def _names_match(writer: Any, reader: Any) -> bool:
    """Whether two records are the same by their names without namespaces."""
    return str(writer["name"]).rsplit(".", 1)[-1] == str(reader["name"]).rsplit(".", 1)[-1]
