"""JSON Schemas as columns: which types there are, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import ConfigError  # noqa: E402
from penstock.spark.load.formats.json_schema import columns_of_schema  # noqa: E402

NAME = {"type": "object", "properties": {"first": {"type": "string"}}}


def fields(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string", "format": "date-time"}, pa.string()),
        ({"type": "integer"}, pa.int64()),
        ({"type": "number"}, pa.float64()),
        ({"type": ["boolean", "null"]}, pa.bool_()),
        ({"oneOf": [{"type": "null", "title": "Not included"}, {"type": "integer"}]}, pa.int64()),
        ({"enum": ["a", "b", None]}, pa.string()),
        ({"type": "array", "items": NAME}, pa.list_(pa.struct([("first", pa.string())]))),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, pa.string()),
        ({"$ref": "#/definitions/Name"}, pa.struct([("first", pa.string())])),
    ],
)
def test_a_field_has_the_type_of_its_schema(schema: Any, expected: Any) -> None:
    assert columns_of_schema(fields(x=schema) | {"definitions": {"Name": NAME}}) == pa.schema([("x", expected)])


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": ["string", "integer"]}, "for x: the types string, integer"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "for x: oneOf of several types"),
        ({"allOf": [NAME]}, "for x: allOf"),
        ({}, "for x: no type"),
        (True, "for x: the schema True"),
        ({"type": "array"}, "for x: an array without one schema"),
        (fields(y={"type": "array", "items": {"type": "what"}}), r"for x.y\[\]: type what"),
        (fields(y={"type": "object"}), "for x.y: a nested object without properties"),
        ({"$ref": "#/definitions/Self"}, "for x.again: a recursion through #/definitions/Self"),
        ({"$ref": "other.json"}, "for x: a reference to other.json"),
        ({"$ref": "#/nowhere"}, "which is not there"),
    ],
)
def test_what_has_no_type_of_a_column_is_refused_by_name(schema: Any, said: str) -> None:
    whole = fields(x=schema) | {"definitions": {"Self": fields(again={"$ref": "#/definitions/Self"})}}
    with pytest.raises(ConfigError, match=said) as failed:
        columns_of_schema(whole)
    assert "penstock.value.schema" in str(failed.value)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "object"}, {"type": "object", "properties": {}}])
def test_a_schema_without_fields_has_no_columns(schema: Any) -> None:
    with pytest.raises(ConfigError, match="no object with properties"):
        columns_of_schema(schema)
