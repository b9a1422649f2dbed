"""Why a limit counts: in every combination of the eight levels, and of the settings below them, what is said is so."""

from __future__ import annotations

from itertools import compress, product

import pytest

from penstock.quota.defaults import NoQuotas, WithDefaults, alike
from penstock.quota.explained import SETTINGS, Why, counting, explained, explained_address
from penstock.quota.levels import (
    BY_SETTING,
    CONTROLLER_MUTATION_RATE,
    DEFAULT_CLIENT,
    IP,
    PRODUCER_BYTE_RATE,
    Entity,
    QuotaValues,
    levels_of,
    resolve,
)
from penstock.quota.usages import Usages, Windows

LEVELS = levels_of("alice", "web")
CHOICES = list(product([False, True], repeat=len(LEVELS)))
RATE = "connection_creation_rate"


class Quotas(dict[Entity, QuotaValues]):
    """All quotas, as a dict."""


@pytest.mark.parametrize("by_setting", [False, True], ids=["", "with the setting"])
@pytest.mark.parametrize("chosen", CHOICES, ids=lambda chosen: "".join("-x"[each] for each in chosen))
def test_what_counts_is_what_binds_the_client(chosen: tuple[bool, ...], *, by_setting: bool) -> None:
    values = {entity: {PRODUCER_BYTE_RATE: 1.0 + number} for number, entity in enumerate(LEVELS)}
    quotas = Quotas(compress(values.items(), chosen))
    defaults = {PRODUCER_BYTE_RATE: 99.0} if by_setting else {}
    levels = explained(quotas, "alice", "web", PRODUCER_BYTE_RATE, {1: 99.0} if by_setting else None)
    counts = counting(levels)
    usages = Usages(Windows(11, 1_000), Windows(11, 1_000), 10, defaults)
    usages.configure(quotas)
    bound = usages.of("alice", "web", 0).produce
    assert (bound is None) == (counts is None)
    assert len(levels) == 9
    set_above = 0
    for level, is_set in zip(levels, (*chosen, by_setting), strict=True):
        expected = Why.NOT_SET if not is_set else Why.LESS_SPECIFIC if set_above else Why.COUNTS
        assert level.why is expected
        set_above += is_set
    if bound is not None and counts is not None:
        limit = counts.by_broker[1] if counts.by_broker else counts.value
        assert bound.limit == limit
        standing = usages.standing(bound)
        assert standing is not None
        assert standing.value == limit
        assert standing.level == counts.number


def test_no_setting_stands_in_for_other_limits() -> None:
    levels = explained(NoQuotas(), "alice", "web", CONTROLLER_MUTATION_RATE, {1: 5.0})
    assert [each.number for each in levels] == [*range(1, 9)]
    assert counting(levels) is None


def test_the_default_clients_quota_hides_the_setting_for_its_key_alone() -> None:
    quotas = WithDefaults(Quotas({DEFAULT_CLIENT: {"consumer_byte_rate": 3}}), {PRODUCER_BYTE_RATE: 7, "other": 1})
    assert quotas.get(DEFAULT_CLIENT) == {PRODUCER_BYTE_RATE: 7, "other": 1, "consumer_byte_rate": 3}
    standing = quotas.standing("consumer_byte_rate", "", "web", 8)
    assert standing is not None
    assert standing.level == 8
    by_setting = quotas.standing(PRODUCER_BYTE_RATE, "", "web", BY_SETTING)
    assert by_setting == (7, DEFAULT_CLIENT, BY_SETTING)
    assert quotas.standing(PRODUCER_BYTE_RATE, "alice", "", 3) is None, "levels that tell others apart do not stand in"
    assert resolve(quotas, "alice", "web", PRODUCER_BYTE_RATE) == (7, DEFAULT_CLIENT, 8)


def test_levels_that_tell_clients_apart_alike_are_those_of_the_eight() -> None:
    for level, entity in enumerate(LEVELS, 1):
        kinds = [kind for kind, _ in entity]
        same = [(number, each) for number, each in enumerate(LEVELS, 1) if [kind for kind, _ in each] == kinds]
        assert list(alike(level, "alice", "web")) == same
    assert alike(BY_SETTING, "alice", "web") == alike(8, "alice", "web")


def test_an_address_has_two_levels_and_may_be_written_otherwise() -> None:
    quotas = Quotas({((IP, "127.1"),): {RATE: 5.0}, ((IP, None),): {RATE: 1.0}})
    own, default = explained_address(quotas, {"127.0.0.1": "127.1"}, "127.0.0.1", RATE)
    assert (own.why, own.value, default.why) == (Why.COUNTS, 5.0, Why.LESS_SPECIFIC)
    own, default = explained_address(quotas, {"127.0.0.1": "127.1"}, "10.0.0.7", RATE)
    assert (own.why, default.why, default.value) == (Why.NOT_SET, Why.COUNTS, 1.0)


def test_every_setting_is_one_of_a_node() -> None:
    from penstock.config.server import SETTINGS as DECLARED

    assert set(SETTINGS.values()) <= set(DECLARED)
