"""When a balance begins and ends, and which replicas rest."""

from __future__ import annotations

import json

import pytest

from penstock.guardian.plan.rules import Moved
from penstock.guardian.plan.trigger import Pace, Verdict, Watch, has_moved, look, resting

PACE = Pace()
HOUR_MS = 3_600_000


def looks(*shares: float | None, first: int = 0) -> tuple[Watch, list[Verdict]]:
    """What each of these windows has come to, for broker 1; broker 2 always has its share."""
    watch, found = Watch(), []
    for window, share in enumerate(shares, start=first):
        watch, verdict = look(watch, PACE, window, {"broker 1": [share], "broker 2": [1.0, None]})
        found.append(verdict)
    return watch, found


def begun(*shares: float | None) -> list[bool]:
    return [each.begins for each in looks(*shares)[1]]


def test_it_begins_with_the_third_window_out_of_bounds_and_not_before() -> None:
    assert begun(1.3, 1.3, 1.3, 1.3) == [False, False, True, False]
    assert begun(0.5, 0.5, 0.5) == [False, False, True]
    assert begun(1.3, 0.5, 1.3) == [False, False, True], "too much or too little"


def test_a_window_within_bounds_begins_the_count_anew() -> None:
    assert begun(1.3, 1.3, 1.2, 1.3, 1.3) == [False] * 5
    assert begun(1.3, 1.3, 1.2, 1.3, 1.3, 1.3)[-1]


def test_at_the_bounds_nothing_is_out() -> None:
    assert not any(begun(*[1.2] * 9))
    assert not any(begun(*[1 / 1.2] * 9))


def test_it_ends_within_the_narrower_bounds_only() -> None:
    _, found = looks(1.3, 1.3, 1.3, 1.15, 1.11, 1.1, 1.15)
    assert [each.places for each in found] == [(), (), *[("broker 1",)] * 3, (), ()]
    assert [each.ends for each in found] == [False] * 5 + [True, False]


def test_what_was_not_measured_moves_nothing() -> None:
    assert begun(1.3, 1.3, None, 1.3, 1.3) == [False] * 5
    assert begun(1.3, 1.3, float("nan"), 1.3, float("inf")) == [False] * 5
    watch, _ = looks(1.3, 1.3, 1.3)
    after, verdict = look(watch, PACE, 3, {})
    assert (after.balancing, verdict.ends) == (True, False), "nor is anything known to be well"


def test_a_gap_between_windows_begins_the_count_anew_and_a_repeated_window_counts_once() -> None:
    watch = Watch()
    for window in (0, 1, 1, 1, 3, 4, 2):
        watch, verdict = look(watch, PACE, window, {"broker 1": [2.0]})
        assert not verdict.begins
    assert look(watch, PACE, 5, {"broker 1": [2.0]})[1].begins


def test_a_replica_rests_for_a_day() -> None:
    watch = has_moved(has_moved(Watch(), "t", 0, 3, 5 * HOUR_MS), "t", 1, 3, 10 * HOUR_MS)
    watch, found = resting(watch, PACE, 28 * HOUR_MS)
    assert found == (Moved("t", 0, 3), Moved("t", 1, 3))
    watch, found = resting(watch, PACE, 29 * HOUR_MS)
    assert found == (Moved("t", 1, 3),)
    assert resting(watch, PACE, 40 * HOUR_MS) == (Watch(), ())


def test_it_goes_through_json() -> None:
    watch = has_moved(looks(1.3, 1.3)[0], "t", 0, 3, 5)
    assert Watch.of(json.loads(json.dumps(watch.document()))) == watch


@pytest.mark.parametrize("wrong", [{"end": 1.3}, {"end": 0.9}, {"windows": 0}, {"rest_ms": -1}])
def test_a_pace_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Pace(**wrong)  # type: ignore[arg-type]  # whole numbers or not
