"""A part of the node whose turn ends in a bug rests for a while, and then goes on by its own deadlines."""

from __future__ import annotations

from penstock.node.bugs import Bugs
from penstock.node.duties import Duty
from penstock.node.limits import DUTY_PAUSE_MS


class Part:
    """What is due at `deadline_ms`; its next turn raises `error`."""

    def __init__(self) -> None:
        self.deadline_ms: int | None = 1_000
        self.error: Exception | None = ZeroDivisionError("planted")
        self.turns = 0

    def tick(self, now_ms: int) -> None:
        self.turns += 1
        error, self.error = self.error, None
        if error is not None:
            raise error

    def next_deadline_ms(self) -> int | None:
        return self.deadline_ms


def test_after_a_bug_a_part_rests_and_then_goes_by_its_own_deadlines() -> None:
    part, told = Part(), list[str]()
    duty = Duty("a part", part.tick, part.next_deadline_ms, Bugs(lambda: 0, lambda what, error: told.append(what)))
    assert duty.next_deadline_ms() == 1_000
    duty.tick(1_000)
    assert told == ["a part"]
    rested_ms = 1_000 + DUTY_PAUSE_MS
    assert duty.next_deadline_ms() == rested_ms
    duty.tick(rested_ms - 1)
    assert part.turns == 1
    part.deadline_ms = rested_ms + 7
    assert duty.next_deadline_ms() == rested_ms + 7
    part.deadline_ms = None
    assert duty.next_deadline_ms() is None
    part.deadline_ms = 1_000
    duty.tick(rested_ms)
    assert part.turns == 2
    assert duty.next_deadline_ms() == 1_000
