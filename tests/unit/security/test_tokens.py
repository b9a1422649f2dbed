"""Logins by delegation token: the exchange, and whom and until when it lets in."""

from __future__ import annotations

from random import Random

import pytest
from support.tokens import exchange_of

from penstock.metadata.delegation_tokens import DelegationToken, hmac_of
from penstock.metadata.persistent import PersistentMap
from penstock.metadata.scram import ScramMechanism
from penstock.security import tokens
from penstock.security.sasl import Derivation, LoginFailed
from penstock.security.scram import ScramServer
from penstock.security.tokens import DelegationTokenSource, KeyUnderived, TokenLogins

SECRET = "canary"
SHA_256, SHA_512 = ScramMechanism
NOW_MS = 1_000_000
GOOD = DelegationToken("good", "User:alice", "User:root", (), 0, NOW_MS + 900, NOW_MS + 500)
LAST = DelegationToken("last", "User:a:b", "User:root", (), 0, NOW_MS + 100, NOW_MS + 500)
OF_GROUP = DelegationToken("of-group", "Group:alice", "User:root", (), 0, NOW_MS + 900, NOW_MS + 500)
OVER = DelegationToken("over", "User:alice", "User:root", (), 0, NOW_MS + 900, NOW_MS)


class World:
    """Tokens and the time; `derived` counts keys."""

    def __init__(self, *known: DelegationToken, secret: str = SECRET) -> None:
        self.tokens: PersistentMap[str, DelegationToken] = PersistentMap()
        for token in known or (GOOD, LAST, OVER, OF_GROUP):
            self.tokens = self.tokens.set(token.id, token)
        self.now_ms = NOW_MS
        self.derived = 0
        source = DelegationTokenSource(secret, lambda: self.tokens, lambda: self.now_ms, directory=0)
        self.logins = TokenLogins(source, Random(1))

    def server(self, mechanism: ScramMechanism) -> ScramServer:
        def look_up(user: str, is_token: bool) -> object:
            return self.logins.look_up(mechanism, user) if is_token else None

        return ScramServer(mechanism, "server-nonce", look_up, b"decoy")  # type: ignore[arg-type]  # what it returns

    def evaluate(self, server: ScramServer, token: bytes) -> bytes:
        """As a node does it: what is missing is derived, and the token evaluated again."""
        try:
            return server.evaluate(token)
        except KeyUnderived as missing:
            self.derived += 1
            missing.was_read(missing.read(None))
            return server.evaluate(token)

    def log_in(self, token_id: str, key: bytes, mechanism: ScramMechanism = SHA_256) -> ScramServer:
        server, client = self.server(mechanism), exchange_of(token_id, key, mechanism.sasl_name)
        step = client.evaluate(self.evaluate(server, client.first()))
        assert isinstance(step, Derivation)
        assert client.evaluate(self.evaluate(server, client.derived(step.derive()))) is None
        return server


@pytest.mark.parametrize("mechanism", list(ScramMechanism))
def test_the_bearer_logs_in_as_the_owner_until_the_token_ends(mechanism: ScramMechanism) -> None:
    world = World()
    server = world.log_in("good", hmac_of(SECRET, "good"), mechanism)
    assert (server.user, server.expires_at_ms, server.token_authenticated) == ("alice", NOW_MS + 500, True)
    server = world.log_in("last", hmac_of(SECRET, "last"), mechanism)
    assert (server.user, server.expires_at_ms) == ("a:b", NOW_MS + 100)
    assert world.derived == 2
    world.log_in("good", hmac_of(SECRET, "good"), mechanism)
    assert world.derived == 2, "a key is derived once"


@pytest.mark.parametrize(
    ("token_id", "key"),
    [
        ("good", hmac_of(SECRET, "last")),
        ("good", hmac_of("other key", "good")),
        ("good", b""),
        ("over", hmac_of(SECRET, "over")),
        ("of-group", hmac_of(SECRET, "of-group")),
        ("unknown", hmac_of(SECRET, "unknown")),
    ],
)
def test_nobody_else_is_let_in(token_id: str, key: bytes) -> None:
    world = World()
    with pytest.raises(LoginFailed):
        world.log_in(token_id, key)


def test_a_token_ends_and_is_removed_for_logins_too() -> None:
    world = World()
    key = hmac_of(SECRET, "good")
    world.log_in("good", key)
    world.now_ms = NOW_MS + 499
    world.log_in("good", key)
    world.now_ms = NOW_MS + 500
    with pytest.raises(LoginFailed):
        world.log_in("good", key)
    world.now_ms = NOW_MS
    world.tokens = world.tokens.remove("good")
    with pytest.raises(LoginFailed):
        world.log_in("good", key)


def test_without_the_key_there_are_no_tokens() -> None:
    world = World(secret="")
    with pytest.raises(LoginFailed):
        world.log_in("good", hmac_of("x", "good"))


def test_a_token_is_no_user_and_a_user_no_token() -> None:
    world = World()
    server, client = world.server(SHA_256), exchange_of("good", hmac_of(SECRET, "good"))
    step = client.evaluate(server.evaluate(client.first().replace(b",tokenauth=true", b"")))
    assert isinstance(step, Derivation)
    with pytest.raises(LoginFailed):
        server.evaluate(client.derived(step.derive()))
    assert not server.token_authenticated


@pytest.mark.parametrize(
    ("extensions", "is_token"),
    [
        (b",tokenauth=true", True),
        (b",tokenauth=TRUE", True),
        (b",a=b,tokenauth=true,c=d", True),
        (b"", False),
        (b",tokenauth=false", False),
        (b",tokenauth=truely", False),
        (b",xtokenauth=true", False),
        (b",TOKENAUTH=true", False),
    ],
)
def test_the_extension_says_what_the_name_is(extensions: bytes, is_token: bool) -> None:
    asked: list[bool] = []

    def look_up(user: str, token: bool) -> None:
        asked.append(token)

    ScramServer(SHA_256, "server-nonce", look_up, b"").evaluate(b"n,,n=good,r=abc" + extensions)
    assert asked == [is_token]


def test_keys_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "TOKEN_CREDENTIALS_MAX", 2)
    many = [DelegationToken(str(number), "User:a", "User:a", (), 0, NOW_MS + 9, NOW_MS + 9) for number in range(3)]
    world = World(*many)
    for number in (0, 1, 2, 2, 1):
        world.log_in(str(number), hmac_of(SECRET, str(number)))
    assert world.derived == 3
    world.log_in("0", hmac_of(SECRET, "0"))
    assert world.derived == 4, "the oldest had to go"


def test_nothing_shows_the_hmac() -> None:
    world = World()
    with pytest.raises(KeyUnderived) as missing:
        world.logins.look_up(SHA_512, "good")
    said = f"{missing.value!r} {missing.value} {missing.value.__dict__}"
    assert hmac_of(SECRET, "good").hex() not in said
    assert "canary" not in said
