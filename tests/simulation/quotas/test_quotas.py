"""Client quotas in simulated clusters: what was answered survives, and who exceeds a quota is slowed down for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from penstock.metadata import records
from penstock.metadata.client_quotas import ClientQuotas
from penstock.node import client_quotas
from penstock.node.connection import Connection
from penstock.node.exit import Exit, size_of
from penstock.node.handlers import create_topics
from penstock.protocol.api import ApiKey
from penstock.quota import levels
from penstock.quota.connections import ConnectionRates
from penstock.quota.levels import Entity, QuotaValues
from penstock.quota.rate import Rate
from penstock.quota.token_bucket import TokenBucket
from penstock.quota.usages import Usage
from simulator.quotas.admins import SURVIVES
from simulator.quotas.rules import (
    ADDRESS,
    AT_ONCE,
    BUSY,
    CONSUMER,
    ENDS,
    HELD,
    LET_IN,
    MUTE,
    OLD,
    ONCE,
    PERMISSIVE,
    SLOWED,
    SPECIFIC,
    STRICT,
    TOKENS,
    UNREAD,
    WAITS,
)
from simulator.quotas.scenarios import QUOTA_SCENARIOS
from simulator.quotas.slowed import WatchedQuotas
from simulator.quotas.world import EVERYWHERE, QuotaWorld
from simulator.world.checks import Violation

SEED = 1_000
"""One each: more are run by `make simulate`."""
SCENARIO = QUOTA_SCENARIOS["quotas"]
TRIED_SEEDS = 60


def test_quotas_survive_every_failover_and_hold() -> None:
    world = QuotaWorld(SEED, SCENARIO)
    world.run()
    assert world.quota_admin.changes > 5
    assert len(world.quota_admin.known) > 3
    assert sum(world.faults.happened.values()) > 0
    told: Counter[str] = Counter()
    for overheard in world.overheard:
        told += overheard.told
    assert set(told) >= {SLOWED, CONSUMER, BUSY, STRICT, PERMISSIVE}, told
    assert sum(watch.refused for watch in world.watches) > 0
    assert sum(watch.older for watch in world.watches) > 0
    assert all(mutator.changes for mutator in world.mutators)
    assert world.knocker.let_in > 0
    assert world.knocker.refused > 0


def found(patch: pytest.MonkeyPatch, owner: Any, name: str, planted: Any) -> str:
    """The rule that a planted fault breaks."""
    patch.setattr(owner, name, planted)
    for seed in range(1, TRIED_SEEDS + 1):
        try:
            QuotaWorld(seed, SCENARIO).run()
        except Violation as broken:
            return str(broken).partition("\n")[0]
    return "none"


@pytest.mark.slow
def test_planted_a_checkpoint_without_quotas(monkeypatch: pytest.MonkeyPatch) -> None:
    said = found(monkeypatch, records, "quota_records", lambda quotas: ())
    assert any(rule in said for rule in (SURVIVES, EVERYWHERE, WAITS)), said


@pytest.mark.slow
def test_planted_a_deletion_that_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ClientQuotas.with_changes

    def without_deletions(quotas: ClientQuotas, changes: Mapping[Entity, QuotaValues]) -> ClientQuotas:
        return real(quotas, {entity: values for entity, values in changes.items() if values})

    said = found(monkeypatch, ClientQuotas, "with_changes", without_deletions)
    assert SURVIVES in said or EVERYWHERE in said, "a node that has read a checkpoint knows better"


@pytest.mark.slow
def test_planted_frames_that_slip_through_a_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "unmute", lambda *_: None)
    said = found(monkeypatch, Connection, "mute", lambda *_: None)
    assert MUTE in said or UNREAD in said, said


@pytest.mark.slow
def test_planted_a_mute_connection_that_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def holds(connection: Connection, effects: object) -> None:
        connection.holds += 1

    assert UNREAD in found(monkeypatch, Connection, "mute", holds)


@pytest.mark.slow
def test_planted_a_mute_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ENDS in found(monkeypatch, Exit, "_unmute", lambda *_: None)


@pytest.mark.slow
def test_planted_answers_that_wait_for_the_end_of_the_mute(monkeypatch: pytest.MonkeyPatch) -> None:
    """What they say is over by then, and the client would be held back for twice as long."""
    answered, unmute = Connection.answered, Connection.unmute
    kept: dict[Connection, list[Any]] = {}

    def keeps(connection: Connection, request: Any, chunks: Any, effects: Any) -> None:
        if connection.muted_until_ms:
            kept.setdefault(connection, []).append((request, chunks))
        else:
            answered(connection, request, chunks, effects)

    def gives(connection: Connection, effects: Any) -> None:
        unmute(connection, effects)
        for request, chunks in kept.pop(connection, ()):
            answered(connection, request, chunks, effects)

    monkeypatch.setattr(Connection, "unmute", gives)
    said = found(monkeypatch, Connection, "answered", keeps)
    assert UNREAD in said or MUTE in said, said


@pytest.mark.slow
def test_planted_bytes_that_are_counted_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Usage.count

    def twice(usage: Usage, amount: float, now_ms: int) -> int:
        real(usage, amount, now_ms)
        return real(usage, amount, now_ms)

    assert ONCE in found(monkeypatch, Usage, "count", twice)


def forget(rate: Rate, now_ms: int) -> None:
    """Keeps the last window alone."""
    del rate._samples[:-1]
    rate._total = rate._samples[-1][2] if rate._samples else 0.0


@pytest.mark.slow
def test_planted_a_window_that_forgets(monkeypatch: pytest.MonkeyPatch) -> None:
    said = found(monkeypatch, Rate, "forget", forget)
    assert WAITS in said or HELD in said, said


@pytest.mark.slow
def test_planted_a_window_that_forgets_is_seen_by_what_passes_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("simulator.quotas.slowed.SLACK_MS", 1e9)
    assert HELD in found(monkeypatch, Rate, "forget", forget)


@pytest.mark.slow
def test_planted_fetches_that_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    real = client_quotas.ClientQuotas.throttle_time_ms

    def free(quotas: client_quotas.ClientQuotas, request: Any, answer_bytes: int, now_ms: int) -> int:
        if request.handler.key is ApiKey.FETCH and request.usages is not None:
            request.usages = request.usages._replace(fetch=None)
        return real(quotas, request, answer_bytes, now_ms)

    said = found(monkeypatch, client_quotas.ClientQuotas, "throttle_time_ms", free)
    assert HELD in said, said
    assert "fetched" in said, said


@pytest.mark.slow
def test_planted_time_that_nobody_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    def count_time(usage: Usage, now_ms: int) -> None:
        usage.spent_ms = 0.0

    said = found(monkeypatch, Usage, "count_time", count_time)
    assert HELD in said, said
    assert "of the loop" in said, said


@pytest.mark.slow
def test_planted_the_wrong_level(monkeypatch: pytest.MonkeyPatch) -> None:
    real = levels.levels_of
    planted = lambda user, client_id: tuple(reversed(real(user, client_id)))  # noqa: E731 - one fault, in one line
    assert SPECIFIC in found(monkeypatch, levels, "levels_of", planted)


@pytest.mark.slow
def test_planted_quotas_that_a_broker_takes_into_force_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real = WatchedQuotas.configure

    def once(quotas: WatchedQuotas, given: Any) -> None:
        if not quotas.active:
            real(quotas, given)

    assert AT_ONCE in found(monkeypatch, WatchedQuotas, "configure", once)


@pytest.mark.slow
def test_planted_a_bucket_that_goes_negative_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TokenBucket.tokens

    def never_paid(bucket: TokenBucket, now_ms: int) -> float:
        if bucket._tokens < 0:
            return bucket._tokens
        return real(bucket, now_ms)

    said = found(monkeypatch, TokenBucket, "tokens", never_paid)
    assert LET_IN in said or TOKENS in said, said


@pytest.mark.slow
def test_planted_a_delay_that_is_too_short_for_the_debt(monkeypatch: pytest.MonkeyPatch) -> None:
    real = TokenBucket.delay_ms
    said = found(monkeypatch, TokenBucket, "delay_ms", lambda bucket, now_ms: real(bucket, now_ms) // 2)
    assert LET_IN in said, said


@pytest.mark.slow
def test_planted_a_bucket_without_a_bottom(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TOKENS in found(monkeypatch, TokenBucket, "delay_ms", lambda *_: 0)


@pytest.mark.slow
def test_planted_an_older_client_that_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert OLD in found(monkeypatch, create_topics, "STRICT_FROM", 2)


@pytest.mark.slow
def test_planted_a_broker_that_takes_no_notice_of_what_the_controller_says(monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(own: Exit, request: Any, answer: Any, chunks: Any, now_ms: int) -> int:
        delay_ms = own.quotas.throttle_time_ms(request, sum(map(size_of, chunks)), now_ms)
        own._mute(request.connection, now_ms + delay_ms)
        return max(0, request.connection.muted_until_ms - now_ms)

    assert UNREAD in found(monkeypatch, Exit, "_counted", counted)


@pytest.mark.slow
def test_planted_an_address_that_connects_as_it_likes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ADDRESS in found(monkeypatch, ConnectionRates, "delay_ms", lambda *_: 0)
