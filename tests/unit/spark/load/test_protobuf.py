"""Protobuf values as columns: types, presence, framing with message indexes, versions, and what does not fit."""

from __future__ import annotations

import datetime
from base64 import b64encode
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("google.protobuf", reason="needs penstock[spark]")

import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from support.protobuf import ORDER, ORDERS, REFUND, Field, as_base64, descriptor_set, field, file, framed, message, of

from penstock.errors import ConfigError
from penstock.spark.limits import PROTOBUF_PATHS_KEPT
from penstock.spark.load.formats.format import Rejected
from penstock.spark.load.formats.protobuf import ProtobufFormat, files_of, path_of
from penstock.spark.load.formats.protobuf_types import Files, columns_of_message, files_of_set
from penstock.spark.load.registry import NO_DESCRIPTORS, PROTOBUF, Registry, named_descriptor

BUNDLE = [as_base64(ORDERS)]
COLUMNS = columns_of_message(files_of(BUNDLE).message("shop.Order"))
Order, Refund = of(ORDERS, "shop.Order"), of(ORDERS, "shop.Refund")


def reading(schemas: Mapping[int, Any] | None = None, *names: str) -> ProtobufFormat:
    columns = pa.schema([COLUMNS.field(name) for name in names]) if names else COLUMNS
    return ProtobufFormat(columns, (BUNDLE, "shop.Order"), schemas)


def one(value: bytes, schemas: Mapping[int, Any] | None = None) -> Any:
    """The row of one value, or why it was rejected."""
    parsed = reading(schemas).parse("t", pa.array([value], pa.binary()))
    return parsed.rejected[0] if parsed.rejected else parsed.columns.to_pylist()[0]


def test_every_kind_of_field_has_a_column() -> None:
    assert {each.name: str(each.type) for each in COLUMNS} == {
        "page": "string", "note": "string", "at": "timestamp[us, tz=UTC]", "took": "duration[us]", "status": "string",
        "tags": "list<item: string>", "by": "map<string, int32>", "who": "struct<id: int64>",
        "big": "decimal128(20, 0)", "child": "string", "price": "double", "more": "string", "data": "binary",
        "small": "int64",
    }  # fmt: skip
    value = Order(page="/\u00e9", at={"seconds": -1, "nanos": 5000}, status=7, tags=["a", "b"], big=2**64 - 1)
    value.child.page, value.price.value, value.data, value.small = "inner", 0.0, b"\0\xff", 2**32 - 1
    value.more["x"] = [1, None]
    value.by["k"] = 2
    row = one(value.SerializeToString())
    assert row == {
        "page": "/\u00e9", "note": None, "at": datetime.datetime(1969, 12, 31, 23, 59, 59, 5, datetime.UTC),
        "took": None, "status": "7", "tags": ["a", "b"], "by": [("k", 2)], "who": None, "big": 2**64 - 1,
        "child": '{"page":"inner"}', "price": 0.0, "more": '{"x":[1.0,null]}', "data": b"\0\xff", "small": 2**32 - 1,
    }  # fmt: skip


def test_without_presence_a_field_that_is_not_set_has_its_default() -> None:
    row = one(b"")
    assert (row["page"], row["note"], row["status"], row["tags"], row["by"]) == ("", None, "NEW", [], [])
    assert one(Order(note="").SerializeToString())["note"] == ""


@pytest.mark.parametrize(
    ("path", "said"),
    [(b"\0", None), (b"\2\0", None), (b"\2\2", "the value is a shop.Refund, the column is of shop.Order")],
)
def test_the_message_indexes_say_which_message_it_is(path: bytes, said: str | None) -> None:
    row = one(framed(3, Order(page="/"), path), {3: BUNDLE})
    assert row == said if said else row["page"] == "/"


def test_nested_messages_have_paths() -> None:
    parsed = ProtobufFormat(pa.schema([("id", pa.int64())]), (BUNDLE, "shop.Order.Who"), {3: BUNDLE})
    who = of(ORDERS, "shop.Order.Who")(id=9)
    found = parsed.parse("t", pa.array([framed(3, who, b"\4\0\2")], pa.binary()))
    assert found.columns.to_pylist() == [{"id": 9}]


def test_versions_are_read_by_field_numbers() -> None:
    newer = file(message("Order", field(1, "path", Field.TYPE_STRING), field(99, "extra", Field.TYPE_INT32)))
    value = of(newer, "shop.Order")(path="/new", extra=5)
    row = one(framed(4, value, b"\0"), {4: [as_base64(newer)]})
    assert (row["page"], row["note"]) == ("/new", None)


