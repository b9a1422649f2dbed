"""Rates and buckets over any history are those of the plainest count, and no clock and no limit breaks them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.quota.rate import DELAY_MAX_MS, Rate
from penstock.quota.token_bucket import TokenBucket
from simulator.quotas.plain import plain_delay_ms, plain_tokens

WINDOW_MS = 1_000
windows = st.integers(1, 12)
limits = st.floats(0.01, 1e6)
history = st.lists(st.tuples(st.integers(0, 3_000), st.integers(0, 100_000)), max_size=40)
"""How long after the one before, and how much."""
steps = st.lists(st.tuples(st.integers(-100_000, 100_000), st.floats(0, 1e300)), max_size=30)
"""The same, with a clock that is set back, and any amounts."""
any_limit = st.floats()


@given(windows, limits, history, st.integers(0, 20_000))
def test_a_delay_is_that_of_a_plain_count(
    number: int, limit: float, amounts: list[tuple[int, int]], later: int
) -> None:
    rate, now_ms, passed = Rate(number, WINDOW_MS), 0, []
    for after_ms, amount in amounts:
        now_ms += after_ms
        rate.record(amount, now_ms)
        passed.append((now_ms, float(amount)))
        follows_ms = min(plain_delay_ms(passed, limit, number, WINDOW_MS, now_ms), DELAY_MAX_MS)
        assert rate.delay_ms(limit, now_ms) == pytest.approx(follows_ms, abs=1.0, rel=1e-9)
    now_ms += later
    follows_ms = min(plain_delay_ms(passed, limit, number, WINDOW_MS, now_ms), DELAY_MAX_MS)
    assert rate.delay_ms(limit, now_ms) == pytest.approx(follows_ms, abs=1.0, rel=1e-9)


@given(windows, limits, history)
def test_a_bucket_has_what_a_plain_count_leaves(number: int, limit: float, takes: list[tuple[int, int]]) -> None:
    bucket, now_ms, taken = TokenBucket(limit, number, WINDOW_MS, 0), 0, []
    for after_ms, count in takes:
        now_ms += after_ms
        bucket.take(count, now_ms)
        taken.append((now_ms, float(count)))
        left = plain_tokens(taken, limit, limit * number, now_ms)
        assert bucket.tokens(now_ms) == pytest.approx(left, rel=1e-9, abs=1e-6)


@given(windows, limits, history)
def test_who_waits_as_told_owes_nothing(number: int, limit: float, takes: list[tuple[int, int]]) -> None:
    """Whatever fractions a rate has, and whatever was taken before."""
    bucket, now_ms = TokenBucket(limit, number, WINDOW_MS, 0), 0
    for after_ms, count in takes:
        now_ms += after_ms
        bucket.take(count % 100, now_ms)
        wait_ms = bucket.delay_ms(now_ms)
        if wait_ms < DELAY_MAX_MS:
            assert bucket.delay_ms(now_ms + wait_ms) == 0
            now_ms += wait_ms


@given(windows, any_limit, steps)
def test_no_clock_and_no_limit_breaks_a_rate(number: int, limit: float, amounts: list[tuple[int, float]]) -> None:
    rate, bucket, now_ms = Rate(number, WINDOW_MS), TokenBucket(limit, number, WINDOW_MS, 0), 10**12
    for step_ms, amount in amounts:
        now_ms += step_ms
        rate.record(amount, now_ms)
        bucket.take(min(amount, 1e6), now_ms)
        for asked_ms in (now_ms, now_ms - 50_000, now_ms + 50_000):
            assert rate.per_second(asked_ms) >= 0
            if limit < math.inf:  # others are none (`penstock.quota.usages`)
                assert 0 <= rate.delay_ms(limit, asked_ms) <= DELAY_MAX_MS
                assert 0 <= bucket.delay_ms(asked_ms) <= DELAY_MAX_MS
    assert rate.per_second(now_ms + 10**9) == 0, "what was long ago is forgotten, whatever the clock did"
