"""Which of the eight levels of client quotas counts."""

from __future__ import annotations

from itertools import product

import pytest

from penstock.quota.levels import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    USER,
    Entity,
    Limit,
    QuotaValues,
    group_of,
    levels_of,
    resolve,
)

LEVELS = levels_of("alice", "web")
IN_WORDS = (
    "user alice, client web",
    "user alice, default client",
    "user alice",
    "default user, client web",
    "default user, default client",
    "default user",
    "client web",
    "default client",
)
"""The order of Kafka's documentation."""


def words(entity: Entity) -> str:
    names = dict(entity)
    parts = []
    for kind, noun in ((USER, "user"), (CLIENT_ID, "client")):
        if kind in names:
            parts.append(f"default {noun}" if names[kind] is None else f"{noun} {names[kind]}")
    return ", ".join(parts)


def test_the_levels_are_kafkas() -> None:
    assert tuple(map(words, LEVELS)) == IN_WORDS


@pytest.mark.parametrize("chosen", list(product((False, True), repeat=8)))
def test_the_most_specific_of_any_combination_wins(chosen: tuple[bool, ...]) -> None:
    quotas: dict[Entity, QuotaValues] = {
        entity: {PRODUCER_BYTE_RATE: 1.0 + number}
        for number, (entity, there) in enumerate(zip(LEVELS, chosen, strict=True))
        if there
    }
    found = resolve(quotas, "alice", "web", PRODUCER_BYTE_RATE)
    if not any(chosen):
        assert found is None
        return
    first = chosen.index(True)
    assert found == Limit(1.0 + first, LEVELS[first], first + 1)


def test_each_key_is_looked_up_by_itself() -> None:
    quotas: dict[Entity, QuotaValues] = {
        ((USER, "alice"),): {PRODUCER_BYTE_RATE: 1.0},
        ((USER, None),): {PRODUCER_BYTE_RATE: 2.0, CONSUMER_BYTE_RATE: 3.0},
    }
    assert resolve(quotas, "alice", "web", PRODUCER_BYTE_RATE) == (1.0, ((USER, "alice"),), 3)
    assert resolve(quotas, "alice", "web", CONSUMER_BYTE_RATE) == (3.0, ((USER, None),), 6)
    assert resolve(quotas, "bob", "web", PRODUCER_BYTE_RATE) == (2.0, ((USER, None),), 6)


def test_others_are_not_bound() -> None:
    quotas: dict[Entity, QuotaValues] = {
        ((CLIENT_ID, "web"), (USER, "alice")): {PRODUCER_BYTE_RATE: 1.0},
        (("ip", None),): {PRODUCER_BYTE_RATE: 1.0},
        (("group", "alice"),): {PRODUCER_BYTE_RATE: 1.0},
        (): {PRODUCER_BYTE_RATE: 1.0},
    }
    for user, client_id in (("alice", "app"), ("bob", "web"), ("alice", ""), ("", "web")):
        assert resolve(quotas, user, client_id, PRODUCER_BYTE_RATE) is None


def test_who_shares_a_limit_is_told_by_the_entity_that_counts() -> None:
    groups = [group_of(entity, "alice", "web") for entity in LEVELS]
    both, user, client = ("alice", "web"), ("alice", ""), ("", "web")
    assert groups == [both, both, user, both, both, user, client, client]
