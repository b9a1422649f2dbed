"""Packing ranges into tasks: nothing lost, nothing doubled, no task with much more than its share."""

from __future__ import annotations

import math
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.read.plan import OffsetRange, tasks_of

RANGES = st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 5_000)), max_size=30).map(
    lambda pairs: [
        OffsetRange("clicks", UUID(int=1), partition, start, start + size)
        for partition, (start, size) in enumerate(pairs)
    ]
)


@given(RANGES, st.integers(1, 12))
def test_every_offset_is_in_exactly_one_task(ranges: list[OffsetRange], tasks: int) -> None:
    pieces: dict[int, list[tuple[int, int]]] = {}
    for piece in (piece for packed in tasks_of(ranges, tasks) for piece in packed):
        assert piece.size > 0
        pieces.setdefault(piece.partition, []).append((piece.start, piece.end))
    for each in ranges:
        position = each.start
        for start, end in sorted(pieces.pop(each.partition, [])):
            assert start == position
            position = end
        assert position == each.end
    assert not pieces


@given(RANGES, st.integers(1, 12))
def test_tasks_are_no_more_than_asked_for_and_balanced(ranges: list[OffsetRange], tasks: int) -> None:
    packed = tasks_of(ranges, tasks)
    assert len(packed) <= tasks
    assert all(packed)
    total = sum(each.size for each in ranges)
    if total:
        share = math.ceil(total / tasks)
        assert max(sum(piece.size for piece in some) for some in packed) < 2 * share + 1