def test_imports_are_given_before_and_well_known_ones_need_not_be() -> None:
    base = file(message("Item", field(1, "name", Field.TYPE_STRING)), name="base.proto")
    user = file(
        message("Cart", field(1, "items", Field.TYPE_MESSAGE, of="shop.Item", repeated=True)),
        name="cart.proto",
        imports=("base.proto",),
    )
    both = [as_base64(base), as_base64(user)]
    columns = columns_of_message(files_of(both).message(None))
    assert str(columns.field("items").type) == "list<item: struct<name: string>>"
    assert [b64encode(each).decode() for each in files_of_set(descriptor_set(base, user))] == both
    with pytest.raises(ConfigError, match=r"no descriptors of Protobuf that fit together.*base.proto"):
        files_of(both[1:])


def test_what_a_schema_of_a_registry_imports_is_asked_for_and_named_as_it_is_imported() -> None:
    base = file(message("Item", field(1, "name", Field.TYPE_STRING)), name="")
    user = file(
        message("Cart", field(1, "item", Field.TYPE_MESSAGE, of="shop.Item")), name="default", imports=("a/base.proto",)
    )
    asked = []

    def get_version(subject: str, version: int, fmt: str | None) -> Any:
        asked.append((subject, version, fmt))
        return SimpleNamespace(schema=told(base))

    def told(schema: Any, *references: Any) -> Any:
        return SimpleNamespace(schema_type="PROTOBUF", references=references, schema_str=as_base64(schema))

    reference = SimpleNamespace(name="a/base.proto", subject="base", version=3)
    registry = Registry("http://registry", PROTOBUF)
    bundle = registry._bundle(SimpleNamespace(get_version=get_version), told(user, reference))
    assert not isinstance(bundle, str)
    assert asked == [("base", 3, "serialized")]
    columns = columns_of_message(files_of(bundle).message("shop.Cart"))
    assert str(columns.field("item").type) == "struct<name: string>"


GOOD = framed(3, Order(page="/"), b"\0")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (b"", "no schema id"),
        (b"\0\0\0\0\3", "no message indexes"),
        (b"\0\0\0\0\3\x80\x80\x80\x80\x80\x80", "no message indexes"),
        (b"\0\0\0\0\3\1", "the list of message indexes has -1"),
        (b"\0\0\0\0\3\2\1", "a message index is -1"),
        (b"\0\0\0\0\3\2\x7e", "the schema has no message with the indexes [63]"),
        (b"\0\0\0\0\3\xfe\xff\xff\xff\x0f", "the list of message indexes has"),
        (b"\1" + GOOD[1:], "no schema id"),
        (GOOD[:-1], "no value of its Protobuf schema"),
        (GOOD + b"\xff", "no value of its Protobuf schema"),
        (b"\0\0\0\0\7\0", "the registry knows no schema 7"),
        (b"\0\0\0\0\x08\0", "the schema is AVRO"),
        (b"\0\0\0\0\x09\0", "schema 9: these are no descriptors"),
    ],
)
def test_what_is_no_such_value_is_rejected_and_the_others_stay(value: bytes, said: str) -> None:
    schemas = {3: BUNDLE, 8: "the schema is AVRO, not Protobuf", 9: [b64encode(b"\xff").decode()]}
    found = reading({**schemas, 7: None}, "page").parse("t", pa.array([GOOD, value, GOOD], pa.binary()))
    assert found.rejected[1].startswith(said)
    assert found.kept is not None
    assert (found.kept.to_pylist(), found.columns.to_pylist()) == ([0, 2], [{"page": "/"}] * 2)


def test_a_time_that_no_column_holds_is_rejected() -> None:
    assert str(one(Order(at={"seconds": 2**62}).SerializeToString())).startswith("a timestamp is out of range")


def test_what_is_no_schema_is_refused() -> None:
    for content in (b"", b"\xff"):
        with pytest.raises(ConfigError):
            files_of_set(content)
    with pytest.raises(ConfigError, match=r"there is no message shop.Odor \(those of orders.proto: shop.Order, shop.R"):
        files_of(BUNDLE).message("shop.Odor")
    with pytest.raises(ConfigError, match="has no message"):
        Files([file(name="none.proto").SerializeToString()]).message(None)
    with pytest.raises(ConfigError, match=r"message shop\.Empty has no fields"):
        columns_of_message(Files([file(message("Empty")).SerializeToString()]).message(None))


def test_a_registrys_text_is_told_from_descriptors() -> None:
    assert named_descriptor('syntax = "proto3"; message A { int32 b = 1; }', None) is None
    assert "penstock.value.descriptors" in NO_DESCRIPTORS
    named = named_descriptor(as_base64(file(ORDER, REFUND, name="")), "a/b.proto")
    assert named is not None
    assert files_of([named]).message(None).file.name == "a/b.proto"


def parsed(schema: Any, name: str, *values: bytes) -> tuple[Any, Mapping[int, str]]:
    """The rows of bare values of a message, and what was rejected."""
    bundle = [as_base64(schema)]
    found = ProtobufFormat(columns_of_message(files_of(bundle).message(name)), (bundle, name), None).parse(
        "t", pa.array(values, pa.binary())
    )
    return found.columns.to_pylist(), found.rejected


