"""The log's deadlines: what is due is done in order, whatever is set or raised meanwhile."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from penstock.log.deadlines import Deadlines


def do_due(deadlines: Deadlines, now_ms: int) -> None:
    for function in deadlines.due(now_ms):
        function(now_ms)


def noting(notes: list[str], name: str) -> Callable[[int], None]:
    return lambda now_ms: notes.append(f"{name} at {now_ms}")


def test_what_is_due_is_done_in_order_and_the_rest_waits() -> None:
    deadlines, notes = Deadlines(), list[str]()
    for name, deadline_ms in (("b", 20), ("a", 10), ("c", 20), ("d", 21)):
        deadlines.at(deadline_ms, noting(notes, name))
    assert deadlines.next_ms() == 10
    do_due(deadlines, 20)
    assert notes == ["a at 20", "b at 20", "c at 20"]
    assert deadlines.next_ms() == 21


@pytest.mark.parametrize("deadline_ms", [5, 10, 20])
def test_what_is_set_meanwhile_holds_up_nothing_and_waits_for_the_next_time(deadline_ms: int) -> None:
    deadlines, notes = Deadlines(), list[str]()
    deadlines.at(10, lambda now_ms: deadlines.at(deadline_ms, noting(notes, "set meanwhile")))
    deadlines.at(20, noting(notes, "due"))
    do_due(deadlines, 20)
    assert notes == ["due at 20"]
    assert deadlines.next_ms() == deadline_ms
    do_due(deadlines, 21)
    assert notes == ["due at 20", "set meanwhile at 21"]
    assert deadlines.next_ms() is None


def test_what_is_due_with_one_that_raises_stays() -> None:
    deadlines, notes = Deadlines(), list[str]()

    def broken(now_ms: int) -> None:
        deadlines.at(5, noting(notes, "set meanwhile"))
        raise ValueError("planted")

    deadlines.at(10, broken)
    deadlines.at(20, noting(notes, "due"))
    with pytest.raises(ValueError, match="planted"):
        do_due(deadlines, 20)
    assert deadlines.next_ms() is not None
    assert deadlines.next_ms() <= 20  # type: ignore[operator]
    do_due(deadlines, 21)
    assert sorted(notes) == ["due at 21", "set meanwhile at 21"]
