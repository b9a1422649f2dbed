"""Avro values with a schema registry: a zero byte, the schema's id in four bytes, then the value (Confluent's framing).

Only the driver talks to the registry; a job's plan holds the schemas that its tasks need, so that a registry that is
away stops the load and is never taken for a record that cannot be read. A task that meets an id which the plan does not
hold reports it, and the job is run again with it. An id that the registry does not know rejects its records.

A topic's columns are the fields of the latest schema of its subject `<topic>-value` (of the writer's schema where there
is no such subject), to which values are resolved as Avro says: defaults, promotions, aliases. A field that an older
writer has and the latest schema no longer does is kept too, as a column of its own. A schema that is no record is one
column `value`.

Types: int, long, float, double, boolean, string, bytes, fixed and enum (as string) as they are; decimal, date and
timestamp-millis and -micros as Spark's; uuid, times of day and local timestamps as text; arrays, records and maps as
nested columns; unions of several types and recursive records as JSON text. All columns are nullable.

Values of flat schemas are read by compiled loops (`avro_flat`), all of one schema id together. What these do not take
is decoded one value after the other, and only there is it decided what is a bad value, and why.
"""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import PenstockError
from penstock.spark.limits import AVRO_COMPILED_ROWS, AVRO_NESTING_FRAMES
from penstock.spark.load.formats.avro_flat import Flat, Numbers, Shape, flat
from penstock.spark.load.formats.format import (
    OWN_COLUMNS,
    Parsed,
    Rejected,
    column_of,
    shortened,
    type_name,
    with_tombstones,
)
from penstock.spark.load.formats.framing import HEADER_BYTES, NO_ID, buffers_of, id_of, ids_of

WHOLE_VALUE = "value"
PRIMITIVE: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "bytes": pa.binary(),
    "fixed": pa.binary(),
    "enum": pa.string(),
    "null": pa.string(),
}
LOGICAL: dict[str, pa.DataType] = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", tz="UTC"),
    "timestamp-micros": pa.timestamp("us", tz="UTC"),
}
AS_TEXT = ("uuid", "time-millis", "time-micros", "local-timestamp-millis", "local-timestamp-micros")
Bundle = Sequence[Any]
"""A schema as parsed JSON, after those that it refers to."""
Convert = Callable[[Any], Any]
OBJECT = re.compile(r" from <[^>]* object at 0x[^>]*>")
"""What fastavro says of where it read, which tells nobody anything and is another each time."""
MISFIT = (pa.ArrowException, ValueError, TypeError, OverflowError)
"""What Arrow says of a value that a column cannot hold."""


class Schema:
    """One Avro schema, ready to read with, and its columns."""

    def __init__(self, bundle: Bundle) -> None:
        import fastavro

        self.named: dict[str, Any] = {}
        self._is_recursive: bool | None = None
        parsed: Any = None
        try:
            for each in bundle:
                parsed = fastavro.parse_schema(each, named_schemas=self.named)
        except Exception as error:  # what fastavro makes of a broken schema has many types
            raise PenstockError(f"an Avro schema that cannot be read: {error}") from error
        _decode_defaults(self.named)
        self.parsed = parsed
        self.fields: dict[str, Any] = {WHOLE_VALUE: parsed}
        if isinstance(parsed, dict) and parsed.get("type") == "record":
            self.fields = {field["name"]: field["type"] for field in parsed["fields"]}
            self.is_record = True
        else:
            self.is_record = False
        self.names = {alias for f in self._raw_fields() for alias in (f["name"], *f.get("aliases", ()))}

    def _raw_fields(self) -> list[Any]:
        return list(self.parsed["fields"]) if self.is_record else [{"name": WHOLE_VALUE}]

    def column(self, name: str) -> tuple[pa.DataType, Convert | None]:
        """The type of a field's column, and what makes a value for it of a decoded one (None: nothing to do)."""
        return _column(self.fields[name], self.named, ())

    @property
    def is_recursive(self) -> bool:
        """Whether a value may be nested without a bound."""
        if self._is_recursive is None:
            self._is_recursive = _recurs(self.parsed, self.named, ())
        return self._is_recursive

    def extra(self, reader: Schema) -> list[str]:
        """Fields of this writer's schema that the reader's lacks."""
        return [name for name in self.fields if name not in reader.names] if self.is_record else []


