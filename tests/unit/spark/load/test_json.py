"""JSON values as columns: what becomes a row, what is rejected and why, what is reported as new."""

from __future__ import annotations

import decimal
import json
import random
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

import pyarrow as pa

from penstock.spark.load.formats.ddl import parse_ddl
from penstock.spark.load.formats.format import Parsed
from penstock.spark.load.formats.json import JsonFormat

CLICKS = "page string, ms bigint, share double, seen boolean"


def parse(*values: bytes | None, schema: str = CLICKS, **more: bool) -> Parsed:
    return JsonFormat(parse_ddl(schema), **more).parse("clicks", pa.array(values, pa.binary()))


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    return [{k: v for k, v in row.items() if v is not None} for row in parsed.columns.to_pylist()]


def reason(*values: bytes, schema: str = CLICKS, **more: bool) -> str:
    """Why the last value is rejected; those before it must fit."""
    parsed = parse(*values, schema=schema, **more)
    assert list(parsed.rejected) == [len(values) - 1], parsed
    assert parsed.columns.num_rows == len(values) - 1
    return parsed.rejected[len(values) - 1]


def test_objects_become_rows() -> None:
    parsed = parse(b'{"page":"/","ms":7,"share":1,"seen":true}', b'{"ms":8}', b"{}", b' {"page":null,\n"ms":9} ')
    assert rows(parsed) == [{"page": "/", "ms": 7, "share": 1.0, "seen": True}, {"ms": 8}, {}, {"ms": 9}]
    assert (parsed.kept, parsed.rejected, parsed.unknown) == (None, {}, {})


def test_a_tombstone_is_a_row_of_nulls_in_its_place() -> None:
    parsed = parse(b'{"ms":1}', None, b'{"ms":2}', None, b"no", None)
    assert rows(parsed) == [{"ms": 1}, {}, {"ms": 2}, {}, {}]
    assert parsed.kept.to_pylist() == [0, 1, 2, 3, 5]
    assert list(parsed.rejected) == [4]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "an empty value is no JSON"),
        (b"nonsense", "no valid JSON"),
        (b'{"ms":1', "no valid JSON"),
        (b'{"ms":1}{"ms":2}', "no valid JSON: Extra data"),
        (b"[1]", "a JSON array, not an object"),
        (b"null", "a JSON null, not an object"),
        (b'{"ms":1.0}', "ms: 1.0 is a number, the column is bigint"),
        (b'{"ms":"1"}', 'ms: "1" is a string, the column is bigint'),
        (b'{"ms":true}', "ms: true is a boolean, the column is bigint"),
        (b'{"ms":9223372036854775808}', "ms: 9223372036854775808 is a whole number, the column is bigint"),
        (b'{"page":1}', "page: 1 is a whole number, the column is string"),
        (b'{"share":NaN}', "no valid JSON: NaN"),
        (b'{"share":1e400}', "share: Infinity is a number, the column is double"),
        (b'{"ms":1,"ms":2}', "ms: the field is given twice"),
        (b'{"Ms":1}', "Ms: differs only in capitals from the column ms"),
        (b'{"page":"\xff"}', "no valid UTF-8"),
        (b'{"page":"a\x01"}', "no valid JSON: Invalid control character"),
        (b'{"page":"\\ud800"}', "no valid Unicode"),
        (b'{"page":' + b"[" * 100_000 + b"}", "nested too deeply"),
        (b'{"page":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "nested too deeply"),
    ],
)
def test_what_does_not_fit_is_rejected_with_the_reason(value: bytes, why: str) -> None:
    assert why in reason(b'{"ms":1}', value)


@pytest.mark.parametrize(
    ("schema", "form"),
    [
        ("a decimal(10, 2)", b'{"a":%s}'),
        ("a struct<n: decimal(10, 2)>", b'{"a":{"n":%s}}'),
        ("a array<decimal(10, 2)>", b'{"a":[%s]}'),
    ],
)
def test_a_decimal_with_too_many_digits_is_rejected_also_with_an_exponent(schema: str, form: bytes) -> None:
    assert "does not fit" in reason(form % b"1.5", form % b"1.2345678e8", schema=schema)


@pytest.mark.parametrize("ignore", [False, True])
def test_a_decimal_keeps_its_digits_beside_what_does_not_fit(ignore: bool) -> None:
    digits = "12345678901234567890.1234567891"
    value = f'{{"a":{digits},"b":[{{"n":{digits}}}],"c":0.5}}'.encode()
    schema = "a decimal(38, 10), b array<struct<n: decimal(38, 10)>>, c double"
    parsed = parse(value, b"{} ", b"broken", b'{"a":1.5e1}', schema=schema, ignore_fields=ignore)
    exact = decimal.Decimal(digits)
    assert rows(parsed) == [{"a": exact, "b": [{"n": exact}], "c": 0.5}, {}, {"a": decimal.Decimal(15)}]
    assert reason(b'{"a":1.00000000001}', schema=schema) == "a: 1.00000000001 does not fit decimal128(38, 10)"
    assert reason(b"1.5", schema=schema) == "a JSON number, not an object"


