"""Who shares a quota with whom, what is kept of whom, and for how long."""

from __future__ import annotations

import gc
import math
import tracemalloc

import pytest

from penstock.quota.levels import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    Entity,
    QuotaValues,
)
from penstock.quota.limits import EXPIRES_AFTER_MS
from penstock.quota.usages import UNLIMITED, Usage, Usages, Windows

WINDOWS = Windows(11, 1_000)
ALICE: Entity = ((USER, "alice"),)
ALL_USERS: Entity = ((USER, None),)
PAIR: Entity = ((CLIENT_ID, "app"), (USER, "alice"))
ALL_OF_ALICE: Entity = ((CLIENT_ID, None), (USER, "alice"))


class Quotas(dict[Entity, QuotaValues]):
    """All quotas, as a dict."""


def usages(quotas: dict[Entity, QuotaValues], usages_max: int = 1_000) -> Usages:
    made = Usages(WINDOWS, WINDOWS, usages_max)
    made.configure(Quotas(quotas))
    return made


def forget(of: Usages, now_ms: int) -> list[Usage]:
    """Looks through all; those of whom the log tells."""
    told: list[Usage] = []
    for _ in of.look_through(now_ms, told.append):
        pass
    return told


def test_without_quotas_nobody_is_looked_up() -> None:
    assert not usages({}).active
    assert not usages({((("ip", "10.0.0.1"),)): {"connection_creation_rate": 1}}).active
    assert usages({ALICE: {PRODUCER_BYTE_RATE: 1}}).active


def test_a_user_shares_its_quota_over_client_ids_and_a_pair_does_not() -> None:
    of = usages({ALICE: {PRODUCER_BYTE_RATE: 100}, PAIR: {CONSUMER_BYTE_RATE: 200}})
    app, other = of.of("alice", "app", 0), of.of("alice", "other", 0)
    assert app.produce is not None
    assert app.produce is other.produce
    assert app.fetch is not None
    assert app.fetch.limit == 200
    assert other.fetch is None
    assert of.of("bob", "app", 0) is UNLIMITED


def test_a_default_holds_for_each_apart() -> None:
    of = usages({ALL_USERS: {PRODUCER_BYTE_RATE: 100}, ALL_OF_ALICE: {PRODUCER_BYTE_RATE: 50}})
    bob, carol = of.of("bob", "x", 0).produce, of.of("carol", "x", 0).produce
    assert bob is not None
    assert carol is not None
    assert bob is not carol
    assert bob is of.of("bob", "y", 0).produce, "a user's is shared by all of its client ids"
    assert of.of("alice", "x", 0).produce is not of.of("alice", "y", 0).produce


def test_what_was_used_counts_under_a_new_limit() -> None:
    of = usages({ALICE: {PRODUCER_BYTE_RATE: 10_000}})
    usage = of.of("alice", "", 0).produce
    assert usage is not None
    assert usage.count(50_000, 0) == 0
    of.configure(Quotas({ALICE: {PRODUCER_BYTE_RATE: 1_000}}))
    again = of.of("alice", "", 0).produce
    assert again is usage
    assert usage.count(1, 0) == pytest.approx(40_001, abs=1)


def test_a_limit_that_nothing_is_above_is_none() -> None:
    for limit in (math.inf, math.nan):
        assert usages({ALICE: {PRODUCER_BYTE_RATE: limit}}).of("alice", "", 0) is UNLIMITED


def test_what_is_as_new_is_forgotten_and_what_is_not_stays() -> None:
    of = usages({ALL_USERS: {PRODUCER_BYTE_RATE: 100, CONTROLLER_MUTATION_RATE: 1}})
    busy = of.of("busy", "", 0)
    assert busy.produce is not None
    assert busy.mutations is not None
    assert busy.mutations.tokens is not None
    busy.mutations.tokens.take(30, 0)
    for number in range(2_000):
        of.of(f"user-{number}", "", 0)
    assert len(of.kept) == 1_000
    forget(of, 0)
    assert set(of.kept) == {(CONTROLLER_MUTATION_RATE, "busy", "")}
    busy_again = of.of("busy", "", 0)
    assert busy_again.mutations is busy.mutations
    forget(of, 100_000)
    assert not of.kept


def test_those_beyond_the_bound_share_one_for_each_limit() -> None:
    of = usages({ALL_USERS: {PRODUCER_BYTE_RATE: 100}, ALICE: {PRODUCER_BYTE_RATE: 7}}, usages_max=2)
    first = of.of("u0", "", 0).produce, of.of("u1", "", 0).produce
    crowd = {id(of.of(f"u{number}", "", 0).produce) for number in range(2, 50)}
    assert len(crowd) == 1
    assert crowd.isdisjoint(map(id, first))
    alice = of.of("alice", "", 0).produce
    assert alice is not None
    assert alice.limit == 7
    assert id(alice) not in crowd
    assert of.crowded >= 49
    assert len(of.kept) == 2


