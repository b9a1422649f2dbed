"""The clock never goes back, follows the wall slowly, and jumps forward only after a long sleep."""

from __future__ import annotations

from penstock.server.clock import SLEW_MS, STEP_AFTER_MS, Clock


class Times:
    def __init__(self) -> None:
        self.wall_ns = 10**18
        self.monotonic_ns = 500

    def pass_ms(self, ms: int) -> None:
        self.wall_ns += ms * 10**6
        self.monotonic_ns += ms * 10**6


def test_a_step_of_the_wall_clock_changes_nothing_at_once() -> None:
    times = Times()
    clock = Clock(lambda: times.wall_ns, lambda: times.monotonic_ns)
    start_ms = clock.now_ms()
    times.pass_ms(100)
    times.wall_ns -= 3600 * 10**9
    assert clock.now_ms() == start_ms + 100


def test_it_follows_the_wall_by_small_steps_and_never_goes_back() -> None:
    times = Times()
    clock = Clock(lambda: times.wall_ns, lambda: times.monotonic_ns)
    start_ms = clock.now_ms()
    times.wall_ns -= 2 * SLEW_MS * 10**6
    clock.resynchronise()
    assert clock.now_ms() == start_ms
    times.pass_ms(SLEW_MS + 1)
    assert clock.now_ms() == start_ms + 1
    times.wall_ns += 3 * SLEW_MS * 10**6
    for _ in range(4):
        clock.resynchronise()
    assert clock.now_ms() * 10**6 == times.wall_ns


def test_after_a_sleep_of_the_machine_it_jumps_forward() -> None:
    times = Times()
    clock = Clock(lambda: times.wall_ns, lambda: times.monotonic_ns)
    times.wall_ns += 2 * STEP_AFTER_MS * 10**6
    clock.resynchronise()
    assert clock.now_ms() * 10**6 == times.wall_ns
