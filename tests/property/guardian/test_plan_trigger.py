"""Whatever is looked at: a balance begins only after so many windows out of bounds, and ends within narrower ones."""

from __future__ import annotations

import json

import hypothesis.strategies as st
from hypothesis import given

from penstock.guardian.plan.trigger import Pace, Watch, is_out, look

PACE = Pace()
SHARES = st.none() | st.floats(0, 3)
LOOKS = st.lists(st.tuples(st.integers(1, 2), st.fixed_dictionaries({"a": SHARES, "b": SHARES})), max_size=40)


@given(LOOKS)
def test_each_beginning_has_its_windows_and_each_end_its_look(steps: list[tuple[int, dict[str, float | None]]]) -> None:
    watch, window, seen = Watch(), 0, []
    for step, shares in steps:
        window += step
        was = watch.balancing
        watch, verdict = look(watch, PACE, window, {place: [share] for place, share in shares.items()})
        seen.append((window, shares))
        assert Watch.of(json.loads(json.dumps(watch.document()))) == watch
        assert watch.balancing == ((was or verdict.begins) and not verdict.ends)
        assert not (verdict.begins and verdict.ends)
        assert not verdict.begins or not was
        if verdict.begins:
            last = seen[-PACE.windows :]
            assert [each for each, _ in last] == list(range(window - PACE.windows + 1, window + 1))
            assert any(
                all((share := shares[place]) is not None and is_out(share, PACE.begin) for _, shares in last)
                for place in "ab"
            )
        if verdict.ends:
            assert all(share is None or not is_out(share, PACE.end) for share in shares.values())
        if verdict.places:
            assert watch.balancing
            assert all(is_out(shares[place] or 0.0, PACE.end) for place in verdict.places)


@given(st.lists(st.floats(1 / 1.2 + 1e-9, 1.2), max_size=50))
def test_within_the_wide_bounds_nothing_ever_begins(shares: list[float]) -> None:
    watch = Watch()
    for window, share in enumerate(shares):
        watch, verdict = look(watch, PACE, window, {"a": [share]})
        assert not verdict.begins
