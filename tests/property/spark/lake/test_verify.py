"""`verify` against a naive count of every offset, over random commits with doubled, missing and stray rows."""

from __future__ import annotations

from collections import Counter
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

np = pytest.importorskip("numpy", reason="needs penstock[spark]")
pytest.importorskip("pyarrow", reason="needs penstock[spark]")
pytest.importorskip("deltalake", reason="needs penstock[spark]")

from penstock.spark.lake.folding import Folded  # noqa: E402
from penstock.spark.lake.offsets import Runs, joined, runs_of  # noqa: E402
from penstock.spark.lake.records import Claim, Gap, Progress, TopicPartition  # noqa: E402
from penstock.spark.lake.verify import PartitionVerdict, Range, judge  # noqa: E402

CLICKS = TopicPartition("clicks", UUID(int=1), 0)

OFFSETS = st.integers(0, 60)
SPANS = st.tuples(OFFSETS, st.integers(0, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))
GAPS = st.lists(st.tuples(SPANS, st.sampled_from(["control", "compacted", "corrupt"])), max_size=4)


def found(files: list[list[int]]) -> Runs:
    return joined(np.concatenate([np.empty((0, 2), np.int64), *(runs_of(np.array(file, np.int64)) for file in files)]))


def spread(ranges: list[Range]) -> list[int]:
    return [offset for start, end in ranges for offset in range(start, end)]


@given(SPANS, st.lists(st.lists(OFFSETS, max_size=40), max_size=4), GAPS)
def test_the_verdict_counts_what_a_naive_count_counts(
    loaded: Range, files: list[list[int]], gaps: list[tuple[Range, str]]
) -> None:
    start, end = loaded
    verdict = PartitionVerdict("clicks", "id", 0, start, end, sum(map(len, files)))
    told = [Gap(CLICKS, low, high, reason) for (low, high), reason in gaps]
    judge(verdict, found(files), Progress(start, end, told, claims=[Claim("load", start, end)]))

    count = Counter(offset for file in files for offset in file)
    absent = {offset for offset in range(start, end) if not count[offset]}
    legal = absent & set(spread([span for span, _ in gaps]))
    assert sorted(spread(verdict.missing_ranges)) == sorted(absent - legal)
    assert verdict.missing == len(absent - legal)
    assert verdict.legal_gaps == len(legal)
    assert verdict.duplicates == sum(times - 1 for times in count.values())
    assert verdict.outside == sum(not start <= offset < end for offset in count)
    assert verdict.in_gaps == len(count.keys() & set(spread([span for span, _ in gaps])))
    assert verdict.clean == (
        not verdict.missing and not verdict.duplicates and not verdict.outside and not verdict.in_gaps
    )


@given(st.lists(st.lists(OFFSETS, max_size=40), max_size=4))
def test_runs_lose_no_row_and_make_none_up(files: list[list[int]]) -> None:
    assert Counter(spread(found(files).tolist())) == Counter(offset for file in files for offset in file)


SPLIT = st.lists(st.tuples(st.integers(0, 6), st.sampled_from(["control", "aborted"])), min_size=1, max_size=60)


@given(SPLIT, st.sets(st.integers(0, 59)), st.integers(2, 8), st.integers(1, 3))
def test_sealed_gaps_prove_as_much_as_gaps_told_one_by_one(
    steps: list[tuple[int, str]], lost: set[int], gaps_max: int, sealed_max: int
) -> None:
    """Each step is some rows and one offset without a record; `lost` are rows that vanish from the table."""
    folded, offsets, gaps = Folded(0, 0), [], []
    for rows, reason in steps:
        start = folded.end
        offsets += range(start, start + rows)
        gap = (start + rows, start + rows + 1, reason)
        gaps.append(gap)
        folded.advance(gap[1], [gap])
        folded.shrink(gaps_max, sealed_max)
    assert len(folded.gaps) <= gaps_max
    assert len(folded.sealed) <= sealed_max
    kept = [offset for at, offset in enumerate(offsets) if at not in lost]
    verdict = PartitionVerdict("clicks", "id", 0, 0, folded.end, len(kept))
    told = [Gap(CLICKS, *gap) for gap in folded.gaps]
    judge(verdict, found([kept]), Progress(0, folded.end, told, folded.sealed, [Claim("load", 0, folded.end)]))
    assert verdict.clean == (len(kept) == len(offsets))
    assert verdict.missing == len(offsets) - len(kept)
    if verdict.clean:
        assert verdict.gaps == dict(Counter(reason for _, _, reason in gaps))
