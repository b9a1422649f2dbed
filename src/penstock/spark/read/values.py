"""Values as a typed column: what `penstock.value.format` makes of the bytes, on the driver and in the tasks.

The driver fixes the schema once (`plan`): declared columns, the fields of an Avro schema, or those of a subject's
version in the registry. A read or a query keeps it as long as it lives. Tasks turn values into columns with the formats
of the load; values with other schema ids are resolved to the one that was fixed, and only then is the registry asked
again, once a worker and id.

    a value                                     becomes
    null (a tombstone)                          null
    fits                                        a struct of the fields (what a schema that is no record holds, as it is)
    does not fit, schema id unknown to the      null, with the reason in `value_error` and the bytes in `value_raw`;
    registry or of another kind, not resolvable with penstock.value.mode = failfast the task fails
    the registry does not answer                the task fails, and Spark tries it again
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError, ErrorCode, PenstockError
from penstock.spark.limits import SPARK_SCHEMAS_KEPT
from penstock.spark.load.formats.avro import AvroFormat, Bundle, Schema, columns_of
from penstock.spark.load.formats.ddl import parse_ddl
from penstock.spark.load.formats.format import Format, Parsed
from penstock.spark.load.formats.json import JsonFormat
from penstock.spark.load.formats.json_schema import JsonSchemaFormat, columns_of_schema
from penstock.spark.load.registry import AVRO, JSON, PROTOBUF, Registry
from penstock.spark.read.value_options import DESCRIPTORS, FORMAT, SCHEMA, ValueOptions

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

VALUE, ERROR, RAW = "value", "value_error", "value_raw"
KINDS = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}


class BadValueError(PenstockError):
    """A value that does not fit its schema, with penstock.value.mode = failfast."""

    code = ErrorCode.INVALID_RECORD


@dataclass(frozen=True, slots=True)
class ValuePlan:
    """What tasks need to know of values.

    `columns` are the fields that are made; `is_struct` tells a struct of them from the only one's plain type. `reader`
    is the Avro or Protobuf schema that values are resolved to, `message` the message of it.
    """

    options: ValueOptions
    columns: pa.Schema
    is_struct: bool = True
    reader: Bundle | None = None
    message: str | None = None

    @property
    def type(self) -> pa.DataType:
        """Of the column `value`."""
        return pa.struct(list(self.columns)) if self.is_struct else self.columns.field(0).type


def plan(options: ValueOptions, declared: DataType | None = None) -> ValuePlan:
    """Fixes the type of the column `value`.

    Args:
        options: the source's.
        declared: its type as `.schema(...)` has it, if it has: all columns of JSON, or some of those that the schema
            has.

    Raises ConfigError, RegistryError.
    """
    found = _planned(options, declared)
    return found if declared is None else _narrowed(found, declared)


def spark_type(plan: ValuePlan) -> DataType:
    """The type of the column `value`, as Spark has it."""
    from pyspark.sql.pandas.types import from_arrow_type

    return from_arrow_type(plan.type)


def _planned(options: ValueOptions, declared: DataType | None) -> ValuePlan:
    if options.format == "avro":
        return _planned_avro(options)
    if options.format == "protobuf":
        return _planned_protobuf(options)
    if options.schema is not None:
        return ValuePlan(options, _some(parse_ddl(options.schema)))
    if options.format == "jsonschema":
        assert options.subject is not None
        assert options.registry_url is not None
        _, bundle = Registry(options.registry_url, JSON).version(options.subject, options.version)
        return ValuePlan(options, columns_of_schema(bundle[-1]))
    if declared is None:
        raise ConfigError(
            f'option {SCHEMA} is missing: {FORMAT} = json needs columns, "page string, ms bigint", there or in '
            '.schema("value struct<page: string, ms: bigint>")'
        )
    return ValuePlan(options, _some(parse_ddl(_ddl_fields(_fields_of(declared)))))


def _planned_avro(options: ValueOptions) -> ValuePlan:
    if options.schema is not None:
        bundle: Bundle = [_avro_text(options.schema)]
    else:
        assert options.subject is not None
        assert options.registry_url is not None
        _, bundle = Registry(options.registry_url, AVRO).version(options.subject, options.version)
    try:
        columns = columns_of(bundle, [], own=())
    except PenstockError as error:
        raise ConfigError(str(error)) from error
    return ValuePlan(options, columns, Schema(bundle).is_record, bundle)


def _planned_protobuf(options: ValueOptions) -> ValuePlan:
    from penstock.spark.load.formats.protobuf import files_of
    from penstock.spark.load.formats.protobuf_types import columns_of_message, files_of_set

    bundle: Bundle
    if options.descriptors is not None:
        try:
            content = Path(options.descriptors).read_bytes()
        except OSError as error:
            said = (error.strerror or str(error)).lower()
            raise ConfigError(f"option {DESCRIPTORS} = {options.descriptors!r} cannot be read: {said}") from None
        bundle = [b64encode(each).decode() for each in files_of_set(content)]
    else:
        assert options.subject is not None
        assert options.registry_url is not None
        _, bundle = Registry(options.registry_url, PROTOBUF).version(options.subject, options.version)
    message = files_of(bundle).message(options.message)
    return ValuePlan(options, columns_of_message(message), reader=bundle, message=message.full_name)


def _avro_text(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        if text.strip().isidentifier():
            return text.strip()  # the name of a primitive type
        raise ConfigError(f"option {SCHEMA} must be an Avro schema, which is JSON: {error}") from None


def _some(columns: pa.Schema) -> pa.Schema:
    if not len(columns):
        raise ConfigError(f"option {SCHEMA} has no columns")
    return columns


def _narrowed(plan: ValuePlan, declared: DataType) -> ValuePlan:
    """The plan with the fields of `.schema(...)` only. Raises ConfigError for one of another name or type."""
    from pyspark.sql.pandas.types import from_arrow_type

    if not plan.is_struct:
        have = from_arrow_type(plan.type).simpleString()
        if declared.simpleString() != have:
            raise ConfigError(f"column value is {have}, not {declared.simpleString()}; cast it in the query")
        return plan
    fields = _fields_of(declared)
    there = {each.name: each for each in plan.columns}
    for field in fields.fields:
        if field.name not in there:
            raise ConfigError(f"value has no field {field.name} (its fields are {', '.join(there)})")
        have, given = from_arrow_type(there[field.name].type).simpleString(), field.dataType.simpleString()
        if have != given:
            raise ConfigError(f"value.{field.name} is {have}, not {given}; cast it in the query")
    return replace(plan, columns=_some(pa.schema([there[each.name] for each in fields.fields])))


def _fields_of(declared: DataType) -> Any:
    from pyspark.sql.types import StructType

    if not isinstance(declared, StructType):
        raise ConfigError(f"column value is a struct of typed fields, not {declared.simpleString()}")
    _check_nullable(declared, "value")
    return declared


def _check_nullable(kind: Any, path: str) -> None:
    """Raises ConfigError for NOT NULL at any depth: nothing keeps a record from leaving a field out."""
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, StructType):
        for field in kind.fields:
            if not field.nullable:
                raise ConfigError(f"{path}.{field.name} is NOT NULL; a record may leave it out")
            _check_nullable(field.dataType, f"{path}.{field.name}")
    elif isinstance(kind, ArrayType):
        if not kind.containsNull:
            raise ConfigError(f"elements of {path} are NOT NULL; a record may have a null there")
        _check_nullable(kind.elementType, f"{path}[]")


def _ddl_fields(declared: Any) -> str:
    """Spark's own `toDDL` needs a session, and there is none where a read is planned."""
    return ", ".join(f"`{each.name.replace('`', '``')}` {_ddl(each.dataType)}" for each in declared.fields)


