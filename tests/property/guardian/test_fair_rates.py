"""Whatever the links and copies: no link is overdrawn, and each copy is held by a full one on which none gets more."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from penstock.guardian.twin.links import fair_rates

LINKS = 5


@given(
    st.lists(st.floats(0, 1e9), min_size=LINKS, max_size=LINKS),
    st.lists(st.lists(st.integers(0, LINKS - 1), min_size=1, max_size=3, unique=True), min_size=1, max_size=12),
)
def test_rates_are_max_min_fair(free: list[float], copies: list[list[int]]) -> None:
    capacity = np.array(free)
    uses = np.array([each + [-1] * (3 - len(each)) for each in copies])
    rates = fair_rates(capacity, uses)
    assert (rates >= 0).all()
    on = [[at for at, each in enumerate(copies) if link in each] for link in range(LINKS)]
    sums = np.array([rates[each].sum() for each in on])
    slack = 1e-6 * np.maximum(capacity, 1)
    assert (sums <= capacity + slack).all()
    for at, links in enumerate(copies):
        assert any(
            sums[link] >= capacity[link] - slack[link] and rates[on[link]].max() <= rates[at] + slack[link]
            for link in links
        )
