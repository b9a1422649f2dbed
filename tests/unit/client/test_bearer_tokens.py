"""Tokens of clients: from an endpoint or a file, kept, renewed, and given up when a broker refuses them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.issuer import CLIENT, RULES, SECRET, Issuer, client_properties
from support.processes import free_ports
from support.secured_broker import SecuredBroker

from penstock.client import bearer_tokens
from penstock.client.bearer_tokens import ALLOWED_URLS_VARIABLE, Tokens, authorization, current, refused, tokens_of
from penstock.client.client import Client
from penstock.client.limits import TOKENS_KEPT_MAX
from penstock.client.security import ClientSecurity, client_security
from penstock.config.oauthbearer import BearerListener, KeySource
from penstock.config.token_source import TokenSource
from penstock.config.values import Password
from penstock.errors import AuthenticationError, UnreachableError
from penstock.security.oauthbearer.exchange import OAuthBearerServer
from penstock.security.oauthbearer.keys import KeyRing, read_keys

QUICK = {"retry_ms": 1, "retry_max_ms": 5}


class Clock:
    """The machine's clock, as far as tokens see it."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> int:
        return int(time.time() * 1000) + self.ahead_ms


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    with Issuer().serving() as issuer:
        yield issuer


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(bearer_tokens, "wall_ms", clock)
    return clock


def source_of(issuer: Issuer, **changes: object) -> TokenSource:
    login = client_security(client_properties(issuer.token_url)).login
    assert login is not None
    assert login.source is not None
    return replace(login.source, **{**QUICK, **changes})  # type: ignore[arg-type]  # of the attributes' types


def tokens(source: TokenSource) -> Tokens:
    return Tokens(source, (source.url,))


def test_a_token_is_asked_for_once_and_kept(issuer: Issuer) -> None:
    found = tokens(source_of(issuer, scope="read write"))
    first = found.get()
    assert found.get() is first
    assert (first.subject, issuer.asked) == (CLIENT, ["/token"])
    assert first.text not in repr(first)


def test_it_is_renewed_before_it_ends_and_used_to_its_end_if_none_comes(issuer: Issuer, clock: Clock) -> None:
    found = tokens(source_of(issuer))
    first = found.get()
    clock.ahead_ms = 0.9 * 3_600_000  # type: ignore[assignment]  # any number does
    second = found.get()
    assert second is not first
    issuer.mode = "broken"
    clock.ahead_ms = 0
    issuer.lifetime_s = 3600
    clock.ahead_ms = second.renewed_at_ms - int(time.time() * 1000) + 1
    assert found.get() is second, "it is not over yet"
    clock.ahead_ms = 2 * 3_600_000
    with pytest.raises(UnreachableError, match="answers 500"):
        found.get()
    issuer.mode = ""
    issuer.lifetime_s = 4 * 3600
    assert found.get() is not second


def test_it_is_not_used_after_its_end_however_late_it_is_to_be_renewed(issuer: Issuer, clock: Clock) -> None:
    """The window's factor and jitter may add up to more than all of its life."""
    found = tokens(source_of(issuer, window_factor=1.0, window_jitter=0.25, min_period_s=900, buffer_s=3600))
    kept = found.kept = replace(found.get(), renewed_at_ms=int(time.time() * 1000) + 10_000_000)
    clock.ahead_ms = kept.expires_at_ms - int(time.time() * 1000) + 1
    assert found.fresh() is None


def test_a_clock_that_jumps_has_it_renewed_at_most(issuer: Issuer, clock: Clock) -> None:
    found = tokens(source_of(issuer))
    first = found.get()
    clock.ahead_ms = -86_400_000
    assert found.get() is first


@pytest.mark.parametrize(
    ("mode", "refuses", "kind", "sentence"),
    [
        ("broken", {}, UnreachableError, "answers 500"),
        ("elsewhere", {}, AuthenticationError, "answers 302"),
        ("huge", {}, AuthenticationError, "larger than"),
        (
            "",
            {"error": "invalid_scope", "error_description": "no\nsuch"},
            AuthenticationError,
            r"400 \(invalid_scope: no such\)",
        ),
        ("", {"error": "x" * 10_000}, AuthenticationError, r"400 \(x{500}\)$"),
    ],
)
def test_an_endpoint_that_gives_none(
    issuer: Issuer, mode: str, refuses: dict[str, str], kind: type[Exception], sentence: str
) -> None:
    issuer.mode, issuer.refuses = mode, refuses
    with pytest.raises(kind, match=sentence) as failed:
        tokens(source_of(issuer)).get()
    assert SECRET not in str(failed.value)


def test_wrong_credentials_and_an_endpoint_that_is_down(issuer: Issuer) -> None:
    with pytest.raises(AuthenticationError, match=r"answers 401 \(invalid_client: who is that"):
        tokens(source_of(issuer, client_secret=Password("wrong"))).get()
    assert issuer.asked == ["/token"], "what is final is not tried again"
    (port,) = free_ports(1)
    with pytest.raises(UnreachableError, match="cannot be asked"):
        tokens(source_of(issuer, url=f"http://127.0.0.1:{port}/token")).get()