def nested(depth: int, width: int = 1) -> Any:
    """Messages that each have `width` fields of the next one, `depth` of them."""
    kinds = [
        message(
            f"M{level}",
            *(field(n + 1, f"f{n}", Field.TYPE_MESSAGE, of=f"shop.M{level + 1}") for n in range(width)),
        )
        for level in range(depth)
    ]
    return file(*kinds, message(f"M{depth}", field(1, "x", Field.TYPE_INT32)))


def test_deep_messages_cost_no_more_than_their_fields() -> None:
    """Each level once: what took twice the time a level would not end here."""
    rows, _ = parsed(nested(40), "shop.M0", b"")
    assert rows == [{"f0": None}]


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (nested(400), "message shop.M0 has messages more than 50 deep"),
        (nested(30, width=2), "message shop.M0 has more than 20000 fields, with those of the messages in it"),
    ],
    ids=["deep", "wide"],
)
def test_too_many_columns_are_refused(schema: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parsed(schema, "shop.M0")


@pytest.mark.parametrize("name", ["HasField", "ParseFromString", "FromString", "IsInitialized", "DESCRIPTOR"])
def test_a_field_may_have_the_name_of_a_method(name: str) -> None:
    schema = file(message("A", field(1, name, Field.TYPE_STRING, optional=True)))
    assert parsed(schema, "shop.A", b"\x0a\x01a", b"") == ([{name: "a"}, {name: None}], {})


@pytest.mark.parametrize(
    ("known", "its"),
    [
        ("Timestamp", field(1, "sec", Field.TYPE_INT64)),
        ("Duration", field(1, "seconds", Field.TYPE_INT64, repeated=True)),
        ("BytesValue", field(1, "v", Field.TYPE_BYTES)),
        ("Int32Value", field(1, "value", Field.TYPE_MESSAGE, of="google.protobuf.Int32Value")),
    ],
)
def test_who_takes_a_name_of_protobufs_own_is_refused(known: str, its: Any) -> None:
    own = FileDescriptorProto(name="own.proto", package="google.protobuf", message_type=[message(known, its)])
    user = FileDescriptorProto(name="user.proto", package="shop", dependency=["own.proto"])
    user.message_type.append(message("A", field(1, "it", Field.TYPE_MESSAGE, of=f"google.protobuf.{known}")))
    with pytest.raises(ConfigError, match=f"google.protobuf.{known} is not the message that Protobuf has of this name"):
        columns_of_message(files_of([as_base64(own), as_base64(user)]).message("shop.A"))


def test_of_several_names_of_a_number_the_first_counts() -> None:
    schema = file(message("A", field(1, "e", Field.TYPE_ENUM, of="shop.Alias")))
    names = schema.enum_type.add(name="Alias")
    names.options.allow_alias = True
    for name, number in (("NONE", 0), ("FIRST", 1), ("SECOND", 1)):
        names.value.add(name=name, number=number)
    assert parsed(schema, "shop.A", b"\x08\x01") == ([{"e": "FIRST"}], {})


def test_hostile_descriptors_are_refused_in_words() -> None:
    entry = message("E", field(1, "k", Field.TYPE_STRING), field(2, "value", Field.TYPE_INT32))
    entry.options.map_entry = True
    schema = file(message("A", field(1, "by", Field.TYPE_MESSAGE, of="shop.A.E", repeated=True), nested=(entry,)))
    with pytest.raises(ConfigError, match=r"shop\.A\.E is no entry of a map"):
        parsed(schema, "shop.A")
    with pytest.raises(ConfigError, match="no descriptors of Protobuf that fit together"):
        Files([ORDERS.SerializeToString().replace(b"orders.proto", b"orders.prot\xff")])


def test_paths_are_not_remembered_without_end() -> None:
    """One path has many encodings, and ids that nobody knows cost nothing to make up."""
    format_ = reading({3: BUNDLE}, "page")
    values = [b"\0" + number.to_bytes(4, "big") + b"\0" for number in range(4, 4 + 3 * PROTOBUF_PATHS_KEPT)]
    found = format_.parse("t", pa.array([*values, GOOD], pa.binary()))
    assert (len(found.rejected), found.columns.to_pylist()) == (len(values), [{"page": "/"}])
    assert len(format_._heads) <= PROTOBUF_PATHS_KEPT
    assert len(format_._files) <= PROTOBUF_PATHS_KEPT


@given(st.binary(max_size=40))
def test_no_bytes_do_worse_than_be_rejected(content: bytes) -> None:
    one(content)
    one(b"\0\0\0\0\3" + content, {3: BUNDLE})
    try:
        path, end = path_of(b"\0\0\0\0\3" + content)
    except Rejected:
        return
    assert end <= 5 + len(content)
    assert all(index >= 0 for index in path)
