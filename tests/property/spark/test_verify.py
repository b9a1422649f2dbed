"""`verify` against a naive count of every offset, over random commits with doubled, missing and stray rows."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="needs penstock[spark]")
pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from penstock.spark.lake.verify import PartitionVerdict, Range, _joined, _judge, runs_of  # noqa: E402

OFFSETS = st.integers(0, 60)
SPANS = st.tuples(OFFSETS, st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))
GAPS = st.lists(st.tuples(SPANS, st.sampled_from(["control", "compacted", "corrupt"])), max_size=4)


def spread(ranges: list[Range]) -> list[int]:
    return [offset for start, end in ranges for offset in range(start, end)]


@given(SPANS, st.lists(st.lists(OFFSETS, max_size=40), max_size=4), GAPS)
def test_the_verdict_counts_what_a_naive_count_counts(
    loaded: Range, files: list[list[int]], gaps: list[tuple[Range, str]]
) -> None:
    start, end = loaded
    found = _joined([run for file in files for run in runs_of(np.array(file, np.int64))])
    verdict = PartitionVerdict("clicks", "id", 0, start, end, sum(map(len, files)))
    _judge(verdict, sorted(found), sorted((low, high, reason) for (low, high), reason in gaps))

    count = Counter(offset for file in files for offset in file)
    absent = {offset for offset in range(start, end) if not count[offset]}
    legal = absent & set(spread([span for span, _ in gaps]))
    assert sorted(spread(verdict.missing_ranges)) == sorted(absent - legal)
    assert verdict.missing == len(absent - legal)
    assert verdict.legal_gaps == len(legal)
    assert verdict.duplicates == sum(count[offset] - 1 for offset in range(start, end) if count[offset])
    assert verdict.outside == sum(times for offset, times in count.items() if not start <= offset < end)


@given(st.lists(st.lists(OFFSETS, max_size=40), max_size=4))
def test_runs_lose_no_row_and_make_none_up(files: list[list[int]]) -> None:
    runs = _joined([run for file in files for run in runs_of(np.array(file, np.int64))])
    assert Counter(spread(runs)) == Counter(offset for file in files for offset in file)
