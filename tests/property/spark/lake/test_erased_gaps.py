"""Whatever is erased, and whenever gaps are sealed: a table with exactly the other rows is clean, and no other is."""

from __future__ import annotations

from uuid import UUID

import pytest

pytest.importorskip("pyarrow", reason="needs penstock[spark]")

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.lake.folding import Folded, Summary, combined
from penstock.spark.lake.offsets import runs_of
from penstock.spark.lake.ranges import union
from penstock.spark.lake.records import ERASED, TopicPartition
from penstock.spark.lake.verify import PartitionVerdict, judge

CLICKS = TopicPartition("clicks", UUID(int=1), 0)
SPAN = 60


def clean(folded: Folded, there: set[int]) -> PartitionVerdict:
    (progress,) = combined([Summary("load", 1, {CLICKS: folded})]).values()
    verdict = PartitionVerdict("clicks", "", 0, progress.start, progress.end, len(there))
    judge(verdict, runs_of(np.array(sorted(there), np.int64)), progress)
    return verdict


@given(
    absent=st.sets(st.integers(0, SPAN - 1)),
    erasures=st.lists(st.sets(st.integers(0, SPAN - 1)), max_size=4),
    seals=st.lists(st.integers(0, 3), min_size=4, max_size=4),
    wrong=st.integers(0, SPAN - 1),
)
def test_a_table_of_the_other_rows_is_clean(
    absent: set[int], erasures: list[set[int]], seals: list[int], wrong: int
) -> None:
    folded = Folded(0, 0)
    folded.advance(SPAN, [(offset, offset + 1, "control") for offset in sorted(absent)])
    there = set(range(SPAN)) - absent
    for wanted, seal in zip(erasures, seals, strict=False):
        if seal:
            folded.shrink(seal, 2)
        gone = wanted & there
        folded.erase(union((offset, offset + 1) for offset in gone))
        there -= gone
    verdict = clean(folded, there)
    assert verdict.clean, verdict
    assert verdict.gaps.get(ERASED, 0) == SPAN - len(absent) - len(there)
    assert not clean(folded, there ^ {wrong}).clean
