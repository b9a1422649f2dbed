"""How much a microbatch takes on: never more than allowed, something of everything that waits, and not too little."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.client.client import Partition
from penstock.spark.read.stream_admission import MinOffsets, share_out

WAITING = st.dictionaries(
    st.integers(0, 50), st.tuples(st.integers(0, 10**12), st.integers(1, 10**9)), max_size=20
).map(lambda some: {("clicks", p): (begin, begin + size) for p, (begin, size) in some.items()})
Waiting = dict[Partition, tuple[int, int]]


@given(WAITING)
def test_without_limits_everything_is_read(waiting: Waiting) -> None:
    assert share_out(waiting) == {p: end for p, (_, end) in waiting.items()}


@given(WAITING, st.integers(1, 10**10))
def test_offsets_are_limited_but_none_goes_without(waiting: Waiting, limit: int) -> None:
    ends = share_out(waiting, max_offsets=limit)
    taken = {p: ends[p] - begin for p, (begin, _) in waiting.items()}
    assert all(1 <= taken[p] <= end - begin for p, (begin, end) in waiting.items())
    assert sum(taken.values()) <= max(limit, limit + len(waiting) - 1)


@given(WAITING, st.integers(1, 10**10), st.floats(0.01, 10_000))
def test_bytes_are_limited_but_none_goes_without(waiting: Waiting, limit: int, size: float) -> None:
    sizes = {p: size * (1 + p[1]) for p in waiting}
    ends = share_out(waiting, max_bytes=limit, bytes_an_offset=sizes)
    taken = {p: ends[p] - begin for p, (begin, _) in waiting.items()}
    assert all(1 <= taken[p] <= end - begin for p, (begin, end) in waiting.items())
    assert sum(n * sizes[p] for p, n in taken.items() if n > 1) <= limit * 1.000001


def test_the_tighter_of_two_limits_counts() -> None:
    waiting = {("clicks", 0): (0, 1000)}
    sizes = {("clicks", 0): 100.0}
    assert share_out(waiting, max_offsets=500, max_bytes=10_000, bytes_an_offset=sizes) == {("clicks", 0): 100}
    assert share_out(waiting, max_offsets=50, max_bytes=10_000, bytes_an_offset=sizes) == {("clicks", 0): 50}


def test_each_partition_gives_the_same_part_of_what_waits() -> None:
    waiting = {("clicks", 0): (100, 1100), ("clicks", 1): (0, 10)}
    assert share_out(waiting, max_offsets=101) == {("clicks", 0): 200, ("clicks", 1): 1}


def test_a_microbatch_waits_for_enough_or_long_enough() -> None:
    min_offsets = MinOffsets(min_offsets=10, max_delay_ms=1000)
    few, enough = {("clicks", 0): (0, 3)}, {("clicks", 0): (0, 10)}
    assert not min_offsets.holds_back(few, 0), "the first after a start is let go"
    assert min_offsets.holds_back(few, 500)
    assert not min_offsets.holds_back(enough, 600)
    assert min_offsets.holds_back(few, 1500), "the time counts from the last one that was let go"
    assert not min_offsets.holds_back(few, 1600)


def test_nothing_at_all_does_not_count_as_a_microbatch() -> None:
    min_offsets = MinOffsets(min_offsets=10, max_delay_ms=1000)
    assert not min_offsets.holds_back({}, 0)
    assert not min_offsets.holds_back({("clicks", 0): (0, 3)}, 1)
