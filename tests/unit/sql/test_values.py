"""Columns of JSON values, results as text, errors as one line."""

from __future__ import annotations

import io
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.errors import RequestError
from penstock.sql.engine import Result, one_line
from penstock.sql.output import OutputError, table_cell, table_rows, write_csv, write_json, write_parquet
from penstock.sql.values import learnt, quoted, view


def result(**columns: Any) -> Result:
    table = pa.table(columns)
    return Result(tuple(table.schema.names), table.schema, iter(table.to_batches(max_chunksize=2)))


def test_types_of_a_sample_are_widened() -> None:
    structure = '{"n": "UBIGINT", "gone": "NULL", "in": {"a": ["UBIGINT"], "empty": {}}}'
    assert learnt("t", structure, 9) == {"n": "BIGINT", "gone": "JSON", "in": {"a": ["BIGINT"], "empty": "JSON"}}


@pytest.mark.parametrize("structure", ['"JSON"', '["UBIGINT"]', '"VARCHAR"', None])
def test_values_that_are_no_objects_have_no_columns(structure: str | None) -> None:
    with pytest.raises(RequestError, match=r'json."a.b" has columns where values are JSON objects'):
        learnt("a.b", structure, 5)


def test_a_field_with_the_name_of_a_records_column_gets_another() -> None:
    text = view('a"b', {"Offset": "BIGINT", "page": "VARCHAR", "it's": "JSON"}, ["offset", "value"])
    assert 'view json."a""b"' in text
    assert 'shaped."Offset" as "value_Offset", shaped."page" as "page", shaped."it\'s" as "it\'s"' in text
    assert "it''s" in text
    assert quoted('a"b') == '"a""b"'


MIXED: dict[str, Any] = {
    "text": ["a,b", None, "c\nd"],
    "data": [b"utf-8", b"\xff\x00", None],
    "at": pa.array([datetime(2026, 1, 31, 8, tzinfo=UTC), None, None], pa.timestamp("us", tz="UTC")),
    "number": [Decimal("12"), Decimal("1.5"), None],
    "nested": [{"x": [1, 2]}, None, {"x": []}],
    "day": [date(2026, 1, 31), None, None],
    "ratio": [0.5, float("nan"), None],
    "yes": [True, False, None],
}


def test_rows_as_csv() -> None:
    out = io.StringIO()
    assert write_csv(result(**MIXED), out) == 3
    assert out.getvalue().split("\n")[:3] == [
        "text,data,at,number,nested,day,ratio,yes",
        '"a,b",utf-8,2026-01-31T08:00:00Z,12,"{""x"": [1, 2]}",2026-01-31,0.5,true',
        ",\\xff00,,1.5,,,nan,false",
    ]


def test_rows_as_json_lines() -> None:
    out = io.StringIO()
    assert write_json(result(**MIXED), out) == 3
    assert out.getvalue().splitlines()[0] == (
        '{"text": "a,b", "data": "utf-8", "at": "2026-01-31T08:00:00Z", "number": 12, "nested": {"x": [1, 2]}, '
        '"day": "2026-01-31", "ratio": 0.5, "yes": true}'
    )
    assert '"data": {"base64": "/wA="}' in out.getvalue().splitlines()[1]


def test_a_table_says_whether_there_is_more() -> None:
    assert table_rows(result(n=[1, 2, 3]), 3) == ([["1"], ["2"], ["3"]], False)
    assert table_rows(result(n=[1, 2, 3, 4, 5]), 3) == ([["1"], ["2"], ["3"]], True)
    assert table_rows(result(n=[1, 2, 3]), 2) == ([["1"], ["2"]], True)
    assert table_rows(result(n=[1, 2]), 2) == ([["1"], ["2"]], False)
    assert table_cell("x" * 200) == "x" * 79 + "…"
    assert table_cell("a\tb\x1b[31m") == "a b [31m"


def test_a_parquet_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "rows.parquet"
    assert write_parquet(result(**MIXED), target) == 3
    assert pq.read_table(target).column("data").to_pylist() == MIXED["data"]

    def breaking() -> Any:
        yield from result(n=[1, 2]).batches
        raise OutputError("the query failed")

    with pytest.raises(OutputError, match="the query failed"):
        write_parquet(Result(("n",), pa.schema([("n", pa.int64())]), breaking()), tmp_path / "half.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["rows.parquet"]


def test_an_error_is_one_line_with_the_place_of_the_mistake() -> None:
    message = 'Binder Error: no "x" here!\nCandidates: "y"\n\nLINE 2:   x from t\n          ^'
    assert one_line(Exception(message)) == 'Binder Error: no "x" here! Candidates: "y" (line 2, column 3)'
    assert one_line(Exception("Out of Memory\n  really")) == "Out of Memory really"
