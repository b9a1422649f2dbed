"""Rows to write: the columns that they may have, and an Arrow batch as records."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pyarrow as pa
import pytest

from penstock.errors import ConfigError
from penstock.spark.write.options import parse
from penstock.spark.write.rows import SinkError, columns_of, destinations, rows_of

HEADERS = "array<struct<key:string,value:binary>>"
HEADER_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def used(types: dict[str, str], **options: str) -> tuple[str, ...]:
    return columns_of(types, parse({"kafka.bootstrap.servers": "a:1", **options}))


def test_what_was_read_from_a_topic_can_be_written_as_it_is() -> None:
    read = {"key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint"}
    read |= {"timestamp": "timestamp", "timestampType": "int", "headers": HEADERS}
    assert used(read) == ("value", "key", "partition", "headers", "topic")
    assert used(read, topic="t", includeHeaders="false") == ("value", "key", "partition")
    assert "timestamp" in used(read, **{"penstock.timestamps": "true"})


@pytest.mark.parametrize(
    ("types", "options", "message"),
    [
        ({"key": "string"}, {"topic": "t"}, "column `value` is missing; the rows have key"),
        ({"value": "bigint"}, {"topic": "t"}, "column `value` is bigint, it must be string or binary"),
        ({"value": "string", "key": "int"}, {"topic": "t"}, "column `key` is int"),
        ({"value": "string", "partition": "bigint"}, {"topic": "t"}, "`partition` is bigint, it must be int"),
        ({"value": "string", "headers": "map<string,string>"}, {"topic": "t"}, "column `headers` is map"),
        ({"value": "string", "topic": "binary"}, {}, "column `topic` is binary, it must be string"),
        ({"value": "string"}, {}, "set the option topic, or add a column `topic`"),
        ({"value": "string"}, {"topic": "t", "penstock.timestamps": "true"}, "there is no column `timestamp`"),
    ],
)
def test_columns_that_cannot_be_written(types: dict[str, str], options: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        used(types, **options)


def test_a_wrong_topic_column_does_not_matter_when_the_option_says_where() -> None:
    assert used({"value": "string", "topic": "int"}, topic="t") == ("value",)


def batch(**columns: Any) -> Any:
    return pa.record_batch(columns)


def test_rows_are_records() -> None:
    headers = pa.array([[], None, [("a", b"1"), ("a", None)], [("b", b"")]], HEADER_TYPE)
    values = pa.array(["zero", None, "two", ""])
    rows = batch(
        value=values, key=pa.array([b"", None, b"k", b"\xff"]), partition=pa.array([None, 1, 2, 0]), headers=headers
    )
    found = list(zip(*rows_of(rows, ("value", "key", "partition", "headers"), "t"), strict=False))
    assert found == [
        ("t", b"zero", b"", -1, 0, None),
        ("t", None, None, 1, 0, None),
        ("t", b"two", b"k", 2, 0, [("a", b"1"), ("a", None)]),
        ("t", b"", b"\xff", 0, 0, [("b", b"")]),
    ]
    cut = rows_of(rows.slice(2, 1), ("value", "headers"), "t")
    assert list(cut.headers) == [[("a", b"1"), ("a", None)]]
    assert list(islice(cut.partitions, 2)) == [-1, -1]


def test_timestamps_are_milliseconds_and_none_is_the_producers_clock() -> None:
    times = pa.array([1_700_000_000_123_456, None], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    rows = rows_of(batch(value=pa.array([b"", b""]), timestamp=times), ("value", "timestamp"), "t")
    assert rows.timestamps_ms == [1_700_000_000_123, 0]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"topic": pa.array(["t", None])}, "a row has no topic"),
        ({"headers": pa.array([[(None, b"")], []], HEADER_TYPE)}, "a header without a key"),
        ({"timestamp": pa.array([-5000, 1]).cast(pa.timestamp("us", tz="UTC"))}, "before 1970"),
    ],
)
def test_rows_that_no_record_can_be(columns: dict[str, Any], message: str) -> None:
    rows = batch(value=pa.array([b"", b""]), **columns)
    with pytest.raises(SinkError, match=message):
        list(zip(*rows_of(rows, ("value", *columns), None if "topic" in columns else "t"), strict=False))


def test_destinations_are_the_extremes_of_each_topic() -> None:
    rows = batch(topic=pa.array(["a", "b", "a"]), partition=pa.array([3, None, -2], pa.int32()))
    assert sorted(destinations(rows, ("topic", "partition"), None)) == [("a", -2, 3), ("b", 0, 0)]
    assert list(destinations(rows, ("topic",), "c")) == [("c", 0, 0)]
    assert list(destinations(rows.slice(0, 0), ("topic",), "c")) == []
