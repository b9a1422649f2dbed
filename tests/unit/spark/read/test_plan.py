"""What a read covers and how it is cut into tasks: nothing lost unseen, nothing doubled, all tasks alike."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.read.plan import (
    Bounds,
    DataLossError,
    Losses,
    OffsetRange,
    Position,
    Snapshot,
    goes_on_at,
    ranges_between,
    task_count,
    tasks_at_once,
    tasks_of,
)

P = ("clicks", 0)
OLD, NEW = UUID(int=1), UUID(int=2)

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
def test_tasks_are_as_many_as_asked_for_and_equal(ranges: list[OffsetRange], tasks: int) -> None:
    packed = tasks_of(ranges, tasks)
    total = sum(each.size for each in ranges)
    sizes = [sum(piece.size for piece in some) for some in packed]
    assert len(sizes) == min(tasks, total)
    assert not sizes or max(sizes) - min(sizes) <= 1


def test_as_many_tasks_run_at_once_as_is_told_or_else_as_there_are_cores_or_partitions() -> None:
    assert tasks_at_once(100, 2, 3) == 100
    assert tasks_at_once(None, 8, 3) == 8
    assert tasks_at_once(None, 2, 200) == 200, "executors are elsewhere: no fewer tasks than the official connector has"


def test_a_small_read_is_one_task_and_a_large_one_uses_all_cores() -> None:
    assert task_count(10, 8) == 1
    assert task_count(100_000_000, 8) == 8
    assert task_count(0, 8) == 1


def test_more_tasks_can_be_asked_for_by_number_and_by_size() -> None:
    assert task_count(10, 2, at_least=5) == 5
    assert task_count(1000, 2, task_offsets=300) == 4
    assert task_count(1000, 2, at_least=7, task_offsets=300) == 7


def bounds(earliest: int, latest: int, *, topic_id: UUID = OLD, high_watermark: int | None = None) -> Bounds:
    return Bounds(topic_id, earliest, latest, latest if high_watermark is None else high_watermark)


def test_reading_goes_on_where_it_was_when_nothing_is_lost() -> None:
    strict = Losses(are_errors=True)
    assert goes_on_at(P, Position(OLD, 5), bounds(0, 9), strict) == 5
    assert goes_on_at(P, Position(None, 5), bounds(0, 9), strict) == 5
    assert goes_on_at(P, Position(OLD, 9), bounds(0, 9), strict) == 9


def test_an_open_transaction_that_was_read_before_is_no_loss() -> None:
    """A query that read uncommitted up to 9 and goes on with read_committed, whose end is 6 still."""
    assert goes_on_at(P, Position(OLD, 9), bounds(0, 6, high_watermark=9), Losses(are_errors=True)) == 9


@pytest.mark.parametrize(
    ("position", "there", "said", "goes_on"),
    [
        (Position(OLD, 5), bounds(7, 9), "read up to 5, and the brokers have 7 to 9", 7),
        (Position(OLD, 9), bounds(0, 4), "log ends at 4: it was cut", 4),
        (Position(OLD, 5), bounds(0, 9, topic_id=NEW), "deleted and created anew", 0),
        (Position(OLD, 5), None, "the topic is gone, it was read up to 5", 5),
    ],
)
def test_what_is_lost_is_an_error_or_passed_over(
    position: Position, there: Bounds | None, said: str, goes_on: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(DataLossError, match=f"clicks-0: .*{said}.*; failOnDataLoss = false"):
        goes_on_at(P, position, there, Losses(are_errors=True))
    lenient = Losses(are_errors=False)
    assert goes_on_at(P, position, there, lenient) == goes_on
    assert goes_on_at(P, position, there, lenient) == goes_on
    assert len(caplog.records) == 1, "a loss is told once, not with every microbatch"


def test_a_partition_begins_where_its_end_says_before_what_the_start_says() -> None:
    """Spark asks anew where a query begins when it repeats its first microbatch, and the answer may have moved."""
    there = Snapshot({P: bounds(0, 50)})
    [planned] = ranges_between({P: Position(OLD, 40)}, {P: Position(OLD, 20, begin=10)}, there, Losses(True))
    assert (planned.start, planned.end) == (10, 20)
    [planned] = ranges_between({P: Position(OLD, 15)}, {P: Position(OLD, 20)}, there, Losses(True))
    assert (planned.start, planned.end) == (15, 20)


@pytest.mark.parametrize(
    ("there", "said", "left"),
    [
        (bounds(12, 50), "offsets 10 to 20 were asked for, the brokers have 12 to 50", [(12, 20)]),
        (bounds(0, 15), "offsets 10 to 20 were asked for, the brokers have 0 to 15", [(10, 15)]),
        (bounds(30, 50), "offsets 10 to 20 were asked for", []),
        (bounds(0, 50, topic_id=NEW), "the topic was created anew", []),
        (None, "the topic is gone", []),
    ],
)
def test_a_planned_range_is_cut_to_what_is_left(there: Bounds | None, said: str, left: list[tuple[int, int]]) -> None:
    snapshot = Snapshot({} if there is None else {P: there})
    start, end = {P: Position(OLD, 10)}, {P: Position(OLD, 20)}
    with pytest.raises(DataLossError, match=said):
        ranges_between(start, end, snapshot, Losses(are_errors=True))
    ranges = ranges_between(start, end, snapshot, Losses(are_errors=False))
    assert [(each.start, each.end) for each in ranges] == left