def test_a_failure_that_may_pass_is_tried_again(issuer: Issuer) -> None:
    issuer.mode, issuer.mends_after = "broken", 3
    assert tokens(source_of(issuer, retry_ms=1, retry_max_ms=60_000)).get().subject == CLIENT
    assert issuer.asked == ["/token"] * 4


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no JSON Web Token"),
        ("opaque", "no JSON Web Token"),
        ("\u00e4", "has no token"),
        ("x" * 70_000, "too long"),
    ],
)
def test_a_file_without_a_token(tmp_path: Path, text: str, why: str) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(AuthenticationError, match=why):
        tokens(TokenSource(f"file://{tmp_path}/token")).get()


def test_a_token_in_a_file_is_read_again_when_it_is_time(tmp_path: Path, clock: Clock) -> None:
    issuer, file = Issuer(), tmp_path / "token"
    file.write_text(f"\n{issuer.token('first')}\n")
    found = tokens(TokenSource(f"file://{file}"))
    assert found.get().subject == "first"
    file.write_text(issuer.token("second", exp=int(time.time()) + 7200))
    assert found.get().subject == "first"
    clock.ahead_ms = 3_500_000
    assert found.get().subject == "second"
    file.write_text(issuer.token("third", exp=int(time.time()) - 1))
    clock.ahead_ms = 7_300_000
    with pytest.raises(AuthenticationError, match="has expired"):
        found.get()


def test_the_environment_says_which_urls_may_be_asked(
    issuer: Issuer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("canary")
    for url in (issuer.token_url, f"file://{tmp_path}/secret"):
        for urls in ("", f"{url}x", "https://other"):
            monkeypatch.setenv(ALLOWED_URLS_VARIABLE, urls)
            with pytest.raises(AuthenticationError, match=f"is not allowed: {ALLOWED_URLS_VARIABLE} must have it"):
                Tokens(source_of(issuer, url=url)).get()
    assert issuer.asked == []
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, f"https://other, {issuer.token_url}")
    assert Tokens(source_of(issuer)).get().subject == CLIENT


def test_credentials_are_encoded_as_they_are_wanted() -> None:
    source = TokenSource("https://x", "a:b", Password("c d/\u00e4"))
    assert authorization(source) == "Basic YTpiOmMgZC/DpA=="
    assert authorization(replace(source, url_encoded=True)) == "Basic YSUzQWI6YytkJTJGJUMzJUE0"


def test_few_tokens_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bearer_tokens, "_tokens", type(bearer_tokens._tokens)())
    first = tokens_of(TokenSource("https://x/0"))
    assert tokens_of(TokenSource("https://x/0")) is first
    for number in range(1, TOKENS_KEPT_MAX + 1):
        tokens_of(TokenSource(f"https://x/{number}"))
    assert len(bearer_tokens._tokens) == TOKENS_KEPT_MAX
    assert tokens_of(TokenSource("https://x/0")) is not first


# On connections


class BearerBroker(SecuredBroker):
    """A broker that takes the issuer's tokens."""

    def __init__(self, issuer: Issuer, lifetime_ms: int = 0) -> None:
        super().__init__(users={}, mechanisms=("OAUTHBEARER",), lifetime_ms=lifetime_ms)
        self.listener = BearerListener(RULES, KeySource(issuer.jwks_url, 1, 1, 1))
        self.ring = KeyRing(read_keys(issuer.jwks))

    def _login(self, mechanism: str) -> OAuthBearerServer:
        return OAuthBearerServer(self.listener, self.ring, lambda: int(time.time() * 1000))


async def connected(broker: SecuredBroker, security: ClientSecurity) -> None:
    async with Client(broker.address, security=security, timeout_ms=20_000):
        pass


def test_a_client_logs_in_with_its_token(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, issuer.token_url)

    async def work() -> list[str]:
        security = client_security(client_properties(issuer.token_url))
        async with BearerBroker(issuer) as broker:
            await connected(broker, security)
            await connected(broker, security)
            return broker.logins

    assert set(asyncio.run(work())) == {CLIENT}
    assert issuer.asked == ["/token"], "one token does for all connections"


def test_a_refused_token_is_not_used_again(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, issuer.token_url)
    security = client_security(client_properties(issuer.token_url))

    async def work() -> None:
        async with BearerBroker(issuer) as broker:
            keys, broker.ring.keys = broker.ring.keys, ()
            with pytest.raises(AuthenticationError, match="refuses the token of a-client by OAUTHBEARER") as failed:
                await connected(broker, security)
            assert '{"status":"invalid_token"}' in str(failed.value)
            broker.ring.keys = keys
            await connected(broker, security)

    asyncio.run(work())
    assert issuer.asked == ["/token", "/token"]


def test_no_token_is_no_connection(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ALLOWED_URLS_VARIABLE, raising=False)
    security = client_security(client_properties(issuer.token_url))

    async def work() -> int:
        async with BearerBroker(issuer) as broker:
            with pytest.raises(AuthenticationError, match="is not allowed"):
                await connected(broker, security)
            return broker.handshakes

    assert asyncio.run(work()) == 0


def test_asking_at_once_asks_once(issuer: Issuer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, issuer.token_url)
    source = source_of(issuer)

    async def work() -> None:
        found = await asyncio.gather(*(current(source) for _ in range(10)))
        assert len({each.text for each in found}) == 1
        refused(source)
        await current(source)

    asyncio.run(work())
    assert issuer.asked == ["/token", "/token"]