def columns_of(reader: Bundle | None, writers: Iterable[Bundle], own: Sequence[str] = OWN_COLUMNS) -> pa.Schema:
    """The table columns of a topic: the reader's fields, then those that only writers have."""
    schemas = [Schema(each) for each in writers]
    base = Schema(reader) if reader is not None else None
    found: dict[str, pa.DataType] = {}
    for schema in [*([base] if base is not None else []), *schemas]:
        names = list(schema.fields) if base is None or schema is base else schema.extra(base)
        for name in names:
            found.setdefault(column_of(name, own), schema.column(name)[0])
    return pa.schema(list(found.items()))


class AvroFormat:
    """Parses values of one table.

    Args:
        columns: the table's value columns.
        readers: the latest schema of each topic, None where the subject does not exist.
        schemas: the writers' schemas by id; None for one that the registry does not know, text for why it is of no use.
        known: ids that each topic's columns were made with; None: whichever `schemas` has.
        own: names that value columns must not have.
        fixed: a schema that the values of all topics are resolved to; rows are then the columns and no more, and what
            only a writer has is passed over.
        header_bytes: of the framing before a value; 0: every value is of the schema with the id 0.
    """

    def __init__(
        self,
        columns: pa.Schema,
        readers: Mapping[str, Bundle | None],
        schemas: Mapping[int, Bundle | str | None],
        known: Mapping[str, Sequence[int]] | None,
        own: Sequence[str] = OWN_COLUMNS,
        *,
        fixed: Bundle | None = None,
        header_bytes: int = HEADER_BYTES,
    ) -> None:
        self._columns = columns
        self._names = frozenset(columns.names)
        self._fixed = None if fixed is None else Schema(fixed)
        self._header_bytes = header_bytes
        self._own = own
        self._readers = {topic: Schema(bundle) if bundle is not None else None for topic, bundle in readers.items()}
        self._bundles = schemas
        self._known = None if known is None else {topic: set(ids) for topic, ids in known.items()}
        self._decoders: dict[tuple[str, int], Callable[[bytes], dict[str, Any]] | str] = {}
        self._flats: dict[tuple[str, int], Flat | None] = {}

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        present = values.drop_null() if values.null_count else values
        few = len(present) < AVRO_COMPILED_ROWS or not len(self._columns)
        parsed = self._one_by_one(topic, present.to_pylist()) if few else self._by_schemas(topic, present)
        return with_tombstones(values, parsed)

    def _by_schemas(self, topic: str, values: pa.Array) -> Parsed:
        """Values by compiled loops, those of one schema together, and one by one what these do not take."""
        ids = ids_of(values) if self._header_bytes else np.zeros(len(values), np.int64)
        order = np.argsort(ids, kind="stable")
        found, firsts = np.unique(ids[order], return_index=True)
        if self._known is not None:
            unknown = set(found.tolist()) - {NO_ID, *self._known.get(topic, ())}
            if unknown:
                return Parsed(self._batch([]), unknown_schemas=sorted(unknown))
        parts: list[tuple[Numbers, pa.RecordBatch]] = []
        is_left = np.ones(len(values), bool)
        bounds, data = buffers_of(values)
        for schema_id, rows in zip(found.tolist(), np.split(order, firsts[1:]), strict=True):
            how = self._flat(topic, schema_id) if schema_id != NO_ID and len(rows) >= AVRO_COMPILED_ROWS else None
            if how is not None:
                starts, ends = bounds[rows].astype(np.int64), bounds[rows + 1].astype(np.int64)
                good, batch = how.read(data, starts + self._header_bytes, ends, self._columns)
                parts.append((rows[good], batch))
                is_left[rows[good]] = False
        left = np.flatnonzero(is_left)
        rejected: dict[int, str] = {}
        if len(left):
            others = self._one_by_one(topic, values.take(pa.array(left)).to_pylist())
            parts.append((left if others.kept is None else left[others.kept.to_numpy()], others.columns))
            rejected = {int(left[at]): reason for at, reason in others.rejected.items()}
        kept, batch = _merged(parts)
        return Parsed(batch, pa.array(kept, pa.int64()) if rejected else None, rejected)

    def _flat(self, topic: str, schema_id: int) -> Flat | None:
        """How values of a schema are read by compiled loops, if they can be."""
        key = (topic, schema_id)
        if key not in self._flats:
            made = self._resolution(schema_id, topic)
            self._flats[key] = None if isinstance(made, str) else flat(*made, self._columns)
        return self._flats[key]

    def _one_by_one(self, topic: str, values: Sequence[bytes]) -> Parsed:
        rejected: dict[int, str] = {}
        unknown: set[int] = set()
        rows: list[tuple[int, dict[str, Any]]] = []
        for at, value in enumerate(values):
            try:
                schema_id = id_of(value) if self._header_bytes else 0
                if self._known is not None and schema_id not in self._known.get(topic, ()):
                    unknown.add(schema_id)
                else:
                    rows.append((at, self._row(topic, schema_id, value)))
            except Rejected as error:
                rejected[at] = shortened(error)
        if unknown:
            return Parsed(self._batch([]), unknown_schemas=sorted(unknown))
        try:
            batch = self._batch([row for _, row in rows])
        except MISFIT:
            for field in self._columns:
                rejected |= _misfits(field, rows)
            rows = [(at, row) for at, row in rows if at not in rejected]
            batch = self._batch([row for _, row in rows])
        index = pa.array([at for at, _ in rows], pa.int64()) if rejected else None
        return Parsed(batch, index, rejected)

    def _batch(self, rows: Sequence[dict[str, Any]]) -> pa.RecordBatch:
        if not len(self._columns):
            return pa.RecordBatch.from_struct_array(pa.array([{}] * len(rows), pa.struct([])))
        named = [(field.name, field.type) for field in self._columns]
        arrays = [pa.array([row.get(name) for row in rows], kind) for name, kind in named]
        return pa.RecordBatch.from_arrays(arrays, schema=self._columns)

    def _row(self, topic: str, schema_id: int, value: bytes) -> dict[str, Any]:
        key = (topic, schema_id)
        if key not in self._decoders:
            self._decoders[key] = self._decoder(topic, schema_id)
        decode = self._decoders[key]
        if isinstance(decode, str):
            raise Rejected(decode)
        row = decode(value)
        for name, given in row.items():
            if given is not None and name not in self._names:
                raise Rejected(f"{name}: the table has no such column")
        return row

    def _decoder(self, topic: str, schema_id: int) -> Callable[[bytes], dict[str, Any]] | str:
        made = self._resolution(schema_id, topic)
        if isinstance(made, str):
            return made
        writer, reader, shape, extra = made
        resolved, skip = None if reader is writer else reader, self._header_bytes

        def decode(value: bytes) -> dict[str, Any]:
            row = _filled(_read(value, skip, writer, resolved), reader, shape)
            return row | _filled(_read(value, skip, writer, None), writer, extra) if extra else row

        return decode

    def _resolution(self, schema_id: int, topic: str) -> tuple[Schema, Schema, Shape, Shape] | str:
        """A writer's schema, what it is resolved to (the same if it is not), the wanted fields of that, and those that
        only the writer has; text for why its values cannot be read."""
        bundle = self._bundles.get(schema_id)
        if bundle is None or isinstance(bundle, str):
            return bundle or f"the registry knows no schema {schema_id}"
        try:
            writer = Schema(bundle)
        except PenstockError as error:
            return str(error)
        reader = self._fixed or self._readers.get(topic) or writer
        if reader.parsed == writer.parsed:
            reader = writer
        fixed = self._fixed is not None
        shape = self._shape(reader, [name for name in reader.fields if not fixed or name in self._names])
        extra = self._shape(writer, writer.extra(reader)) if reader is not writer and not fixed else []
        return writer, reader, shape, extra

    def _shape(self, schema: Schema, names: Sequence[str]) -> Shape:
        return [(name, column_of(name, self._own), schema.column(name)[1]) for name in names]


