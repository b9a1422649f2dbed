"""What a filter leaves to be read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.sql.bounds import TIME_MAX_US, TIME_MIN_US, Filter, first
from penstock.sql.topics import SCHEMA

PARTITION, OFFSET, TIME = ds.field("partition"), ds.field("offset"), ds.field("timestamp")


def at(microseconds: int) -> Any:
    return pa.scalar(microseconds, pa.timestamp("us", tz="UTC"))


def as_duckdb_says_in(column: Any, values: list[int]) -> Any:
    return pc.if_else(column.is_valid(), column.isin(values), pa.scalar(None, pa.bool_()))


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        (None, (10, 90)),
        (OFFSET >= 50, (50, 90)),
        (OFFSET > 50, (51, 90)),
        (OFFSET < 50, (10, 50)),
        (OFFSET == 50, (50, 51)),
        ((OFFSET >= 20) & (OFFSET <= 30), (20, 31)),
        ((OFFSET == 20) | (OFFSET == 60), (20, 61)),
        (as_duckdb_says_in(OFFSET, [20, 60]), (20, 61)),
        (OFFSET < 5, (90, 90)),
        (OFFSET > 500, (90, 90)),
        ((PARTITION == 3) & (OFFSET > 80), (81, 90)),
        (PARTITION == 4, (10, 10)),
        (as_duckdb_says_in(PARTITION, [1, 2]), (10, 10)),
        (as_duckdb_says_in(PARTITION, [1, 3]), (10, 90)),
        ((PARTITION == 4) | (OFFSET < 20), (10, 20)),
        ((OFFSET < 20) & ds.field("key").is_valid(), (10, 20)),
        (ds.field("key") == b"offset", (10, 90)),
        (pc.bit_wise_and(OFFSET, 1) == 1, (10, 90)),
    ],
)
def test_the_offsets_of_partition_3_from_10_to_90_that_must_be_read(expression: Any, expected: tuple[int, int]) -> None:
    low, high = Filter(expression, SCHEMA).offsets(3, 10, 90)
    assert (low, high) == expected or (low == high and expected[0] == expected[1])


def test_the_times_that_a_filter_leaves() -> None:
    assert Filter(OFFSET > 4, SCHEMA).times_us() == (TIME_MIN_US, TIME_MAX_US)
    assert Filter(at(5_000_000) <= TIME, SCHEMA).times_us() == (5_000_000, TIME_MAX_US)
    assert Filter((at(5_000) < TIME) & (at(9_000) > TIME), SCHEMA).times_us() == (5_001, 8_999)
    assert Filter((at(5_000) < TIME) | (OFFSET < 3), SCHEMA).times_us() == (TIME_MIN_US, TIME_MAX_US)


NUMBERS = st.integers(0, 12)
COMPARISONS = st.tuples(
    st.sampled_from(["partition", "offset"]), st.sampled_from(["<", "<=", "==", ">=", ">"]), NUMBERS
)


def expression_of(comparison: tuple[str, str, int]) -> Any:
    name, operator, number = comparison
    field = ds.field(name)
    by_operator = {"<": field < number, "<=": field <= number, "==": field == number, ">=": field >= number}
    return by_operator.get(operator, field > number)


@settings(max_examples=60)
@given(st.lists(st.tuples(COMPARISONS, st.booleans()), min_size=1, max_size=4))
def test_no_row_that_passes_is_left_out(parts: list[tuple[tuple[str, str, int], bool]]) -> None:
    expression = expression_of(parts[0][0])
    for comparison, both in parts[1:]:
        expression = expression & expression_of(comparison) if both else expression | expression_of(comparison)
    rows = pa.table({"partition": pa.array([2] * 10, pa.int32()), "offset": pa.array(range(10))})
    passing = rows.filter(expression).column("offset").to_pylist()
    low, high = Filter(expression, SCHEMA).offsets(2, 0, 10)
    assert all(low <= offset < high for offset in passing)
    assert 0 <= low <= high <= 10


@given(st.integers(-5, 15))
def test_first_is_where_it_begins_to_hold(begin: int) -> None:
    assert first(0, 10, lambda number: number >= begin) == min(max(begin, 0), 10)
