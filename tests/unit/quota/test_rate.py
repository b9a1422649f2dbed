"""Kafka's Rate and TokenBucket: figures that follow from their definitions, and what they promise."""

from __future__ import annotations

import math
from random import Random

import pytest

from penstock.quota.rate import DELAY_MAX_MS, Rate
from penstock.quota.token_bucket import TokenBucket


def test_the_first_window_counts_as_if_empty_ones_were_before_it() -> None:
    rate = Rate(windows=11, window_ms=1_000)
    assert rate.per_second(0) == 0
    rate.record(1_000, 0)
    assert rate.per_second(0) == 100, "over ten seconds"
    assert rate.per_second(500) == pytest.approx(1_000 / 10.5)
    rate.record(1_000, 1_000)
    assert rate.per_second(1_000) == 200


def test_a_window_is_kept_until_its_last_amount_is_too_long_ago() -> None:
    rate = Rate(windows=3, window_ms=1_000)
    rate.record(10, 0)
    rate.record(20, 900)
    assert rate.per_second(3_899) == pytest.approx(30 / 3.899)
    assert rate.per_second(3_900) == 0
    assert rate.is_empty


def test_after_a_pause_there_may_be_a_burst_again() -> None:
    rate = Rate(windows=11, window_ms=1_000)
    for second in range(30):
        rate.record(2_000, second * 1_000)
    assert rate.delay_ms(1_000, 29_000) > 0
    rate.record(10_000, 60_000)
    assert rate.delay_ms(1_000, 60_000) == 0
    rate.record(1, 60_000)
    assert rate.delay_ms(1_000, 60_000) == 1


def test_the_delay_brings_the_rate_back_to_the_bound() -> None:
    rate = Rate(windows=11, window_ms=1_000)
    rate.record(30_000, 0)
    assert rate.delay_ms(1_000, 0) == 20_000, "30,000 in 10 + 20 s"
    assert rate.delay_ms(1_000, 0, more=5_000) == 25_000
    assert rate.delay_ms(3_000, 0) == 0


def test_a_delay_is_never_longer_than_an_answer_can_say() -> None:
    rate = Rate(windows=2, window_ms=1_000)
    rate.record(1e300, 0)
    for bound in (0, -1, 1e-300):
        assert rate.delay_ms(bound, 0) == DELAY_MAX_MS


@pytest.mark.parametrize("seed", range(20))
def test_who_waits_as_told_keeps_to_the_bound(seed: int) -> None:
    random = Random(seed)
    rate = Rate(windows=random.randrange(11, 32), window_ms=1_000)
    bound, now_ms, passed = 10_000.0, 0, 0.0
    while now_ms < 600_000:
        amount = random.choice([10, 1_000, 40_000])
        rate.record(amount, now_ms)
        passed += amount
        now_ms += rate.delay_ms(bound, now_ms) or random.randrange(1, 20)
    assert passed / (now_ms / 1_000) == pytest.approx(bound, rel=0.15)


def test_what_is_taken_back_leaves_no_debt() -> None:
    """It may be taken back in a later window than it was recorded in, which is then the one that is kept longer."""
    rate = Rate(11, 1_000)
    rate.record(1, 0)
    rate.record(2, 5_000)
    rate.take_back(2.5, 9_000)
    assert rate.per_second(9_000) * rate.elapsed_ms(9_000) / 1_000 == pytest.approx(0.5)
    rate.take_back(5, 9_000)
    assert rate.is_empty
    for now_ms in range(9_000, 30_000, 500):
        assert rate.per_second(now_ms) == 0
    rate.record(3, 30_000)
    rate.take_back(1, 60_000)
    assert rate.is_empty, "forgotten already"


def test_a_bucket_is_full_at_first_and_lets_a_burst_through() -> None:
    bucket = TokenBucket(5, windows=100, window_ms=1_000, now_ms=0)
    assert bucket.tokens(0) == 500
    bucket.take(560, 0)
    assert bucket.tokens(0) == -60
    assert bucket.delay_ms(0) == 12_000, "KIP-599's example"
    assert bucket.delay_ms(12_000) == 0
    assert not bucket.is_full(12_000)
    assert bucket.tokens(10**9) == 500
    assert bucket.is_full(10**9)


def test_a_bucket_takes_a_new_rate_at_once() -> None:
    bucket = TokenBucket(10, windows=10, window_ms=1_000, now_ms=0)
    bucket.take(150, 0)
    assert bucket.delay_ms(0) == 5_000
    bucket.rate = 50
    assert bucket.delay_ms(0) == 1_000
    bucket.rate = 1e-300
    assert bucket.delay_ms(0) == DELAY_MAX_MS
    assert math.isfinite(bucket.tokens(10**15))