def _merged(parts: Sequence[tuple[Numbers, pa.RecordBatch]]) -> tuple[Numbers, pa.RecordBatch]:
    """Rows of several batches as one, in the order of their positions, which are given with each and made one too."""
    if len(parts) == 1:
        return parts[0]
    positions = np.concatenate([rows for rows, _ in parts])
    order = np.argsort(positions)
    table = pa.Table.from_batches([batch for _, batch in parts]).combine_chunks().take(pa.array(order))
    (batch,) = table.combine_chunks().to_batches() or [parts[0][1]]
    return positions[order], batch


def _read(value: bytes, header_bytes: int, writer: Schema, reader: Schema | None) -> Any:
    import fastavro

    stream = io.BytesIO(value)
    stream.seek(header_bytes)
    read = _read_nested if writer.is_recursive else fastavro.schemaless_reader
    try:
        found = read(stream, writer.parsed, reader.parsed if reader is not None else None)
    except Exception as error:  # what a broken value makes of the decoder has many types
        said = OBJECT.sub("", str(error)) or type(error).__name__
        raise Rejected(f"no value of its Avro schema: {said}") from None
    if left := len(value) - stream.tell():
        raise Rejected(f"no value of its Avro schema: {left} bytes are left over")
    return found


def _read_nested(stream: io.BytesIO, writer: Any, reader: Any) -> Any:
    """A value that may be nested without a bound, read in Python: the decoder in C would overflow the stack."""
    from fastavro import _read_py

    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(usual, AVRO_NESTING_FRAMES))
    try:
        return _read_py.schemaless_reader(stream, writer, reader)
    finally:
        sys.setrecursionlimit(usual)


