"""Plans of small models against the best there are, which HiGHS proves; `support.optimum` says what is compared."""

from __future__ import annotations

import numpy as np
import pytest
from support.optimum import PROVEN, optimum
from support.skewed_models import Shape, skewed
from support.small_models import model_of

from penstock.guardian.plan.document import plan
from penstock.guardian.plan.rules import Rules

NEAR = 1.1
TIME_LIMIT_SECONDS = 60.0


def compare(shape: Shape) -> None:
    model = skewed(shape)
    found = plan(model, Rules(), 1)
    best = optimum(model, Rules(), TIME_LIMIT_SECONDS)
    score = found["after"]["score"]
    assert best.bound <= best.found * (1 + 1e-9)
    assert best.found - best.bound <= 2 * PROVEN * best.found, "it is proven"
    assert best.bound <= score * (1 + 1e-6) + 1e-6, "no plan is better than the best"
    assert score <= NEAR * best.bound
    assert best.found < found["before"]["score"], "there was something to do"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_plan_for_three_brokers_is_within_a_tenth_of_the_best(seed: int) -> None:
    compare(Shape(3, 6, factor=2, disks=1, racks=2, topics=2, seed=seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 3])
def test_a_plan_for_four_brokers_is_within_a_tenth_of_the_best(seed: int) -> None:
    compare(Shape(4, 10, factor=2, disks=1, racks=2, topics=2, seed=seed))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4, 12))
def test_more_plans_for_three_brokers_are_within_a_tenth_of_the_best(seed: int) -> None:
    compare(Shape(3, 6, factor=2, disks=1, racks=2, topics=2, seed=seed))


def test_the_best_of_a_cluster_that_a_person_can_balance() -> None:
    """Two brokers, four equal partitions on one of them: two of them move, and nothing else is left to pay."""
    model = model_of([((0,), 10)] * 4, racks=[0, 0])
    rules = Rules(racks=False)
    best = optimum(model, rules, TIME_LIMIT_SECONDS)
    # each moved replica has half of what a broker is to have, and the overhead of a quarter of an average replica
    price = 2 * rules.goals.bytes_price * (0.5 + 0.25 * 0.5)
    assert np.isclose(best.found, price)
    assert np.isclose(best.bound, price, rtol=0.01)
