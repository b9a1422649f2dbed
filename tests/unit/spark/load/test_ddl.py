"""Declared columns, as Spark users write them."""

from __future__ import annotations

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.errors import ConfigError
from penstock.spark.load.formats.ddl import parse_ddl


def test_every_type_and_spelling() -> None:
    text = (
        "a string, b: BIGINT, `odd name` int NOT NULL, c decimal(6, 2) COMMENT 'in euros, net', "
        "d array<struct<x: double, `y z`: boolean>>, e date, f timestamp, g struct<h array<tinyint>>"
    )
    assert [f"{each.name}: {each.type}" for each in parse_ddl(text)] == [
        "a: string",
        "b: int64",
        "odd name: int32",
        "c: decimal128(6, 2)",
        "d: list<item: struct<x: double, y z: bool>>",
        "e: date32[day]",
        "f: timestamp[us, tz=UTC]",
        "g: struct<h: list<item: int8>>",
    ]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a column's name is missing at the end"),
        ("a", "a type is missing at the end"),
        ("a strin", "strin is no type of a JSON column; these are: boolean"),
        ("a string b string", "',' was expected, not 'b'"),
        ("a string,", "a column's name is missing at the end"),
        ("a array<string", "'>' was expected, not the end"),
        ("a string, A int", "the column a is there twice"),
        ("a decimal(39)", r"decimal\(39, 0\) cannot be"),
        ("a array<date>", "declare it as string"),
        ("a map<string, int>", "map is no type"),
        ("'a' string, \"", "not understood from"),
    ],
)
def test_what_is_wrong_is_named(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        parse_ddl(text)