def _filled(found: Any, schema: Schema, shape: Shape) -> dict[str, Any]:
    """The columns of a decoded value. Raises Rejected for text that is no Unicode and the like."""
    fields = found if schema.is_record else {WHOLE_VALUE: found}
    row = {}
    for name, column, convert in shape:
        given = fields[name]
        row[column] = given if given is None or convert is None else convert(given)
    return row


def _misfits(field: pa.Field, rows: Sequence[tuple[int, dict[str, Any]]]) -> dict[int, str]:
    """The rows whose value the column cannot hold, with the reason."""
    try:
        pa.array([row.get(field.name) for _, row in rows], field.type)
        return {}
    except MISFIT:
        found = {}
    for at, row in rows:
        given = row.get(field.name)
        try:
            pa.array([given], field.type)
        except MISFIT:
            found[at] = shortened(f"{field.name}: {given!r} does not fit the column, which is {type_name(field.type)}")
    return found


def _decode_defaults(named: Mapping[str, Any]) -> None:
    """Makes the defaults of all records what a decoder would give: a schema has them as JSON, bytes as text."""
    fields = [field for each in named.values() for field in each.get("fields", ()) if "default" in field]
    decoded = []
    for field in fields:
        try:
            decoded.append(_default(field["type"], field["default"], named))
        except Exception:  # of another type than its field's: rejected where it is needed
            decoded.append(field["default"])
    for field, default in zip(fields, decoded, strict=True):
        field["default"] = default


