"""When keys are fetched anew, and when a token is."""

from __future__ import annotations

from penstock.config.oauthbearer import KeySource
from penstock.config.token_source import TokenSource
from penstock.security.limits import JWKS_KEPT_MS, JWKS_WANTED_PAUSE_MS
from penstock.security.oauthbearer.refresh import Refresh, renewed_at_ms

HOUR_MS = 3_600_000
SOURCE = KeySource("https://issuer.example.com/keys", refresh_ms=HOUR_MS, retry_ms=100, retry_max_ms=10_000)


def fetched_at(now_ms: int) -> Refresh:
    refresh = Refresh(SOURCE, now_ms)
    assert refresh.due_ms == now_ms
    refresh.succeeded(now_ms)
    return refresh


def test_keys_are_fetched_at_once_and_then_from_time_to_time() -> None:
    assert fetched_at(5).due_ms == 5 + HOUR_MS


def test_pauses_after_failures_double_up_to_a_limit_and_end_with_success() -> None:
    refresh, pauses = fetched_at(0), []
    for _ in range(9):
        refresh.failed(1000)
        pauses.append(refresh.due_ms - 1000)
    assert pauses == [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000]
    for _ in range(200):
        refresh.failed(1000)
    assert refresh.due_ms == 11_000
    refresh.succeeded(2000)
    refresh.failed(3000)
    assert refresh.due_ms == 3100


def test_an_unknown_key_has_them_fetched_sooner_but_not_all_the_time() -> None:
    refresh, fetches = fetched_at(0), 0
    for now_ms in range(20_000, 80_000, 10):  # a flood of tokens with keys that do not exist
        refresh.wanted(now_ms)
        if refresh.due_ms <= now_ms:
            refresh.succeeded(now_ms)
            fetches += 1
    assert fetches == 60_000 // JWKS_WANTED_PAUSE_MS


def test_a_flood_does_not_hurry_retries() -> None:
    refresh = fetched_at(0)
    for _ in range(10):
        refresh.failed(50_000)
    refresh.wanted(50_001)
    assert refresh.due_ms == 60_000


def test_keys_that_cannot_be_fetched_anew_are_used_for_a_day() -> None:
    refresh = fetched_at(0)
    refresh.failed(HOUR_MS)
    assert not refresh.is_stale(JWKS_KEPT_MS - 1)
    assert refresh.is_stale(JWKS_KEPT_MS)
    rarely = Refresh(KeySource("https://x", refresh_ms=JWKS_KEPT_MS, retry_ms=1, retry_max_ms=1), 0)
    assert not rarely.is_stale(2 * JWKS_KEPT_MS - 1)
    assert rarely.is_stale(2 * JWKS_KEPT_MS)


def test_a_token_is_renewed_when_most_of_its_life_is_over() -> None:
    source = TokenSource("https://issuer.example.com/token")
    assert renewed_at_ms(source, 0, HOUR_MS, 0, 0.0) == HOUR_MS * 0.8
    assert renewed_at_ms(source, 0, HOUR_MS, 0, 0.999999) == int(HOUR_MS * 0.84999995)
    assert renewed_at_ms(source, None, HOUR_MS + 500, 500, 0.0) == 500 + HOUR_MS * 0.8


def test_not_too_late_and_not_too_soon() -> None:
    source = TokenSource("https://issuer.example.com/token", window_factor=1.0, window_jitter=0.0)
    assert renewed_at_ms(source, 0, HOUR_MS, 0, 0.0) == HOUR_MS - 300_000
    soon = TokenSource("https://issuer.example.com/token", window_factor=0.5, window_jitter=0.0)
    assert renewed_at_ms(soon, 0, 800_000, 400_000, 0.0) == 460_000
    short = renewed_at_ms(soon, 0, 60_000, 0, 0.0)
    assert short == 30_000, "the buffers do not fit into a life of a minute"


def test_a_token_of_the_future_is_renewed_within_its_life() -> None:
    source = TokenSource("https://issuer.example.com/token")
    assert renewed_at_ms(source, 10 * HOUR_MS, HOUR_MS, 0, 0.0) == HOUR_MS * 0.8
