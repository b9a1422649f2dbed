"""JSON values in Confluent's framing: a zero byte, the id of a JSON Schema in four bytes, then the JSON text.

The text says by itself what it holds, so a writer's schema is not needed to read it: its id only has to exist. Values
are not validated against it (nor do Confluent's deserializers by default); what the columns cannot hold is rejected as
with plain JSON.

Types: boolean, integer (bigint), number (double) and string as they are, objects with `properties` and arrays with
`items` as nested columns, an object without `properties` at the top level as JSON text; `["null", T]`, `oneOf` and
`anyOf` of null and T as T; `$ref` into the schema itself. Formats of strings such as date-time are not looked at. What
has no type of a column (unions of several types, tuples, recursion, allOf) is refused: declare the columns then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.errors import ConfigError
from penstock.spark.load.formats.avro import Bundle
from penstock.spark.load.formats.format import Parsed
from penstock.spark.load.formats.framing import NO_ID, UNFRAMED, bodies_of, ids_of
from penstock.spark.load.formats.json import JsonFormat

SIMPLE: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "string": pa.string(),
}
REMEDY = "penstock.value.schema can declare the columns instead"


def columns_of_schema(schema: Any) -> pa.Schema:
    """The columns of a JSON Schema of an object. Raises ConfigError, naming the field that has no type of a column."""
    return pa.schema(_Types(schema).fields())


class JsonSchemaFormat:
    """Parses framed values; `schemas` are as AvroFormat takes them."""

    def __init__(self, columns: pa.Schema, schemas: Mapping[int, Bundle | str | None]) -> None:
        self._json = JsonFormat(columns, (), ignore_fields=True)
        self._schemas = schemas

    def parse(self, topic: str, values: pa.Array) -> Parsed:
        """Values without nulls; see Format."""
        ids = ids_of(values)
        reasons = {number: self._reason(number) for number in np.unique(ids).tolist()}
        if not any(reasons.values()):
            return self._json.parse(topic, bodies_of(values))
        whose = ids.tolist()
        good = [at for at, number in enumerate(whose) if reasons[number] is None]
        parsed = self._json.parse(topic, bodies_of(values.take(pa.array(good, pa.int64()))))
        rejected = {at: reason for at, number in enumerate(whose) if (reason := reasons[number]) is not None}
        rejected |= {good[at]: reason for at, reason in parsed.rejected.items()}
        kept = pa.array([at for at in good if at not in rejected], pa.int64())
        return Parsed(parsed.columns, kept, rejected)

    def _reason(self, number: int) -> str | None:
        """Why the values with an id cannot be read. Raises RegistryError."""
        if number == NO_ID:
            return UNFRAMED
        found = self._schemas.get(number)
        if found is None:
            return f"the registry knows no schema {number}"
        return found if isinstance(found, str) else None


class _Types:
    """The types of one schema's fields."""

    def __init__(self, schema: Any) -> None:
        self._schema = schema

    def fields(self) -> list[pa.Field]:
        found, refs = self._resolved(self._schema, "the schema", ())
        if not self._is_object(found) or not found.get("properties"):
            raise ConfigError(f"the JSON Schema is no object with properties, so it has no columns; {REMEDY}")
        return self._properties(found, "", refs)

    def _properties(self, schema: Any, path: str, refs: tuple[str, ...]) -> list[pa.Field]:
        properties = schema["properties"]
        if not isinstance(properties, dict):
            raise self._unfit(path or "the schema", "properties is no object")
        fields = []
        for name, each in properties.items():
            where = f"{path}.{name}" if path else name
            fields.append(pa.field(name, self._type(each, where, refs, top=not path)))
        return fields

    def _type(self, schema: Any, path: str, refs: tuple[str, ...], *, top: bool) -> pa.DataType:
        found, refs = self._resolved(schema, path, refs)
        kind = found.get("type")
        if kind is None and "enum" in found and all(isinstance(each, str | None) for each in found["enum"]):
            kind = "string"
        if self._is_object(found):
            if found.get("properties"):
                return pa.struct(self._properties(found, path, refs))
            if top:
                return pa.string()
            raise self._unfit(path, "a nested object without properties")
        if kind == "array":
            if not isinstance(found.get("items"), dict):
                raise self._unfit(path, "an array without one schema of its items")
            return pa.list_(self._type(found["items"], f"{path}[]", refs, top=False))
        if not isinstance(kind, str) or kind not in SIMPLE:
            raise self._unfit(path, "no type" if kind is None else f"type {kind}")
        return SIMPLE[kind]

    @staticmethod
    def _is_object(schema: Any) -> bool:
        return schema.get("type") == "object" or ("type" not in schema and "properties" in schema)

    def _resolved(self, schema: Any, path: str, refs: tuple[str, ...]) -> tuple[dict[str, Any], tuple[str, ...]]:
        """The schema with references followed and null taken out of it, and the references that led to it."""
        if not isinstance(schema, dict):
            raise self._unfit(path, f"the schema {schema!r}")
        if "$ref" in schema:
            ref = schema["$ref"]
            if ref in refs:
                raise self._unfit(path, f"a recursion through {ref}")
            return self._resolved(self._followed(ref, path), path, (*refs, ref))
        for word in ("oneOf", "anyOf"):
            if word in schema:
                others = [each for each in schema[word] if not _is_null(each)]
                if len(others) != 1:
                    raise self._unfit(path, f"{word} of several types")
                return self._resolved(others[0], path, refs)
        if "allOf" in schema:
            raise self._unfit(path, "allOf")
        if isinstance(schema.get("type"), list):
            others = [each for each in schema["type"] if each != "null"]
            if len(others) != 1:
                raise self._unfit(path, f"the types {', '.join(map(str, others)) or 'null'}")
            return {**schema, "type": others[0]}, refs
        return schema, refs

    def _followed(self, ref: Any, path: str) -> Any:
        if not isinstance(ref, str) or not ref.startswith("#"):
            raise self._unfit(path, f"a reference to {ref}")
        found = self._schema
        for part in ref[1:].split("/")[1:]:
            found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
        if found is None:
            raise self._unfit(path, f"a reference to {ref}, which is not there")
        return found

    @staticmethod
    def _unfit(path: str, what: str) -> ConfigError:
        return ConfigError(f"the JSON Schema has no type of a column for {path}: {what}; {REMEDY}")


def _is_null(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "null"
