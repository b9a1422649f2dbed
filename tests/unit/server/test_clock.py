"""Time counts on whatever becomes of the wall clock, which is followed at once where something is stamped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.clock import Clock
from penstock.server.limits import LATE_MAX_MS

DAY_MS = 24 * 3_600_000


class Times:
    """A machine's clocks; the time that a process counts, and what is stamped, by a Clock of them."""

    def __init__(self) -> None:
        self.wall_ns = 10**18
        self.monotonic_ns = 500
        self.clock = Clock(lambda: self.wall_ns, lambda: self.monotonic_ns)

    def pass_ms(self, ms: int) -> None:
        self.wall_ns += ms * 10**6
        self.monotonic_ns += ms * 10**6

    def step_ms(self, ms: int) -> None:
        self.wall_ns += ms * 10**6

    @property
    def stamp_ms(self) -> int:
        return self.clock.wall.at(self.clock.now_ms())


@pytest.mark.parametrize("step_ms", [-DAY_MS, -60_000, -1, 1, 12_000, 60_000, DAY_MS])
def test_a_step_of_the_wall_clock_moves_stamps_and_nothing_else(step_ms: int) -> None:
    times = Times()
    start_ms = times.clock.now_ms()
    times.pass_ms(100)
    times.step_ms(step_ms)
    assert times.clock.now_ms() == start_ms + 100
    assert times.stamp_ms == times.wall_ns // 10**6
    times.pass_ms(20_000)
    assert times.clock.now_ms() == start_ms + 20_100
    assert times.stamp_ms == times.wall_ns // 10**6


def test_a_sleep_of_the_machine_does_not_count() -> None:
    times = Times()
    start_ms = times.clock.now_ms()
    times.step_ms(8 * 3_600_000)  # the monotonic clock stands still meanwhile
    assert times.clock.now_ms() == start_ms
    assert times.stamp_ms == start_ms + 8 * 3_600_000


def test_time_beyond_what_was_due_does_not_count() -> None:
    times = Times()
    start_ms = times.clock.now_ms()
    times.clock.due_ms = start_ms + 300
    times.pass_ms(12_000)
    assert times.clock.now_ms() == start_ms + 300 + LATE_MAX_MS
    assert times.clock.wall.stopped_ms == 12_000 - 300 - LATE_MAX_MS
    assert times.stamp_ms == times.wall_ns // 10**6
    times.clock.due_ms = None
    times.pass_ms(50)
    assert times.clock.now_ms() == start_ms + 350 + LATE_MAX_MS


def test_who_is_idle_has_nothing_due_and_loses_no_time() -> None:
    times = Times()
    start_ms = times.clock.now_ms()
    times.pass_ms(DAY_MS)
    assert times.clock.now_ms() == start_ms + DAY_MS
    times.clock.due_ms = start_ms + DAY_MS + 10_000
    times.pass_ms(10_000 + LATE_MAX_MS)
    assert times.clock.now_ms() == start_ms + DAY_MS + 10_000 + LATE_MAX_MS
    assert times.clock.wall.stopped_ms == 0


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(-DAY_MS, DAY_MS), st.none() | st.integers(0, 3_000))))
def test_time_never_goes_back_and_never_faster_than_it_passes(turns: list[tuple[int, int, int | None]]) -> None:
    times = Times()
    before_ms = times.clock.now_ms()
    for passed_ms, step_ms, due_in_ms in turns:
        times.pass_ms(passed_ms)
        times.step_ms(step_ms)
        now_ms = times.clock.now_ms()
        assert before_ms <= now_ms <= before_ms + passed_ms
        assert times.clock.wall.at(now_ms) == times.wall_ns // 10**6
        times.clock.due_ms = None if due_in_ms is None else now_ms + due_in_ms
        before_ms = now_ms
