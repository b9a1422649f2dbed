"""Two columns are compared value by value at any depth, as exactly as Python would, and floats by their bits."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pa = pytest.importorskip("pyarrow", reason="needs penstock[spark]")

from penstock.spark.lake.likeness import unlike  # noqa: E402

NESTED = pa.struct([("n", pa.int64()), ("tags", pa.list_(pa.struct([("s", pa.string())])))])
TAG = st.none() | st.fixed_dictionaries({"s": st.sampled_from([None, "", "a"])})
NESTED_VALUES = st.none() | st.fixed_dictionaries(
    {"n": st.none() | st.integers(0, 1), "tags": st.none() | st.lists(TAG, max_size=2)}
)
MAPS = pa.map_(pa.string(), pa.int64())
MAP_VALUES = st.none() | st.dictionaries(st.sampled_from("ab"), st.none() | st.integers(0, 1), max_size=2).map(
    lambda given: list(given.items())
)


def pairs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    """Rows of two columns, of which many are the same."""
    return st.lists(st.tuples(values, values) | values.map(lambda value: (value, value)), max_size=12)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.binary(), st.none() | st.binary(max_size=2)),
        (pa.bool_(), st.none() | st.booleans()),
        (pa.list_(pa.int64()), st.none() | st.lists(st.none() | st.integers(0, 1), max_size=3)),
        (NESTED, NESTED_VALUES),
        (MAPS, MAP_VALUES),
    ],
    ids=str,
)
def test_what_differs_in_python_differs_here_also_in_a_slice(kind: Any, values: st.SearchStrategy[Any]) -> None:
    @settings(deadline=None)  # the first call loads Arrow's functions
    @given(pairs(values), st.integers(0, 3))
    def check(rows: list[tuple[Any, Any]], start: int) -> None:
        ours, theirs = (pa.array([row[side] for row in rows], kind).slice(start) for side in (0, 1))
        assert unlike(ours, theirs).tolist() == [one != other for one, other in rows[start:]]

    check()


def test_floats_are_compared_by_their_bits() -> None:
    ours = pa.array([math.nan, 0.0, 1.5, None, math.inf], pa.float64())
    theirs = pa.array([math.nan, -0.0, 1.5, 0.0, math.inf], pa.float64())
    assert unlike(ours, theirs).tolist() == [False, True, False, True, False]
    lists = [pa.array([[each] for each in column.to_pylist()]) for column in (ours, theirs)]
    assert unlike(*lists).tolist() == [False, True, False, True, False]
