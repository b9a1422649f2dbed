"""Timers of coordinators."""

from __future__ import annotations

from heapq import heapreplace

import pytest
from unit.coordinator.runtime.counters import Desk, P, number

from penstock.coordinator.limits import COORDINATOR_TIMER_RETRY_MS
from penstock.coordinator.runtime import timers as module
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.timers import Timers
from penstock.errors import ErrorCode


def due(timers: Timers, now_ms: int) -> list[object]:
    """All that is due, in order."""
    found: list[object] = []
    while (each := timers.due(now_ms)) is not None:
        found.append(each[1])
    return found


def test_timers_are_due_in_the_order_of_their_deadlines() -> None:
    timers = Timers()
    one, two = timers.of(1), timers.of(2)
    one.set("c", 30)
    two.set("a", 10)
    one.set("b", 20)
    assert timers.next_deadline_ms() == 10
    assert due(timers, 20) == ["a", "b"]
    assert timers.next_deadline_ms() == 30


def test_the_timers_of_all_shards_are_counted() -> None:
    timers = Timers()
    one, two, three = timers.of(1), timers.of(2), timers.of(3)
    for key in ("a", "b", "a"):
        one.set(key, 10)
        two.set(key, 20)
        three.set(key, 30)
    assert one.of_all_shards == len(timers) == 6
    one.cancel("b")
    one.cancel("b")
    assert len(timers) == 5
    assert due(timers, 20) == ["a", "a", "b"]
    assert len(timers) == 2
    three.cancel_all()
    three.cancel_all()
    assert len(timers) == 0


def test_a_timer_that_is_put_off_is_not_due_at_its_first_deadline() -> None:
    timers = Timers()
    view = timers.of(1)
    view.set("a", 10)
    view.set("a", 25)
    assert view.deadline_ms("a") == 25
    assert due(timers, 24) == []
    assert due(timers, 25) == ["a"]
    assert len(timers) == 0


def test_a_session_that_is_put_off_at_each_heartbeat_moves_once_in_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    moved: list[object] = []
    monkeypatch.setattr(module, "heapreplace", lambda heap, item: (moved.append(item[3]), heapreplace(heap, item)))
    timers = Timers()
    view = timers.of(1)
    woken = 0
    for now_ms in range(0, 150_000, 100):
        deadline_ms = timers.next_deadline_ms()
        if deadline_ms is not None and deadline_ms <= now_ms:
            woken += 1
            assert due(timers, now_ms) == []
        for member in range(now_ms // 100 % 30, 300, 30):  # each every three seconds
            view.set(member, now_ms + 30_000)
    assert len(moved) <= 300 * 150 / 25, "not 50 times each"
    assert woken <= 30, "the node is not woken for each member"


def test_very_many_timers_that_were_put_off_are_looked_at_in_several_steps() -> None:
    timers = Timers()
    view = timers.of(1)
    count = 3 * module.PUT_BACK_PER_LOOK
    for member in range(count):
        view.set(member, 10)
        view.set(member, 20)
    looks = 0
    while (deadline_ms := timers.next_deadline_ms()) is not None and deadline_ms <= 10:
        assert timers.due(10) is None
        looks += 1
    assert looks in (3, 4)
    assert due(timers, 20) == list(range(count))


def test_a_timer_that_is_brought_forward_is_due_once() -> None:
    timers = Timers()
    view = timers.of(1)
    view.set("a", 100)
    view.set("a", 10)
    assert due(timers, 10) == ["a"]
    assert due(timers, 100) == []


def test_a_timer_that_is_cancelled_is_never_due() -> None:
    timers = Timers()
    view = timers.of(1)
    view.set("a", 10)
    view.cancel("a")
    view.cancel("never set")
    assert "a" not in view
    assert timers.next_deadline_ms() is None
    view.set("a", 20)
    assert due(timers, 10) == []
    assert due(timers, 20) == ["a"]


def test_cancelled_timers_do_not_pile_up() -> None:
    timers = Timers()
    view = timers.of(1)
    for index in range(5 * module.STALE_ENTRIES_MAX):
        view.set(index, 1_000 + index)
        view.cancel(index)
    assert len(timers._heap) <= module.STALE_ENTRIES_MAX + 1


def test_a_shard_that_ends_leaves_no_timers_behind() -> None:
    desk = Desk()
    desk.machine.timers.set("a", 1)
    desk.runtime.resigned(P, desk.now_ms)
    assert len(desk.runtime.timers) == 0
    desk.elect()
    desk.runtime.tick(desk.now_ms + 1_000)
    assert desk.machine.told == ["loaded"]


def test_a_timer_writes_records() -> None:
    desk = Desk()
    desk.machine.timers.set("a", desk.now_ms + 5)
    desk.machine.expires = lambda key: Result(None, [number(str(key), 1)])
    assert desk.runtime.next_deadline_ms() == desk.now_ms + 5
    desk.runtime.tick(desk.now_ms + 4)
    assert desk.numbers() == {}
    desk.runtime.tick(desk.now_ms + 5)
    assert desk.numbers() == {"a": 1}


def test_a_timer_whose_records_were_refused_is_tried_again() -> None:
    desk = Desk()
    desk.machine.timers.set("a", desk.now_ms)
    desk.machine.expires = lambda key: Result(None, [number(str(key), 1)])
    desk.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    desk.runtime.tick(desk.now_ms)
    desk.flush()
    assert desk.numbers() == {}
    desk.log.refuses = None
    desk.runtime.tick(desk.now_ms + COORDINATOR_TIMER_RETRY_MS)
    assert desk.numbers() == {"a": 1}


def test_a_bug_in_a_timer_is_told_and_ends_nothing_else() -> None:
    desk = Desk()
    desk.machine.timers.set("a", desk.now_ms)
    desk.machine.timers.set("b", desk.now_ms + 1)

    def expires(key: object) -> Result[None]:
        return Result(None, [number("broken" if key == "a" else "b", 1)])

    desk.machine.expires = expires
    desk.runtime.tick(desk.now_ms + 1)
    assert [type(bug) for bug in desk.bugs] == [ZeroDivisionError]
    assert desk.numbers() == {"b": 1}


@pytest.mark.parametrize("name", ["raises", "broken"])
def test_a_timer_after_a_bug_in_it_is_armed_again(name: str) -> None:
    desk = Desk()
    desk.machine.timers.set("a", desk.now_ms)
    desk.machine.expires = lambda key: Result(None, [number("broken", 1 // (name != "raises"))])
    desk.runtime.tick(desk.now_ms)
    assert len(desk.bugs) == 1
    desk.machine.expires = lambda key: Result(None, [number(str(key), 1)])
    desk.runtime.tick(desk.now_ms + COORDINATOR_TIMER_RETRY_MS)
    assert desk.numbers() == {"a": 1}
