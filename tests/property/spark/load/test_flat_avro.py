"""Compiled loops make of Avro values what the decoder makes of them one by one: columns, bad values, and reasons."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")
fastavro = pytest.importorskip("fastavro", reason="needs penstock[avro]")
pytest.importorskip("numba", reason="needs penstock[kernels]")

from penstock.errors import PenstockError  # noqa: E402
from penstock.spark.load.formats import avro, avro_flat  # noqa: E402
from penstock.spark.load.formats.avro import AvroFormat, columns_of  # noqa: E402
from penstock.spark.load.formats.format import Parsed  # noqa: E402

LONG = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
INT = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=4)
FLOAT = st.floats(width=32)
SYMBOLS = ["A", "B", "CC"]


def logical(base: str, name: str) -> dict[str, str]:
    return {"type": base, "logicalType": name}


def types(name: str) -> list[tuple[Any, Any]]:
    """Types of a field of this name, with the values that are written as them."""
    return [
        ("boolean", st.booleans()),
        ("int", INT),
        ("long", LONG),
        ("float", FLOAT),
        ("double", st.floats()),
        ("string", TEXT),
        ("bytes", st.binary(max_size=3)),
        ({"type": "string", "avro.java.string": "String"}, TEXT),
        ({"type": "fixed", "name": "F" + name, "size": 3}, st.binary(min_size=3, max_size=3)),
        ({"type": "enum", "name": "E" + name, "symbols": SYMBOLS}, st.sampled_from(SYMBOLS)),
        (logical("int", "date"), st.integers(-800_000, 3_000_000)),
        (logical("long", "timestamp-millis"), st.integers(-(2**46), 2**48)),
        (logical("long", "timestamp-micros"), st.integers(-(2**56), 2**58) | LONG),
        (logical("long", "of-nobody"), LONG),
        (logical("string", "date"), TEXT),
        (logical("string", "uuid"), st.uuids().map(str)),
        ({"type": "array", "items": "int"}, st.lists(INT, max_size=2)),
        ("null", st.none()),
    ]


def field(name: str) -> Any:
    """A field and the strategy of its values, null among them where it may be."""

    def shaped(chosen: tuple[tuple[Any, Any], str]) -> tuple[dict[str, Any], Any]:
        (kind, values), union = chosen
        if union == "plain" or kind == "null":
            return {"name": name, "type": kind}, values
        kinds = {"first": ["null", kind], "last": [kind, "null"], "more": ["null", kind, "boolean"], "one": [kind]}
        return {"name": name, "type": kinds[union]}, values | st.none() if union != "one" else values

    most = types(name)[:13]  # those that are flat come more often
    kinds = st.sampled_from(most) | st.sampled_from(most) | st.sampled_from(types(name))
    return st.tuples(kinds, st.sampled_from(["plain", "plain", "first", "last", "more", "one"])).map(shaped)


WRITER = st.integers(1, 4).flatmap(lambda count: st.tuples(*(field("abcd"[at]) for at in range(count))))
DEFAULTS: list[dict[str, Any]] = [
    {"type": "long", "default": 7},
    {"type": ["null", "string"], "default": None},
    {"type": "bytes", "default": "\u00ff"},
    {"type": logical("int", "date"), "default": 1},
    {"type": {"type": "array", "items": "int"}, "default": [1]},
    {"type": "string"},
]


def record(fields: Sequence[Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


@st.composite
def readers(draw: Any, fields: Sequence[dict[str, Any]]) -> Any:
    """A schema that another came of: fields gone, in another order, of another type, renamed, new."""
    kept = []
    for each in draw(st.permutations(fields)):
        how = draw(st.sampled_from(["same"] * 4 + ["gone", "renamed", "null", "other", "enum"]))
        kind = each["type"]
        if how == "renamed":
            kept.append({"name": each["name"] + "_", "type": kind, "aliases": [each["name"]]})
        elif how == "null":
            kept.append({"name": each["name"], "type": kind[-1] if isinstance(kind, list) else [kind, "null"]})
        elif how == "other":
            kept.append(draw(field(each["name"]))[0])
        elif how == "enum":
            other = {"type": "enum", "name": "E" + each["name"], "symbols": ["CC", "A"]}
            kept.append({"name": each["name"], "type": other | draw(st.sampled_from([{}, {"default": "A"}]))})
        elif how == "same":
            kept.append(each)
    if draw(st.booleans()):
        kept.append({"name": "new", **draw(st.sampled_from(DEFAULTS))})
    return record(kept, draw(st.sampled_from(["R"] * 9 + ["Other"])))


@st.composite
def cases(draw: Any) -> tuple[Any, Any, list[bytes | None]]:
    fields = draw(WRITER)
    writer = record([each for each, _ in fields])
    reader = draw(st.none() | readers([each for each, _ in fields]))
    plain = [{"name": f["name"], "type": without_logical(f["type"])} for f, _ in fields]
    parsed = fastavro.parse_schema(record(plain), named_schemas={})
    values: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 4))):
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, {f["name"]: draw(each) for f, each in fields})
        values.append(b"\0\0\0\0" + bytes([draw(st.sampled_from([1] * 9 + [2]))]) + out.getvalue())
    for _ in range(draw(st.integers(0, 3))):
        values.append(draw(broken(draw(st.sampled_from([each for each in values if each is not None])))))
    return writer, reader, values


def without_logical(kind: Any) -> Any:
    """For a writer that takes any number."""
    if isinstance(kind, list):
        return [without_logical(each) for each in kind]
    return {n: v for n, v in kind.items() if n != "logicalType"} if isinstance(kind, dict) else kind


@st.composite
def broken(draw: Any, value: bytes) -> bytes | None:
    how = draw(st.sampled_from(["cut", "flip", "flip", "put", "more", "null", "any"]))
    at = draw(st.integers(min(5, len(value) - 1), len(value) - 1)) if value else 0
    if how == "cut":
        return value[:at]
    if how == "flip" and value:
        return value[:at] + bytes([value[at] ^ draw(st.integers(1, 255))]) + value[at + 1 :]
    if how == "put":
        bits = st.sampled_from([b"\xff", b"\x80", b"\x80\x00", b"\xff" * 9 + b"\x01", b"\xff" * 9 + b"\x7f"])
        return value[:at] + draw(bits) + value[at + draw(st.integers(0, 1)) :]
    if how == "more":
        return value + draw(st.binary(min_size=1, max_size=2))
    return None if how == "null" else value[:5] + draw(st.binary(max_size=12))


def formats(writer: Any, reader: Any) -> list[AvroFormat]:
    """As a read has them, all fields and some, and as a load has them, whose table has the writer's fields too."""
    schemas: dict[int, Any] = {1: [writer], 2: None}
    latest = None if reader is None else [reader]
    loaded = columns_of(latest, [[writer]])
    made = [AvroFormat(loaded, {"t": latest}, schemas, {"t": [1, 2]})]
    wanted = columns_of(latest or [writer], [], own=())
    for columns in (wanted, pa.schema(list(wanted)[:1])):
        made.append(AvroFormat(columns, {}, schemas, None, (), fixed=latest or [writer]))
    return made


