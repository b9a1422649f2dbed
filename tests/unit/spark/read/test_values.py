"""Values as a typed column: what fits, what does not and where it goes, and who fixes the type."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="needs penstock[spark]")
pytest.importorskip("fastavro", reason="needs penstock[avro]")

import fastavro
import pyarrow as pa
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from penstock.errors import ConfigError
from penstock.spark.load.registry import Registry, RegistryError
from penstock.spark.read import values as module
from penstock.spark.read.options import typed_values
from penstock.spark.read.rows import in_pieces
from penstock.spark.read.source import PenstockSource, columns_of
from penstock.spark.read.value_options import ValueOptions
from penstock.spark.read.values import BadValueError, ValuePlan, Values, plan

URL = "http://somebody:secret@registry"
LEAST = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "clicks", "penstock.value.format": "json"}
CLICK = {
    "type": "record",
    "name": "Click",
    "fields": [{"name": "page", "type": "string"}, {"name": "ms", "type": "int"}],
}
NEWER = {
    "type": "record",
    "name": "Click",
    "fields": [
        {"name": "ms", "type": ["null", "double"], "default": None},
        {"name": "user", "type": "string", "default": "nobody"},
        {"name": "path", "type": "string", "aliases": ["page"]},
    ],
}


class FakeRegistry:
    """Answers in the place of the client; an id that is no schema of ours does not exist."""

    def __init__(self, **subjects: Sequence[Any]) -> None:
        self.subjects = subjects
        self.ids: dict[int, Any] = dict(enumerate((each for some in subjects.values() for each in some), 1))
        self.up = True
        self.asked: list[int] = []

    def version(self, subject: str, number: int | None) -> tuple[int, Any]:
        versions = self.subjects[subject]
        return len(versions), [versions[-1 if number is None else number - 1]]

    def schema(self, schema_id: int) -> Any:
        if not self.up:
            raise RegistryError("down")
        self.asked.append(schema_id)
        found = self.ids.get(schema_id)
        return [found] if isinstance(found, dict) else found


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> FakeRegistry:
    fake = FakeRegistry(clicks=[CLICK, NEWER], strings=[{"type": "string"}])
    monkeypatch.setattr(module, "Registry", lambda url, kind: fake)
    module._schema.cache_clear()
    return fake


def options(**more: Any) -> ValueOptions:
    given = {"format": "json", "schema": None, "failfast": False, "registry_url": None, "subject": None}
    return ValueOptions(**{**given, "version": None, **more})


def of_registry(**more: Any) -> ValueOptions:
    return options(**{"format": "avro", "registry_url": URL, "subject": "clicks", **more})


def avro(schema: Any, given: Any, schema_id: int | None = None) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema, named_schemas={}), given)
    return (b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")) + stream.getvalue()


def decoded(planned: ValuePlan, *given: bytes | None) -> list[tuple[Any, Any, Any]]:
    columns = Values(planned).columns("clicks", 3, pa.array(range(100, 100 + len(given))), pa.array(given, pa.binary()))
    assert columns["value"].type == planned.type
    rows = [columns[name].to_pylist() for name in ("value", "value_error", "value_raw")]
    assert {len(column) for column in rows} == {len(given)}
    return list(zip(*rows, strict=True))


def test_json_becomes_a_struct_and_what_has_no_field_is_passed_over_at_any_depth() -> None:
    planned = plan(options(schema="page string, at struct<x: int>, `a b` bigint"))
    rows = decoded(
        planned,
        b'{"page":"/","new":{"deep":[1]},"at":{"x":1,"y":2},"a b":7}',
        b'{"Page":"/","page":null}',
        b'{"page":"/","tags":[{}],"at":{"x":1,"y":null}} ',  # goes the thorough way, for the blank
    )
    assert rows == [
        ({"page": "/", "at": {"x": 1}, "a b": 7}, None, None),
        ({"page": None, "at": None, "a b": None}, None, None),
        ({"page": "/", "at": {"x": 1}, "a b": None}, None, None),
    ]


def test_a_value_that_does_not_fit_is_null_with_the_reason_and_the_bytes_and_a_tombstone_is_null() -> None:
    planned = plan(options(schema="ms bigint"))
    rows = decoded(planned, None, b'{"ms":1}', b"", b'{"ms":"1"}', None, b"\xff", b"[1]", b'{"ms":2}')
    assert [row[0] for row in rows] == [None, {"ms": 1}, None, None, None, None, None, {"ms": 2}]
    assert [row[2] for row in rows] == [None, None, b"", b'{"ms":"1"}', None, b"\xff", b"[1]", None]
    assert rows[3][1] == 'ms: "1" is a string, the column is bigint'
    assert [row[1] is None for row in rows] == [row[2] is None for row in rows]


def test_a_reason_that_quotes_what_is_no_unicode_costs_nothing_but_its_record() -> None:
    rows = decoded(plan(options(schema="ms bigint")), b'{"ms":"\\ud800"}', b'{"ms":1}')
    assert rows[0] == (None, 'ms: "\\ud800" is a string, the column is bigint', b'{"ms":"\\ud800"}')
    assert rows[1] == ({"ms": 1}, None, None)


@pytest.mark.parametrize(
    "value",
    [
        b'{"ms":1,"x":1,"x":2}',
        b'{"ms":1,"x":NaN}',
        b'{"ms":1,"x":[{"y":Infinity}]}',
        b'{"ms":1,"x":{"y":1,"y":2}}',
        b'{"ms":1,"in":{"z":1,"z":NaN}}',
        b'{"ms":1,"x":' + b"1" * 5000 + b"}",
        b'{"ms":1,"in":{"a":1,"a":2}}',
        b'{"ms":1,"in":{"a":NaN}}',
        b'{"ms":1,"tags":["a",NaN]}',
        b'{"ms":1,"ms":null}',
        b'{"ms":NaN}',
        b'{"text":{"y":1,"y":2}}',
        b'{"text":[NaN]}',
    ],
)
def test_what_becomes_of_a_value_does_not_hang_on_its_neighbours(value: bytes) -> None:
    planned = plan(options(schema="ms bigint, in struct<a: double>, tags array<string>, text string"))
    alone = decoded(planned, value)[0]
    assert alone[0] is None or alone[0]["ms"] == 1
    assert decoded(planned, value, b'{"ms":2} ', b"broken")[0] == alone


def test_failfast_names_the_first_bad_record() -> None:
    planned = plan(options(schema="ms bigint", failfast=True))
    assert decoded(planned, None, b'{"ms":1}')[1][0] == {"ms": 1}
    with pytest.raises(BadValueError, match=r"clicks-3, offset 102: ms: .*penstock.value.mode = permissive"):
        decoded(planned, None, b'{"ms":1}', b'{"ms":"x"}', b"broken")


def test_nothing_but_tombstones_or_nothing_but_bad_values_is_rows_too() -> None:
    planned = plan(options(schema="ms bigint"))
    assert decoded(planned, None, None) == [(None, None, None)] * 2
    assert [row[2] for row in decoded(planned, b"x", b"y")] == [b"x", b"y"]
    assert decoded(planned) == []


def test_avro_of_other_versions_is_resolved_to_the_one_that_was_fixed(registry: FakeRegistry) -> None:
    old, new = avro(CLICK, {"page": "/a", "ms": 1}, 1), avro(NEWER, {"ms": None, "user": "u", "path": "/b"}, 2)
    assert decoded(plan(of_registry()), old, new) == [
        ({"ms": 1.0, "user": "nobody", "path": "/a"}, None, None),
        ({"ms": None, "user": "u", "path": "/b"}, None, None),
    ]
    first = plan(of_registry(version=1))
    assert decoded(first, old)[0][0] == {"page": "/a", "ms": 1}
    value, error, raw = decoded(first, new)[0]  # neither has a page, nor does a double fit an int
    assert value is None
    assert "no value of its Avro schema" in str(error)
    assert raw == new


def test_bad_framing_unknown_ids_and_truncated_avro_are_bad_values(registry: FakeRegistry) -> None:
    good = avro(CLICK, {"page": "/a", "ms": 1}, 1)
    registry.ids |= {8: CLICK | {"fields": [{"name": "a", "type": "Nowhere"}]}, 9: "the schema is PROTOBUF, not Avro"}
    bad = [
        b"",
        b"\0\0\0",
        b"\1" + good[1:],
        good[:-1],
        good + b"x",
        b"\0\0\0\0\7" + good[5:],
        b"\0\0\0\0\x09",
        b"\0\0\0\0\x08",
    ]
    rows = decoded(plan(of_registry()), *bad, good)
    assert [row[2] for row in rows] == [*bad, None]
    assert rows[-1][0]["path"] == "/a"
    assert [str(row[1])[:16] for row in rows[:3]] == ["no schema id: th"] * 3
    assert rows[5][1] == "the registry knows no schema 7"
    assert rows[6][1] == "the schema is PROTOBUF, not Avro"
    assert str(rows[7][1]).startswith("an Avro schema that cannot be read")


def test_a_registry_that_is_down_is_an_error_and_makes_no_record_a_bad_one(registry: FakeRegistry) -> None:
    planned = plan(of_registry())
    registry.up = False
    with pytest.raises(RegistryError):
        decoded(planned, avro(CLICK, {"page": "/a", "ms": 1}, 1))
    registry.up = True
    assert decoded(planned, avro(CLICK, {"page": "/a", "ms": 1}, 1))[0][1] is None


def test_an_id_is_asked_for_once_a_worker_and_one_that_does_not_exist_once_a_task(registry: FakeRegistry) -> None:
    planned = plan(of_registry())
    values = [avro(CLICK, {"page": "/a", "ms": 1}, 1), b"\0\0\0\0\7x"] * 3
    decoded(planned, *values)
    assert sorted(registry.asked) == [1, 7]
    decoded(planned, *values)
    assert sorted(registry.asked) == [1, 7, 7]


def test_bare_avro_is_of_the_schema_that_was_given() -> None:
    planned = plan(options(format="avro", schema=json.dumps(CLICK)))
    good = avro(CLICK, {"page": "/a", "ms": 1})
    assert [row[0] for row in decoded(planned, good, None, good[:-1])] == [{"page": "/a", "ms": 1}, None, None]


def test_a_schema_that_is_no_record_is_a_plain_column(registry: FakeRegistry) -> None:
    planned = plan(of_registry(subject="strings"))
    assert planned.type == pa.string()
    assert [row[0] for row in decoded(planned, avro("string", "text", 3), None)] == ["text", None]


def test_json_schema_is_framed_json(registry: FakeRegistry) -> None:
    schema = {"type": "object", "properties": {"page": {"type": "string"}, "ms": {"type": ["null", "integer"]}}}
    registry.subjects["j"] = [schema]
    registry.ids = {1: schema}
    planned = plan(of_registry(format="jsonschema", subject="j"))
    head = b"\0\0\0\0\1"
    rows = decoded(planned, head + b'{"page":"/","ms":1,"x":2}', None, b'{"ms":1}', b"\0\0\0\0\2{}", head, head + b"{}")
    assert [row[0] for row in rows] == [{"page": "/", "ms": 1}, None, None, None, None, {"page": None, "ms": None}]
    assert [row[1] for row in rows[2:5]] == [
        "no schema id: the value does not begin with a zero byte and four more",
        "the registry knows no schema 2",
        "an empty value is no JSON",
    ]


def test_a_schema_of_the_frame_declares_json_and_chooses_fields_of_a_schema(registry: FakeRegistry) -> None:
    declared = StructType().add("ms", LongType()).add("in", StructType().add("x", IntegerType()))
    assert plan(options(), declared).type == pa.struct([("ms", pa.int64()), ("in", pa.struct([("x", pa.int32())]))])
    narrow = plan(of_registry(version=1), StructType().add("page", StringType()))
    assert decoded(narrow, avro(CLICK, {"page": "/a", "ms": 1}, 1)) == [({"page": "/a"}, None, None)]
    for bad, said in (
        (StructType().add("pages", StringType()), "value has no field pages"),
        (StructType().add("ms", LongType()), "value.ms is int, not bigint"),
        (StructType().add("ms", IntegerType(), nullable=False), "value.ms is NOT NULL"),
        (StructType().add("page", StructType().add("x", StringType(), nullable=False)), "value.page.x is NOT NULL"),
        (StringType(), "a struct of typed fields, not string"),
    ):
        with pytest.raises(ConfigError, match=said):
            plan(of_registry(version=1), bad)
    with pytest.raises(ConfigError, match="a_map"):
        plan(options(schema="a_map map<string, int>"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"penstock.value.format": "protobuf"}, "protobuf needs penstock.schema.registry.url .* or .*descriptors"),
        ({"penstock.value.format": "protobuf", "penstock.value.schema": "a int"}, "descriptors names a descriptor set"),
        ({"penstock.value.message": "a.B"}, "message has no meaning with penstock.value.format = json"),
        ({"penstock.value.format": "xml"}, "must be one of json, avro, jsonschema, protobuf"),
        ({"penstock.value.format": "avro"}, "needs penstock.schema.registry.url .* or penstock.value.schema"),
        ({"penstock.value.format": "jsonschema"}, "penstock.schema.registry.url is missing"),
        ({"penstock.schema.registry.url": "http://a"}, "no meaning with penstock.value.format = json"),
        ({"penstock.value.format": "avro", "penstock.schema.registry.url": "a:1"}, "must be a URL"),
        ({"penstock.value.subject": "a"}, "no meaning without penstock.schema.registry.url"),
        ({"penstock.value.version": "0"}, "must be at least 1"),
        ({"penstock.value.mode": "dropmalformed"}, "must be one of permissive, failfast"),
        (
            {"penstock.value.format": "avro", "penstock.schema.registry.url": "http://a", "subscribe": "a,b"},
            "penstock.value.subject or penstock.value.schema is missing",
        ),
        (
            {
                "penstock.value.format": "avro",
                "penstock.schema.registry.url": "http://a",
                "penstock.value.schema": '"string"',
                "penstock.value.version": "1",
            },
            "penstock.value.version and penstock.value.schema exclude each other",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(more: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        typed_values(LEAST | more)


def test_options_of_typed_values_need_a_format() -> None:
    without = {name: text for name, text in LEAST.items() if name != "penstock.value.format"}
    with pytest.raises(ConfigError, match=r"penstock.value.schema has no meaning without penstock.value.format"):
        typed_values(without | {"penstock.value.schema": "a int"})
    with pytest.raises(ConfigError, match=r"name its format with penstock.value.format"):
        columns_of(StructType().add("value", StructType().add("a", LongType())))


def test_columns_for_what_does_not_fit_are_there_unless_it_is_an_error() -> None:
    source = PenstockSource(LEAST | {"penstock.value.schema": "ms bigint"})
    assert source.schema().simpleString() == (
        "struct<key:binary,value:struct<ms:bigint>,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,value_error:string,value_raw:binary>"
    )
    source = PenstockSource(LEAST | {"penstock.value.schema": "ms bigint", "penstock.value.mode": "FAILFAST"})
    assert source.schema().names[-1] == "timestampType"
    with pytest.raises(ConfigError, match="there is no column value_error"):
        source.reader(StructType().add("value_error", StringType()))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{", "must be an Avro schema, which is JSON"),
        ('{"type": "record"}', "an Avro schema that cannot be read"),
        ('{"type": "what"}', "an Avro schema that cannot be read"),
    ],
)
def test_an_avro_schema_that_is_none_is_refused(given: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        plan(options(format="avro", schema=given))


@pytest.mark.parametrize(
    "url",
    [
        "ftp://somebody:secret@127.0.0.1:1",
        "ftp://somebody:secret@127.0.0.1:1,ftp://another:secret@127.0.0.1:1",
        "ftp://127.0.0.1:1/?token=secret",
    ],
)
def test_no_message_tells_the_registrys_password(url: str) -> None:
    with pytest.raises(RegistryError) as failed:
        Registry(url).version("clicks-value", None)
    assert "127.0.0.1:1" in str(failed.value)
    assert "secret" not in str(failed.value)
    with pytest.raises(ConfigError, match=r"^option penstock.schema.registry.url must be a URL") as refused:
        typed_values(LEAST | {"penstock.schema.registry.url": url})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(("code", "is_known"), [(40403, True), (-1, False), (None, False), (404, False)])
def test_what_a_proxy_does_not_find_is_not_what_the_registry_does_not_know(code: Any, is_known: bool) -> None:
    from confluent_kafka.schema_registry.error import SchemaRegistryError

    def question() -> None:
        raise SchemaRegistryError(404, code, "not found")

    if is_known:
        assert Registry(URL)._ask(question) is None
    else:
        with pytest.raises(RegistryError):
            Registry(URL)._ask(question)


def test_batches_are_cut_by_rows_and_by_bytes_and_a_large_row_goes_alone() -> None:
    def sizes(rows: int, row_bytes: int) -> list[int]:
        return [each.num_rows for each in in_pieces(pa.record_batch({"value": [b"x" * row_bytes] * rows}))]

    assert sizes(25_000, 8) == [10_000, 10_000, 5_000]
    assert max(sizes(3_000, 1_000)) == 1044  # 4 bytes of an offset beside each kilobyte, in a mebibyte
    assert sizes(2, 2 << 20) == [1, 1]
    assert sizes(0, 1) == []