def test_values_cannot_run_into_each_other() -> None:
    """Each pair is valid JSON when it is joined, and one record must not make up for another."""
    for pair in (
        [b'{"page":', b'"x"}'],
        [b'{"page":"a', b'b"}'],
        [b'{"ms":1}{"ms":2}', b""],
        [b'{"ms":1}null{}', b"{"],
    ):
        parsed = parse(*pair, b'{"ms":3}')
        assert rows(parsed) == [{"ms": 3}]
        assert list(parsed.rejected) == [0, 1]


def test_new_fields_are_reported_with_the_type_that_holds_all_of_them() -> None:
    parsed = parse(
        b'{"ms":1,"a":1,"b":true,"c":"x","d":1,"e":[1],"n":null,"t":"2026-01-31T08:00:00Z"}',
        b'{"a":2.5,"b":false,"d":"1","f":{"g":1},"h":9223372036854775808}',
    )
    assert {name: str(kind) for name, kind in parsed.unknown.items()} == {
        "a": "double", "b": "bool", "c": "string", "d": "string", "e": "string", "f": "string", "h": "double",
        "t": "string",
    }  # fmt: skip


def test_new_fields_are_rejected_when_the_table_must_not_change() -> None:
    assert reason(b'{"ms":1}', b'{"other":1}', add_fields=False) == "other: the table has no such column"


def test_nested_values_of_a_string_column_are_json_text() -> None:
    parsed = parse(b'{"page":{"a":[1,2.50,"\xc3\xa9"],"b":null}}', b'{"page":"/"}', b'{"page":[]}')
    assert [row["page"] for row in rows(parsed)] == ['{"a":[1,2.5,"é"],"b":null}', "/", "[]"]


def test_fields_named_as_the_records_columns_get_a_prefix_and_odd_names_get_underscores() -> None:
    parsed = parse(b'{"Offset":1,"key":"k","two words":2,"":3}', schema="page string")
    assert sorted(parsed.unknown) == ["_", "two_words", "value_Offset", "value_key"]
    schema = "value_key string, two_words bigint"
    assert rows(parse(b'{"key":"k"}', schema=schema)) == [{"value_key": "k"}]
    assert rows(parse(b'{"key":"k","two words":2}', schema=schema)) == [{"value_key": "k", "two_words": 2}]
    assert "the column two_words is given twice" in reason(b'{"two words":2,"two_words":2}', schema=schema)


def test_declared_structs_arrays_dates_and_decimals() -> None:
    schema = "user struct<id: bigint, tags: array<string>>, day date, at timestamp, price decimal(6,2)"
    parsed = parse(
        b'{"user":{"id":1,"tags":["a"]},"day":"2026-01-31","at":"2026-01-31T09:00:00+01:00","price":1.5}', schema=schema
    )
    (row,) = rows(parsed)
    assert row["user"] == {"id": 1, "tags": ["a"]}
    assert [str(row[name]) for name in ("day", "at", "price")] == ["2026-01-31", "2026-01-31 08:00:00+00:00", "1.50"]
    assert 'user: {"id": 1, "more": 2} does not fit struct' in reason(b'{"user":{"id":1,"more":2}}', schema=schema)
    assert 'day: "soon" does not fit date32' in reason(b"{}", b'{"day":"soon"}', schema=schema)
    assert 'at: "soon" does not fit timestamp' in reason(b"{}", b'{"at":"soon"}', schema=schema)


def test_few_bad_records_in_a_large_block_are_found_and_all_others_kept() -> None:
    chance = random.Random(7)
    bad = set(chance.sample(range(20_000), 25))
    values = [b'{"ms":"x"}' if i in bad else b'{"page":"/%d","ms":%d}' % (i, i) for i in range(20_000)]
    parsed = parse(*values)
    assert set(parsed.rejected) == bad
    assert parsed.columns.column("ms").to_pylist() == [i for i in range(20_000) if i not in bad]
    assert parsed.kept.to_pylist() == [i for i in range(20_000) if i not in bad]


def test_the_fast_way_and_the_thorough_way_give_the_same() -> None:
    chance = random.Random(3)
    choices: list[Any] = [None, 0, -1, 2**62, 1.5, "x", "é\n", True, [], {"a": 1}]
    values = []
    for _ in range(500):
        names = chance.sample(["page", "ms", "share", "seen"], chance.randrange(5))
        values.append(json.dumps({name: chance.choice(choices) for name in names}).encode())
    one_by_one = [parse(value) for value in values]
    together = parse(*values)
    assert rows(together) == [row for each in one_by_one for row in rows(each)]
    assert together.rejected == {i: each.rejected[0] for i, each in enumerate(one_by_one) if each.rejected}
    assert 0 < len(together.rejected) < 500


def test_a_table_without_value_columns_keeps_the_count_of_rows() -> None:
    parsed = JsonFormat(pa.schema([])).parse("clicks", pa.array([b"{}", b"{}", None], pa.binary()))
    assert parsed.columns.num_rows == 3