def outcome(parsed: Parsed) -> Any:
    kept = None if parsed.kept is None else parsed.kept.to_pylist()
    parsed.columns.validate(full=True)
    columns = [repr(each.to_pylist()) for each in parsed.columns.columns]  # a NaN is not itself
    return parsed.columns.schema, columns, kept, dict(parsed.rejected), list(parsed.unknown_schemas)


def parsed_both_ways(made: AvroFormat, values: Sequence[bytes | None]) -> tuple[Any, Any]:
    column = pa.array([b"before", *values], pa.binary()).slice(1)
    with patch.object(avro, "AVRO_COMPILED_ROWS", 1):
        compiled = outcome(made.parse("t", column))
    with patch.object(avro, "AVRO_COMPILED_ROWS", 1000):
        return compiled, outcome(made.parse("t", column))


@settings(deadline=None)
@given(cases())
def test_compiled_loops_and_the_decoder_agree_on_any_schemas_and_bytes(case: Any) -> None:
    writer, reader, values = case
    try:
        made = formats(writer, reader)
    except (PenstockError, pa.ArrowException):  # a reader's schema that is none
        return
    for each in made:
        compiled, one_by_one = parsed_both_ways(each, values)
        assert compiled == one_by_one


def int_as_long(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, "long", number)
    return b"\0\0\0\0\1" + out.getvalue()


def test_the_comparison_finds_a_check_that_is_missing() -> None:
    (_, made, _) = formats(record([{"name": "a", "type": "int"}]), None)
    values = [int_as_long(1), int_as_long(2**32)]
    compiled, one_by_one = parsed_both_ways(made, values)
    assert compiled == one_by_one
    assert "does not fit" in compiled[3][1]
    (_, made, _) = formats(record([{"name": "a", "type": "int"}]), None)
    with patch.object(avro_flat, "INT32", avro_flat.INT64):
        compiled, one_by_one = parsed_both_ways(made, values)
    assert compiled != one_by_one


FLAT = [
    {"name": "a", "type": ["null", "long"]},
    {"name": "b", "type": {"type": "enum", "name": "E", "symbols": SYMBOLS}},
    {"name": "c", "type": [logical("long", "timestamp-millis"), "null"]},
    {"name": "d", "type": "string"},
]
EVOLVED = [FLAT[3], {"name": "new", "type": "string", "default": "x"}, {"name": "a", "type": ["double", "null"]}]


@pytest.mark.parametrize("reader", [None, record(EVOLVED)])
def test_flat_values_never_come_to_the_decoder(reader: Any) -> None:
    out = io.BytesIO()
    given = {"a": 5, "b": "B", "c": None, "d": "\u00e4"}
    fastavro.schemaless_writer(out, fastavro.parse_schema(record(FLAT), named_schemas={}), given)
    for made in formats(record(FLAT), reader):
        column = pa.array([b"\0\0\0\0\1" + out.getvalue(), None] * 20, pa.binary())
        with patch.object(avro, "_read", side_effect=AssertionError):
            parsed = made.parse("t", column)
        assert parsed.columns.num_rows == 40
        assert not parsed.rejected
        assert parsed.columns.column(0)[0].as_py() == (5 if reader is None else "\u00e4")