def _ddl(kind: Any) -> str:
    from pyspark.sql.types import ArrayType, StructType

    if isinstance(kind, StructType):
        return f"struct<{_ddl_fields(kind)}>"
    return f"array<{_ddl(kind.elementType)}>" if isinstance(kind, ArrayType) else str(kind.simpleString())


class Values:
    """Makes the columns of values in one task. Keep one a task: it remembers what it learnt of schemas."""

    def __init__(self, plan: ValuePlan) -> None:
        self._plan = plan
        self._format = _format_of(plan)

    def columns(self, topic: str, partition: int, offsets: pa.Array, values: pa.Array) -> dict[str, pa.Array]:
        """The columns `value`, `value_error` and `value_raw` of records of one partition.

        Raises BadValueError in mode failfast, RegistryError when the registry does not answer.
        """
        parsed = self._format.parse(topic, values.drop_null() if values.null_count else values)
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False)) if values.null_count else None
        bad = sorted(parsed.rejected)
        rows = np.array(bad, np.int64) if present is None else present[bad]
        if bad and self._plan.options.failfast:
            where = f"{topic}-{partition}, offset {offsets[int(rows[0])]}"
            raise BadValueError(f"{where}: {parsed.rejected[bad[0]]} (penstock.value.mode = permissive passes it over)")
        reasons = pa.array([parsed.rejected[at] for at in bad], pa.string())
        return {
            VALUE: self._spread(parsed, present, len(values)),
            ERROR: _scattered(reasons, rows, len(values)),
            RAW: _scattered(values.take(pa.array(rows)), rows, len(values)),
        }

    def _spread(self, parsed: Parsed, present: Any, count: int) -> pa.Array:
        """The parsed values where they belong, null elsewhere."""
        columns = parsed.columns
        if self._plan.is_struct:
            column = pa.StructArray.from_arrays(columns.columns, fields=list(columns.schema))
        else:
            column = columns.column(0)
        if present is None and parsed.kept is None:
            return column
        kept = slice(None) if parsed.kept is None else parsed.kept.to_numpy()
        rows = (np.arange(count) if present is None else present)[kept]
        return _scattered(column, rows, count)


