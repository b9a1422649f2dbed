"""How fast copies may be: a function of signals alone, which gives way at once and comes back slowly."""

from __future__ import annotations

from itertools import pairwise

import hypothesis.strategies as st
import pytest
from hypothesis import given

from penstock.guardian.core.work import budget
from penstock.guardian.core.work.budget import (
    CEILING_BYTES,
    FLOOR_BYTES,
    GIVEN_UP,
    GREENS,
    HELD,
    OPEN,
    PAUSED_MAX_MS,
    REDS_AT_FLOOR,
    STEP_MS,
    Pace,
    Signals,
    next_pace,
    red,
)

GREEN, RED = Signals(behind=0), Signals(behind=1)
signals = st.builds(
    Signals,
    disk_utilisation=st.none() | st.floats(0, 1),
    p99_ms=st.none() | st.floats(0, 1_000),
    quiet_p99_ms=st.none() | st.floats(0, 1_000),
    behind=st.none() | st.integers(0, 3),
)


def paces(looks: list[Signals]) -> list[Pace]:
    """The pace after each look."""
    found = [Pace()]
    for number, look in enumerate(looks, 1):
        found.append(next_pace(found[-1], look, number * STEP_MS))
    return found


@given(st.lists(signals, max_size=60))
def test_the_rate_stays_within_its_bounds_and_gives_way_at_once(looks: list[Signals]) -> None:
    found = paces(looks)
    for before, after, look in zip(found, found[1:], looks, strict=False):
        assert FLOOR_BYTES <= after.rate_bytes <= CEILING_BYTES
        if red(look):
            assert after.rate_bytes == max(FLOOR_BYTES, before.rate_bytes // 2)
            assert after.why == red(look)
        else:
            assert after.rate_bytes >= before.rate_bytes
            assert after.reds == 0


@given(st.lists(signals, min_size=1, max_size=60))
def test_it_grows_only_after_some_looks_in_a_row_without_a_red_signal(looks: list[Signals]) -> None:
    check_growth(looks)


def check_growth(looks: list[Signals]) -> None:
    found = paces(looks)
    for number, (before, after) in enumerate(pairwise(found), 1):
        if after.rate_bytes > before.rate_bytes:
            assert not any(red(each) for each in looks[max(0, number - GREENS) : number])
            assert number >= GREENS
            assert after.state == OPEN


@given(st.lists(signals, max_size=60))
def test_it_holds_only_at_the_floor_and_gives_up_only_after_having_held(looks: list[Signals]) -> None:
    found = paces(looks)
    for number, (before, after) in enumerate(pairwise(found), 1):
        if after.state == HELD and before.state == OPEN:
            assert before.rate_bytes == FLOOR_BYTES
            assert all(red(each) for each in looks[number - REDS_AT_FLOOR : number])
        if after.state == GIVEN_UP and before.state != GIVEN_UP:
            assert before.state == HELD
            assert number * STEP_MS - before.held_ms >= PAUSED_MAX_MS


def test_from_the_first_rate_to_giving_up_and_back() -> None:
    found = paces([RED] * 20 + [GREEN] * 3)
    states = [each.state for each in found]
    assert states.index(HELD) == 8, "five halvings to the floor, and three looks there"
    assert (states.index(GIVEN_UP) - states.index(HELD)) * STEP_MS == PAUSED_MAX_MS
    assert states[-1] == OPEN
    assert found[-1].rate_bytes > FLOOR_BYTES


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (Signals(disk_utilisation=0.95), "a disk is 95% busy"),
        (Signals(disk_utilisation=0.9), ""),
        (Signals(p99_ms=29.0, quiet_p99_ms=10.0), ""),
        (Signals(p99_ms=31.0, quiet_p99_ms=10.0), "requests take 31 ms (p99), and may take 30"),
        (Signals(p99_ms=199.0, quiet_p99_ms=100.0), ""),
        (Signals(p99_ms=201.0, quiet_p99_ms=100.0), "requests take 201 ms (p99), and may take 200"),
        (Signals(p99_ms=900.0), ""),
        (Signals(behind=2), "2 replicas that nobody moves are not in sync"),
        (Signals(), ""),
    ],
)
def test_each_signal_is_red_beyond_its_bound(look: Signals, said: str) -> None:
    assert red(look) == said


def test_a_planted_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "GREENS", 1)
    with pytest.raises(AssertionError):
        check_growth([RED, GREEN])