def test_a_wait_without_a_pause_is_known_from_its_beginning() -> None:
    of = usages({ALICE: {PRODUCER_BYTE_RATE: 1_000}})
    usage = of.of("alice", "", 0).produce
    assert usage is not None
    now_ms = 5_000
    for _ in range(10):
        now_ms += usage.count(20_000, now_ms)
    assert usage.delayed_since_ms == 5_000
    assert usage.delayed_until_ms == now_ms
    assert usage.delayed_ms == now_ms - 5_000
    usage.count(100_000, now_ms + 60_000)
    assert usage.delayed_since_ms == now_ms + 60_000


def test_who_is_slowed_for_minutes_is_told_of_once() -> None:
    of = usages({ALICE: {PRODUCER_BYTE_RATE: 1_000}})
    usage = of.of("alice", "", 0).produce
    assert usage is not None
    told: list[Usage] = []
    now_ms = 0
    while now_ms < 400_000:
        now_ms += usage.count(5_000, now_ms) or 1
        told += forget(of, now_ms - 1)
    assert told == [usage]
    now_ms += 60_000
    assert not forget(of, now_ms)
    assert not of.kept


def test_a_long_delay_is_told_of_and_keeps_nothing() -> None:
    """Else a client with ever new ids would fill the table for as long as it was told to wait."""
    of = usages({ALICE: {PRODUCER_BYTE_RATE: 1}})
    usage = of.of("alice", "", 0).produce
    assert usage is not None
    assert usage.count(1_000_000, 0) > 900_000_000
    assert forget(of, 1) == [usage]
    assert not forget(of, 12_000)
    assert not of.kept


def test_what_is_owed_under_a_quota_of_0_is_forgotten_after_an_hour() -> None:
    of = usages({ALICE: {CONTROLLER_MUTATION_RATE: 0.0}})
    usage = of.of("alice", "", 0).mutations
    assert usage is not None
    assert usage.tokens is not None
    usage.tokens.take(5, 0)
    usage.rate.record(5, 0)
    for now_ms in range(60_000, EXPIRES_AFTER_MS + 60_000, 60_000):
        forget(of, now_ms)
        assert of.kept, now_ms
    forget(of, EXPIRES_AFTER_MS + 60_000)
    assert not of.kept
    usage = of.of("alice", "", 0).mutations
    assert usage is not None
    usage.rate.record(5, 4_000_000)
    forget(of, 4_000_000)
    assert of.kept, "it is in use again"


@pytest.mark.slow
def test_100_000_client_ids_take_1_kib_each_while_they_are_active_and_nothing_afterwards() -> None:
    count, minute_ms = 100_000, 60_000
    of = usages({((CLIENT_ID, None),): {PRODUCER_BYTE_RATE: 1e9}}, usages_max=count)
    gc.collect()
    tracemalloc.start()
    try:
        for number in range(count):
            now_ms = number * minute_ms // count
            usage = of.of("ANONYMOUS", f"client-{number}", now_ms).produce
            assert usage is not None
            usage.count(1_000, now_ms)
        assert len(of.kept) == count
        assert tracemalloc.get_traced_memory()[0] <= 1_024 * count
        forget(of, minute_ms + 12_000)
        gc.collect()
        left_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert not of.kept
    assert left_bytes < 10 * count


def test_time_that_nobody_has_counted_yet_is_not_forgotten() -> None:
    """It is counted when the next answer leaves, which may be long after a heavy request."""
    of = usages({ALICE: {REQUEST_PERCENTAGE: 1}})
    usage = of.of("alice", "", 0).request
    assert usage is not None
    usage.spent_ms = 5_000
    forget(of, 11_000)
    assert of.of("alice", "", 11_000).request is usage
    assert usage.rate.per_second(11_000) == pytest.approx(50), "500 percent of a second, over ten"
    forget(of, 22_000)
    assert not of.kept


def test_what_those_beyond_the_bound_have_used_outlasts_a_change_of_quotas() -> None:
    rate = {PRODUCER_BYTE_RATE: 1_000.0}
    of = usages({((CLIENT_ID, None),): rate}, usages_max=1)
    of.of("", "first", 0)
    second = of.of("", "second", 0).produce
    assert second is not None
    assert second.count(100_000, 0) == 90_000
    of.configure(Quotas({((CLIENT_ID, None),): rate, ALICE: {PRODUCER_BYTE_RATE: 5.0}}))
    assert of.of("", "second", 1).produce is second, "another's quota has changed"
    of.configure(Quotas({((CLIENT_ID, None),): {PRODUCER_BYTE_RATE: 2_000.0}}))
    assert not of.shared, "nobody has that limit any more"
