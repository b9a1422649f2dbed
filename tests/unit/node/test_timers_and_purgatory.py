"""The timer wheel, and requests that wait on keys."""

from __future__ import annotations

from penstock.node.purgatory import Purgatory
from penstock.node.request import Parked
from penstock.node.timers import TICK_MS, TimerWheel


def test_timers_fire_in_order_never_early_and_at_most_a_tick_late() -> None:
    wheel, fired = TimerWheel(), []
    for deadline_ms in (1003, 1001, 1500):
        wheel.at(deadline_ms, lambda now_ms, deadline_ms=deadline_ms: fired.append((deadline_ms, now_ms)))
    wheel.advance(1000)
    assert not fired
    now_ms = wheel.next_deadline_ms()
    assert now_ms is not None
    assert 1003 <= now_ms <= 1003 + TICK_MS
    wheel.advance(now_ms)
    assert [deadline_ms for deadline_ms, _ in fired] == [1003, 1001]
    wheel.advance(10_000)
    assert fired[-1] == (1500, 10_000)
    assert wheel.next_deadline_ms() is None


def test_a_cancelled_timer_does_not_fire_and_wakes_nobody() -> None:
    wheel, fired = TimerWheel(), []
    timer = wheel.at(1000, fired.append)
    wheel.cancel(timer)
    wheel.cancel(timer)
    assert wheel.next_deadline_ms() is None
    wheel.advance(2000)
    assert not fired


def test_a_timer_may_cancel_another_of_its_tick_and_arm_one_that_is_due() -> None:
    wheel, fired = TimerWheel(), []
    wheel.at(1000, lambda now_ms: wheel.cancel(second))
    second = wheel.at(1000, lambda now_ms: fired.append("second"))
    wheel.at(1000, lambda now_ms: wheel.at(900, lambda at_ms: fired.append("late")))
    wheel.advance(1000)
    assert fired == ["late"]
    assert len(wheel) == 0


class Waits:
    """A request that is complete once `value` is set."""

    def __init__(self, purgatory: Purgatory, *keys: str, deadline_ms: int | None = 1000) -> None:
        self.value: str | None = None
        self.asked = 0
        self.answers: list[str] = []
        self.broken: list[Exception] = []
        self.cancelled = False
        parked = Parked(keys, deadline_ms, self.complete, lambda now_ms: "expired", self.cancel)
        self.waiting = purgatory.park(
            parked,
            lambda message, now_ms: self.answers.append(message),
            lambda error, now_ms: self.broken.append(error),
        )

    def complete(self, now_ms: int) -> str | None:
        self.asked += 1
        return self.value

    def cancel(self) -> None:
        self.cancelled = True


def test_a_parked_request_is_asked_when_one_of_its_keys_fires() -> None:
    wheel = TimerWheel()
    purgatory = Purgatory(wheel)
    first, second = Waits(purgatory, "a", "b"), Waits(purgatory, "b")
    purgatory.fire("c", 1)
    assert (first.asked, second.asked) == (0, 0)
    purgatory.fire("b", 1)
    first.value = second.value = "done"
    purgatory.fire("a", 1)
    assert (first.answers, second.answers) == (["done"], [])
    purgatory.fire("b", 1)
    assert (first.answers, second.answers) == (["done"], ["done"])
    assert len(purgatory) == 0
    assert wheel.next_deadline_ms() is None


def test_a_parked_request_expires_once() -> None:
    wheel = TimerWheel()
    purgatory = Purgatory(wheel)
    request = Waits(purgatory, "a")
    wheel.advance(999)
    assert not request.answers
    wheel.advance(1000)
    request.value = "late"
    purgatory.fire("a", 1001)
    assert request.answers == ["expired"]


def test_a_cancelled_request_is_never_answered() -> None:
    wheel = TimerWheel()
    purgatory = Purgatory(wheel)
    request = Waits(purgatory, "a")
    purgatory.cancel(request.waiting)
    request.value = "late"
    purgatory.fire("a", 1)
    wheel.advance(5000)
    assert not request.answers
    assert request.cancelled