def _default(schema: Any, given: Any, named: Mapping[str, Any]) -> Any:
    from fastavro.read import LOGICAL_READERS

    if isinstance(schema, list):
        return None if given is None else _default(next(each for each in schema if each != "null"), given, named)
    if isinstance(schema, str):
        if schema not in PRIMITIVE:
            return _default(named[schema], given, named)
        return given.encode("latin-1") if schema in ("bytes", "fixed") else given
    kind = schema["type"]
    if kind in ("record", "error"):
        return {
            field["name"]: _default(field["type"], given.get(field["name"], field.get("default")), named)
            for field in schema["fields"]
        }
    if kind == "array":
        return [_default(schema["items"], each, named) for each in given]
    if kind == "map":
        return {name: _default(schema["values"], each, named) for name, each in given.items()}
    plain = _default(kind, given, named)
    read = LOGICAL_READERS.get(f"{kind}-{schema['logicalType']}") if "logicalType" in schema else None
    return plain if read is None else read(plain, schema, None)


def _recurs(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    """Whether a type contains itself; `within` are the records around it."""
    if isinstance(schema, list):
        return any(_recurs(each, named, within) for each in schema)
    if isinstance(schema, str):
        return schema not in PRIMITIVE and (schema in within or _recurs(named[schema], named, within))
    if "fields" in schema:
        return any(_recurs(field["type"], named, (*within, schema["name"])) for field in schema["fields"])
    inner = schema.get("items", schema.get("values", schema["type"]))
    return _recurs(inner, named, within)


def _column(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> tuple[pa.DataType, Convert | None]:
    """The type of a column for a schema, and the conversion of its values; text for what no column can hold."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return _column(others[0], named, within) if len(others) == 1 else (pa.string(), _text)
    if isinstance(schema, str):
        if schema in PRIMITIVE:
            return PRIMITIVE[schema], None
        return (pa.string(), _text) if schema in within else _column(named[schema], named, within)
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in LOGICAL:
        return LOGICAL[logical], None
    if logical in AS_TEXT:
        return pa.string(), _plain_text
    if logical == "decimal":
        return pa.decimal128(min(38, schema["precision"]), schema.get("scale", 0)), None
    if kind in ("record", "error"):
        return _record(schema, named, within)
    if kind in ("array", "map"):
        return _container(schema, kind, named, within)
    return (
        _column(kind, named, within) if not isinstance(kind, str) or kind not in PRIMITIVE else (PRIMITIVE[kind], None)
    )


def _record(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> tuple[pa.DataType, Convert | None]:
    if schema["name"] in within or not schema["fields"]:
        return pa.string(), _text
    inner = {f["name"]: _column(f["type"], named, (*within, schema["name"])) for f in schema["fields"]}
    converts = {name: convert for name, (_, convert) in inner.items() if convert is not None}

    def convert(value: dict[str, Any]) -> dict[str, Any]:
        return value | {n: c(value[n]) for n, c in converts.items() if value.get(n) is not None}

    kind = pa.struct([(name, each) for name, (each, _) in inner.items()])
    return kind, convert if converts else None


def _container(
    schema: Any, kind: str, named: Mapping[str, Any], within: tuple[str, ...]
) -> tuple[pa.DataType, Convert | None]:
    each, inner = _column(schema["items" if kind == "array" else "values"], named, within)
    change: Convert = (lambda v: v) if inner is None else (lambda v: None if v is None else inner(v))
    if kind == "map":
        return pa.map_(pa.string(), each), lambda value: [(name, change(v)) for name, v in value.items()]
    return pa.list_(each), None if inner is None else lambda value: [change(v) for v in value]


def _text(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain_text)
    except (RecursionError, TypeError, ValueError) as error:
        raise Rejected(f"cannot be written as JSON text: {error}") from None


def _plain_text(value: Any) -> str:
    if isinstance(value, bytes):
        return value.hex()
    return str(value.isoformat()) if hasattr(value, "isoformat") else str(value)