def _scattered(column: pa.Array, rows: Any, count: int) -> pa.Array:
    """A column of `count` rows that has these at `rows`, and nulls elsewhere."""
    if not len(column):
        return pa.nulls(count, column.type)
    at = np.zeros(count, np.int64)
    missing = np.ones(count, bool)
    at[rows], missing[rows] = np.arange(len(column)), False
    return column.take(pa.array(at, mask=missing))


def _format_of(plan: ValuePlan) -> Format:
    options = plan.options
    if options.format == "json":
        return JsonFormat(plan.columns, (), ignore_fields=True)
    schemas = _Schemas(options.registry_url, KINDS[options.format]) if options.registry_url is not None else None
    if options.format == "jsonschema":
        assert schemas is not None
        return JsonSchemaFormat(plan.columns, schemas)
    assert plan.reader is not None
    if options.format == "protobuf":
        from penstock.spark.load.formats.protobuf import ProtobufFormat

        assert plan.message is not None
        return ProtobufFormat(plan.columns, (plan.reader, plan.message), schemas)
    if schemas is None:
        return AvroFormat(plan.columns, {}, {0: plan.reader}, None, (), fixed=plan.reader, header_bytes=0)
    return AvroFormat(plan.columns, {}, schemas, None, (), fixed=plan.reader)


class _Schemas(Mapping[int, "Bundle | str | None"]):
    """Writers' schemas by id, asked for at first use. An id that does not exist is asked for once a task."""

    def __init__(self, url: str, kind: str) -> None:
        self._url = url
        self._kind = kind
        self._found: dict[int, Bundle | str | None] = {}

    def __getitem__(self, schema_id: int) -> Bundle | str | None:
        if schema_id not in self._found:
            try:
                self._found[schema_id] = _schema(self._url, self._kind, schema_id)
            except LookupError:
                self._found[schema_id] = None
        return self._found[schema_id]

    def __iter__(self) -> Iterator[int]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)


@lru_cache(maxsize=SPARK_SCHEMAS_KEPT)
def _schema(url: str, kind: str, schema_id: int) -> Bundle | str:
    """One schema of a registry; it never changes. Raises LookupError if there is none as yet, RegistryError."""
    found = Registry(url, kind).schema(schema_id)
    if found is None:
        raise LookupError(schema_id)
    return found
