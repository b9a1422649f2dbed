"""Avro values as columns: schemas that changed, types, what is rejected."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("fastavro", reason="needs penstock[avro]")

import fastavro
import pyarrow as pa

from penstock.spark.load.formats.avro import AvroFormat, columns_of
from penstock.spark.load.formats.format import Parsed


def record(*fields: tuple[str, Any], **more: Any) -> dict[str, Any]:
    extra = [{"name": name, "type": kind, **more.get(name, {})} for name, kind in fields]
    return {"type": "record", "name": "Click", "fields": extra}


OLD = record(("page", "string"), ("ms", "int"), ("gone", ["null", "string"]))
NEW = record(("page", "string"), ("ms", "long"), ("user", ["null", "string"]), user={"default": None})


def value(schema: Any, given: Any, schema_id: int) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), given)
    return bytes([0]) + schema_id.to_bytes(4, "big") + stream.getvalue()


def parse(values: Sequence[bytes | None], schemas: dict[int, Any], reader: Any = None) -> Parsed:
    bundles = {number: each if each is None or isinstance(each, str) else [each] for number, each in schemas.items()}
    latest = None if reader is None else [reader]
    columns = columns_of(latest, [each for each in bundles.values() if isinstance(each, list)])
    made = AvroFormat(columns, {"clicks": latest}, bundles, {"clicks": list(bundles)})
    return made.parse("clicks", pa.array(values, pa.binary()))


def test_values_of_old_and_new_schemas_are_rows_of_one_table() -> None:
    values = [
        value(OLD, {"page": "/a", "ms": 1, "gone": "kept"}, 1),
        value(NEW, {"page": "/b", "ms": 2**40, "user": "u"}, 2),
        None,
    ]
    assert parse(values, {1: OLD, 2: NEW}, NEW).columns.to_pylist() == [
        {"page": "/a", "ms": 1, "user": None, "gone": "kept"},
        {"page": "/b", "ms": 2**40, "user": "u", "gone": None},
        {"page": None, "ms": None, "user": None, "gone": None},
    ]


def test_an_id_that_the_plan_does_not_hold_is_reported() -> None:
    assert parse([value(OLD, {"page": "", "ms": 1, "gone": None}, 7)], {1: OLD}, NEW).unknown_schemas == [7]


def test_what_cannot_be_read_is_rejected_with_the_reason() -> None:
    good = value(NEW, {"page": "/", "ms": 1, "user": None}, 2)
    values = [good, b"", b'{"page":1}', good[:-1], good + b"x", good[:4] + b"\x09" + good[5:], good[:4] + b"\x08"]
    parsed = parse(values, {2: NEW, 9: None, 8: "the schema is JSON, not Avro"}, NEW)
    assert parsed.columns.num_rows == 1
    assert parsed.rejected[1].startswith("no schema id")
    assert parsed.rejected[2].startswith("no schema id")
    assert parsed.rejected[3].startswith("no value of its Avro schema")
    assert parsed.rejected[4] == "no value of its Avro schema: 1 bytes are left over"
    assert parsed.rejected[5] == "the registry knows no schema 9"
    assert parsed.rejected[6] == "the schema is JSON, not Avro"


def test_logical_types_nested_ones_and_what_no_column_can_hold() -> None:
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "next", "type": ["null", "Tree"]}]}
    schema = record(
        ("price", {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}),
        ("day", {"type": "int", "logicalType": "date"}),
        ("at", {"type": "long", "logicalType": "timestamp-millis"}),
        ("id", {"type": "string", "logicalType": "uuid"}),
        ("time", {"type": "int", "logicalType": "time-millis"}),
        ("counts", {"type": "map", "values": "long"}),
        ("tags", {"type": "array", "items": ["null", "string"]}),
        ("kind", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}),
        ("any", ["null", "string", "long"]),
        ("tree", tree),
        ("key", "string"),
    )
    given = {
        "price": decimal.Decimal("1.50"),
        "day": datetime.date(2026, 1, 31),
        "at": datetime.datetime(2026, 1, 31, 8, tzinfo=datetime.UTC),
        "id": "8d7a3b1e-0000-4000-8000-000000000001",
        "time": datetime.time(8, 30),
        "counts": {"a": 1},
        "tags": ["x", None],
        "kind": "B",
        "any": 5,
        "tree": {"next": {"next": None}},
        "key": "k",
    }
    (row,) = parse([value(schema, given, 1)], {1: schema}).columns.to_pylist()
    told = {name: each for name, each in given.items() if name != "key"}
    told |= {"time": "08:30:00", "counts": [("a", 1)], "any": "5", "tree": {"next": '{"next":null}'}, "value_key": "k"}
    assert row == told


def test_defaults_are_what_a_decoder_would_give() -> None:
    inner = {"x": {"default": 1}, "y": {"default": {"a": 1}}}
    defaults = {
        "raw": ("bytes", "\u00ff", b"\xff"),
        "fixed": ({"type": "fixed", "name": "Two", "size": 2}, "\u00ff\u0001", b"\xff\x01"),
        "some": ({"type": "array", "items": "bytes"}, ["\u00ff"], [b"\xff"]),
        "perhaps": (["bytes", "null"], "\u00ff", b"\xff"),
        "price": (
            {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2},
            "\u0001",
            decimal.Decimal("0.01"),
        ),
        "at": (
            {"type": "long", "logicalType": "timestamp-millis"},
            1000,
            datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        ),
        "time": ({"type": "int", "logicalType": "time-millis"}, 1000, "00:00:01"),
        "who": (
            record(("x", "int"), ("y", {"type": "map", "values": "int"}), **inner) | {"name": "Who"},
            {},
            {"x": 1, "y": [("a", 1)]},
        ),
    }
    fields = [(name, kind) for name, (kind, _, _) in defaults.items()]
    newer = record(*fields, **{name: {"default": default} for name, (_, default, _) in defaults.items()})
    older = record(("page", "string"))
    parsed = parse([value(older, {"page": ""}, 1)], {1: older, 2: newer}, newer)
    assert parsed.columns.to_pylist() == [{"page": "", **{name: made for name, (_, _, made) in defaults.items()}}]


def test_a_value_that_is_nested_too_deeply_costs_nothing_but_itself() -> None:
    node = record(("v", "int"), ("next", ["null", "Click"]))
    head = bytes(5)
    values = [head + b"\2\2" * depth + b"\2\0" for depth in (2, 500, 100_000)]
    parsed = parse(values, {0: node})
    assert parsed.columns["v"].to_pylist() == [1, 1]
    assert "recursion" in parsed.rejected[2]


def test_a_schema_that_is_no_record_is_one_column() -> None:
    assert parse([value("long", 5, 1)], {1: {"type": "long"}}).columns.to_pylist() == [{"value": 5}]
