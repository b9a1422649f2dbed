"""Typed columns hold what Python's own decoders make of a value, whatever stands beside it in a batch."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="needs penstock[spark]")
fastavro = pytest.importorskip("fastavro", reason="needs penstock[avro]")
pa = pytest.importorskip("pyarrow")

from penstock.spark.load.formats.framing import bodies_of, ids_of  # noqa: E402
from penstock.spark.read.value_options import ValueOptions  # noqa: E402
from penstock.spark.read.values import Values, plan  # noqa: E402

INT = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=4)
JSON_DDL = "n bigint, t string, b boolean, tags array<string>, who struct<id: bigint>"
JSON_NAMES = ("n", "t", "b", "tags", "who")
OBJECT = st.fixed_dictionaries(
    {},
    optional={
        "n": st.none() | INT,
        "t": st.none() | TEXT,
        "b": st.none() | st.booleans(),
        "tags": st.none() | st.lists(st.none() | TEXT, max_size=2),
        "who": st.none() | st.fixed_dictionaries({"id": st.none() | INT}),
        "other": st.recursive(st.none() | st.floats(allow_nan=False) | TEXT, lambda each: st.lists(each, max_size=2)),
    },
)
AVRO = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "n", "type": "long"},
        {"name": "t", "type": ["null", "string"]},
        {"name": "d", "type": "double"},
        {"name": "i", "type": "int"},
        {"name": "raw", "type": "bytes"},
        {"name": "b", "type": ["boolean", "null"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "long"]}},
    ],
}
RECORD = st.fixed_dictionaries(
    {
        "n": INT,
        "t": st.none() | TEXT,
        "d": st.floats(allow_nan=False),
        "i": st.integers(-(2**31), 2**31 - 1),
        "raw": st.binary(max_size=3),
        "b": st.none() | st.booleans(),
        "tags": st.lists(st.none() | INT, max_size=2),
    }
)
JSON_PLAN = plan(ValueOptions("json", JSON_DDL, False, None, None, None))
AVRO_PLAN = plan(ValueOptions("avro", json.dumps(AVRO), False, None, None, None))


def decoded(planned: Any, values: list[bytes | None]) -> list[tuple[Any, bool, bytes | None]]:
    column = pa.array([b"before", *values], pa.binary()).slice(1)
    made = Values(planned).columns("t", 0, pa.array(range(len(values))), column)
    assert made["value"].type == planned.type
    errors = [each is not None for each in made["value_error"].to_pylist()]
    return list(zip(made["value"].to_pylist(), errors, made["value_raw"].to_pylist(), strict=True))


def wire(given: dict[str, Any]) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(AVRO, named_schemas={}), given)
    return stream.getvalue()


def avro_of(value: bytes) -> dict[str, Any] | None:
    stream = io.BytesIO(value)
    try:
        found = fastavro.schemaless_reader(stream, fastavro.parse_schema(AVRO, named_schemas={}), None)
    except Exception:
        return None
    return dict(found) if stream.tell() == len(value) else None


@settings(deadline=None)
@given(st.lists(st.none() | OBJECT | st.just("poison"), max_size=8))
def test_json_is_as_python_reads_it(given: list[Any]) -> None:
    values = [None if each is None else json.dumps(each).encode() for each in given]
    for each, value, (typed, is_bad, raw) in zip(given, values, decoded(JSON_PLAN, values), strict=True):
        if isinstance(each, dict):
            assert typed == {name: each.get(name) for name in JSON_NAMES}
        else:
            assert typed is None
        assert is_bad == isinstance(each, str)
        assert raw == (value if is_bad else None)


@settings(deadline=None)
@given(st.lists(st.none() | RECORD.map(wire) | st.binary(max_size=12), max_size=8), st.integers(0, 3))
def test_avro_is_as_fastavro_reads_it_also_if_it_is_cut_short(values: list[bytes | None], cut: int) -> None:
    if values and values[0]:
        values[0] = values[0][: len(values[0]) - cut]
    for value, (typed, is_bad, raw) in zip(values, decoded(AVRO_PLAN, values), strict=True):
        expected = None if value is None else avro_of(value)
        assert typed == expected or (expected is not None and str(typed) == str(expected))  # a NaN is not itself
        assert is_bad == (value is not None and expected is None)
        assert raw == (value if is_bad else None)


@given(st.lists(st.binary(max_size=8) | st.binary(max_size=6).map(lambda tail: b"\0" + tail)), st.integers(0, 2))
def test_framing_is_taken_off_wherever_a_value_lies(values: list[bytes], start: int) -> None:
    column = pa.array(values, pa.binary()).slice(start)
    ids = ids_of(column).tolist()
    expected = [int.from_bytes(v[1:5], "big") if len(v) >= 5 and v[0] == 0 else -1 for v in values[start:]]
    assert ids == expected
    framed = column.filter(pa.array([each >= 0 for each in ids], pa.bool_()))
    assert bodies_of(framed).to_pylist() == [value[5:] for value in framed.to_pylist()]
