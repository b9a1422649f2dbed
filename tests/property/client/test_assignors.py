"""Whoever leads a classic group shares every partition once, evenly, and for good after two rebalances."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.assignors import ASSIGNORS, RANGE, Shares, Wish, by_range, cooperatively
from penstock.client.client import Partition

TOPICS = {"a": 3, "b": 4, "c": 7}
PLACES = [(topic, index) for topic, count in TOPICS.items() for index in range(count)]

subscriptions = st.lists(st.sampled_from(["a", "b", "c", "gone"]), min_size=1, unique=True)
wishes = st.dictionaries(
    st.sampled_from("klmnop"),
    st.builds(Wish, subscriptions, st.lists(st.sampled_from(PLACES), unique=True), st.integers(-1, 2)),
    min_size=1,
)
Wishes = dict[str, Wish]


def wanted(wishes: Wishes) -> set[Partition]:
    return {place for place in PLACES if any(place[0] in wish.topics for wish in wishes.values())}


def after(wishes: Wishes, shares: Shares) -> Wishes:
    """What the members say next, when they have taken over their shares."""
    return {member: replace(wish, owned=shares[member], generation=3) for member, wish in wishes.items()}


@pytest.mark.parametrize("name", ASSIGNORS)
@given(wishes)
def test_no_partition_is_given_to_two_or_to_one_that_does_not_want_it(name: str, wishes: Wishes) -> None:
    shares = ASSIGNORS[name](wishes, TOPICS)
    given = [place for share in shares.values() for place in share]
    assert len(given) == len(set(given))
    assert all(place[0] in wishes[member].topics for member, share in shares.items() for place in share)
    assert name != RANGE or set(given) == wanted(wishes)


@given(wishes)
def test_cooperation_ends_in_the_second_generation_with_nobody_who_should_have_more(wishes: Wishes) -> None:
    second = after(wishes, cooperatively(wishes, TOPICS))
    shares = cooperatively(second, TOPICS)
    assert {place for share in shares.values() for place in share} == wanted(wishes)
    assert cooperatively(after(second, shares), TOPICS) == shares
    for share in shares.values():
        for topic, _ in share:
            assert all(len(shares[each]) + 1 >= len(share) for each in wishes if topic in wishes[each].topics)


def test_of_uneven_pieces_the_first_are_larger_as_in_kafka() -> None:
    five = {member: Wish(["c"], [], -1) for member in "klmno"}
    assert [len(share) for share in by_range(five, TOPICS).values()] == [2, 2, 1, 1, 1]
