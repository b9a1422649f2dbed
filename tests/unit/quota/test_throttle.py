"""Rates over windows, and throttles that hold to them."""

from __future__ import annotations

from random import Random

import pytest

from penstock.config.values import LONG_MAX
from penstock.quota.rate import SimpleRate
from penstock.quota.throttle import Throttle, names_replica


def test_the_rate_is_what_passed_over_the_time_since_the_first_window_kept() -> None:
    rate = SimpleRate(windows=3, window_ms=1_000)
    assert rate.per_second(0) == 0
    rate.record(500, 0)
    assert rate.per_second(100) == 500  # at least one window
    rate.record(500, 900)
    assert rate.per_second(2_000) == 500
    rate.record(1_000, 2_000)
    assert rate.per_second(2_500) == 800


def test_what_passed_too_long_ago_does_not_count() -> None:
    rate = SimpleRate(windows=3, window_ms=1_000)
    rate.record(900, 0)
    rate.record(300, 1_500)
    assert rate.per_second(2_999) == pytest.approx(1200 / 2.999)
    assert rate.per_second(3_000) == 200
    assert rate.per_second(4_500) == 0


def test_it_is_known_when_the_rate_will_have_come_down() -> None:
    random = Random(7)
    for _ in range(200):
        rate = SimpleRate(windows=random.randrange(1, 12), window_ms=1_000)
        now_ms = 0
        for _ in range(random.randrange(1, 20)):
            rate.record(random.randrange(5_000), now_ms)
            now_ms += random.randrange(1_500)
        bound = random.choice([0, 1, 100, 1_000, 10_000])
        below_ms = rate.below_at_ms(bound, now_ms)
        if below_ms > now_ms:
            assert rate.per_second(below_ms - 1) > bound
        assert rate.per_second(below_ms) <= bound


def test_a_throttle_without_a_bound_holds_nobody() -> None:
    throttle = Throttle()
    throttle.record(LONG_MAX, 0)
    assert not throttle.exceeded(0)
    assert throttle.free_at_ms(0) == 0


def test_a_throttle_lets_through_its_bound_on_average() -> None:
    throttle = Throttle()
    throttle.bound = 1_000
    passed, now_ms = 0, 0
    while now_ms < 60_000:
        if not throttle.exceeded(now_ms):
            throttle.record(700, now_ms)
            passed += 700
        now_ms += 10
    assert 0.9 <= passed / 60_000 <= 1.2


def test_replicas_are_named_by_partition_and_broker() -> None:
    assert names_replica(("*",), 3, 1)
    assert names_replica(("0:1", "3:1"), 3, 1)
    assert not names_replica(("0:1", "3:2"), 3, 1)
    assert not names_replica((), 3, 1)
