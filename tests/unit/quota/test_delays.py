"""How long clients have been held back, and for how long on average."""

from __future__ import annotations

import pytest

from penstock.quota.levels import PRODUCER_BYTE_RATE
from penstock.quota.limits import SLOWED_PAUSE_MS
from penstock.quota.usages import Usage, Windows


@pytest.fixture
def usage() -> Usage:
    return Usage((PRODUCER_BYTE_RATE, "alice", ""), 1_000, Windows(11, 1_000), 0)


def test_the_mean_of_the_delays_is_that_of_those_in_the_windows(usage: Usage) -> None:
    assert usage.mean_delay_ms(0) == 0
    assert usage.delays is None, "it takes no memory until somebody waits"
    usage.delayed(0, 0)
    assert usage.delays is None
    usage.delayed(100, 0)
    usage.delayed(300, 5_000)
    assert usage.mean_delay_ms(5_000) == pytest.approx(200)
    assert usage.mean_delay_ms(12_000) == pytest.approx(300), "the first one is forgotten"
    assert usage.mean_delay_ms(60_000) == 0
    assert usage.delayed_ms == 400


def test_who_is_held_back_is_known_while_it_is_and_a_moment_longer(usage: Usage) -> None:
    assert usage.held_back_ms(5_000) == 0
    usage.delayed(2_000, 5_000)
    assert usage.held_back_ms(5_000) == 1
    assert usage.held_back_ms(6_500) == 1_500
    assert usage.held_back_ms(7_000 + SLOWED_PAUSE_MS) == 2_000 + SLOWED_PAUSE_MS
    assert usage.held_back_ms(7_001 + SLOWED_PAUSE_MS) == 0
