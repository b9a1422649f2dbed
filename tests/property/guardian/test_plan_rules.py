"""Whatever the cluster and the rules: the verifier finds nothing against a plan, and the same input gives it again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from support.small_models import model_of

from penstock.guardian.plan import planner
from penstock.guardian.plan.document import plan
from penstock.guardian.plan.model import Model
from penstock.guardian.plan.rules import Capacity, Kept, Moved, Rules
from penstock.guardian.plan.verifier import verify

BROKERS = 5
RESTARTS = 10
"""Other beginnings of the search of small models: all of them would take most of the time and show nothing more."""


@pytest.fixture(scope="module", autouse=True)
def few_restarts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planner, "PLAN_RESTARTS_MAX", RESTARTS)
        yield


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Five brokers, up to three racks and some hosts that are shared, dead or new; up to ten partitions."""
    brokers = st.integers(0, BROKERS - 1)
    some = st.lists(brokers, max_size=1)
    partitions = draw(
        st.lists(
            st.tuples(st.lists(brokers, min_size=1, max_size=3, unique=True), st.integers(1, 120).map(float)),
            min_size=1,
            max_size=10,
        )
    )
    return model_of(
        partitions,
        draw(st.lists(st.integers(0, 2), min_size=BROKERS, max_size=BROKERS)),
        hosts=draw(st.none() | st.lists(st.integers(0, 3), min_size=BROKERS, max_size=BROKERS)),
        disks=2,
        dead=draw(some),
        dead_disks=draw(st.lists(st.integers(0, 2 * BROKERS - 1), max_size=1)),
        new=draw(some),
        topics=dict.fromkeys(draw(st.lists(st.integers(0, 9), max_size=4)), "u"),
        capacity=draw(st.sampled_from([150.0, 400.0, 2_000.0])),
    )


@st.composite
def rules(draw: st.DrawFn) -> Rules:
    some = st.lists(st.integers(0, BROKERS - 1), max_size=1).map(tuple)
    return Rules(
        capacity=Capacity(cpu=draw(st.sampled_from([0.7, 1.0]))),
        racks=draw(st.booleans()),
        hosts=draw(st.booleans()),
        replicas_per_broker_max=draw(st.none() | st.integers(2, 8)),
        excluded_brokers=draw(some),
        cordoned=draw(some),
        drained=draw(some),
    )


@pytest.mark.slow
@given(models(), rules(), st.integers(0, 3))
@settings(max_examples=100)
def test_no_plan_breaks_a_rule(model: Model, rules: Rules, seed: int) -> None:
    named = {"leaders_per_broker_min": {model.topics[0]: 1}} if seed == 1 else {}
    pinned = {"pinned": {model.topics[0]: (0, 1, 2)}} if seed == 2 else {}
    lately = {"moved": tuple(Moved(model.topics[0], 0, broker) for broker in range(2))} if seed == 3 else {}
    kept = {"kept": (Kept(model.topics[0], 0),)} if seed == 0 else {}
    rules = replace(rules, **named, **pinned, **lately, **kept)
    found = plan(model, rules, seed)
    assert verify(model, rules, found) == []
    assert plan(model, rules, seed) == found
