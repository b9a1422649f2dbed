"""Everything is collected when the loop is quiet, or when it has been busy for too long."""

from __future__ import annotations

from penstock.server.garbage import LATEST_S, QUIET_TURNS, WORTH_PASSES, Collector


class Loop:
    """A loop's count of turns, and a clock."""

    def __init__(self) -> None:
        self.turns = 0
        self.now_s = 0.0
        self.collector = Collector(lambda: self.turns, lambda: self.now_s)

    def check(self, *, turns: int, seconds: float = 10.0, passes: int = WORTH_PASSES) -> bool:
        self.turns += turns
        self.now_s += seconds
        return self.collector.due(passes)


def test_a_quiet_loop_collects_what_is_worth_it() -> None:
    loop = Loop()
    assert loop.check(turns=QUIET_TURNS)
    assert not loop.check(turns=0, passes=WORTH_PASSES - 1)


def test_a_busy_loop_collects_at_its_first_quiet_moment() -> None:
    loop = Loop()
    assert not loop.check(turns=100_000)
    assert loop.check(turns=1)


def test_a_loop_that_is_never_quiet_collects_all_the_same_after_a_while() -> None:
    loop = Loop()
    checks = [loop.check(turns=100_000) for _ in range(130)]
    assert [index for index, collected in enumerate(checks, 1) if collected] == [LATEST_S / 10, 2 * LATEST_S / 10]
