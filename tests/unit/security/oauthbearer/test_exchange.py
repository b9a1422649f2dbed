"""Both sides of OAUTHBEARER."""

from __future__ import annotations

import json
import time

import pytest
from support.issuer import RULES, Issuer, unsigned

from penstock.config.oauthbearer import BearerListener, KeySource, TokenRules
from penstock.security.oauthbearer.exchange import OAuthBearerClient, OAuthBearerServer
from penstock.security.oauthbearer.keys import KeyRing, read_keys
from penstock.security.sasl import LoginFailed

LISTENER = BearerListener(RULES, KeySource("https://issuer.example.com/keys", 1000, 100, 1000))
REFUSED = '{"status":"invalid_token"}'


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


def server(issuer: Issuer, listener: BearerListener = LISTENER) -> OAuthBearerServer:
    return OAuthBearerServer(listener, KeyRing(read_keys(issuer.jwks)), lambda: int(time.time() * 1000))


def test_a_token_logs_in_who_it_is_about_until_it_ends(issuer: Issuer) -> None:
    claims = issuer.claims()
    there, here = server(issuer), OAuthBearerClient(issuer.token(), [("zone", "a")])
    assert there.evaluate(here.first()) == b""
    assert (there.complete, there.user, there.mechanism) == (True, "alice", "OAUTHBEARER")
    assert there.expires_at_ms is not None
    assert 0 <= there.expires_at_ms - claims["exp"] * 1000 <= 2000
    assert here.evaluate(b"") is None
    assert here.complete
    with pytest.raises(LoginFailed, match="one message"):
        there.evaluate(here.first())


def test_a_refused_token_ends_as_rfc_7628_says(issuer: Issuer) -> None:
    there, here = server(issuer), OAuthBearerClient(issuer.token(aud="others"))
    answer = there.evaluate(here.first())
    assert answer.decode() == REFUSED
    assert not there.complete
    assert here.evaluate(answer) == b"\x01"
    with pytest.raises(LoginFailed, match="is not for the expected audience") as failed:
        there.evaluate(b"\x01")
    assert failed.value.told == REFUSED
    assert not there.complete
    assert there.user == ""


def test_after_a_refused_token_no_other_is_taken(issuer: Issuer) -> None:
    there = server(issuer)
    assert there.evaluate(OAuthBearerClient(issuer.token(iss="others")).first()).decode() == REFUSED
    with pytest.raises(LoginFailed) as failed:
        there.evaluate(OAuthBearerClient(issuer.token()).first())
    assert failed.value.told == ""
    assert not there.complete


def test_the_byte_1_by_itself_is_no_login(issuer: Issuer) -> None:
    with pytest.raises(LoginFailed):
        server(issuer).evaluate(b"\x01")


def test_nobody_acts_for_somebody_else(issuer: Issuer) -> None:
    message = OAuthBearerClient(issuer.token()).first()
    assert server(issuer).evaluate(message.replace(b"n,,", b"n,a=alice,")) == b""
    there = server(issuer)
    with pytest.raises(LoginFailed) as failed:
        there.evaluate(message.replace(b"n,,", b"n,a=root,"))
    assert failed.value.told == (
        "Authentication failed: Client requested an authorization id (root) that is different from the token's "
        "principal name (alice)"
    )
    assert not there.complete


def test_unsigned_tokens_where_they_are_allowed_and_only_there(issuer: Issuer) -> None:
    open_to_all = BearerListener(TokenRules(unsigned=True, required_scope=("LOGIN",)), None)
    there = server(issuer, open_to_all)
    assert there.evaluate(OAuthBearerClient(unsigned(issuer.claims("bob", scope="LOGIN"))).first()) == b""
    assert there.user == "bob"
    lacking = server(issuer, open_to_all)
    answer = json.loads(lacking.evaluate(OAuthBearerClient(unsigned(issuer.claims())).first()))
    assert answer == {"status": "insufficient_scope", "scope": "[LOGIN]"}
    for token, listener in ((issuer.token(), open_to_all), (unsigned(issuer.claims()), LISTENER)):
        assert server(issuer, listener).evaluate(OAuthBearerClient(token).first()).decode() == REFUSED


def test_a_server_that_goes_on_after_its_refusal(issuer: Issuer) -> None:
    here = OAuthBearerClient(issuer.token())
    assert here.evaluate(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(LoginFailed, match="invalid_token"):
        here.evaluate(b"")
    with pytest.raises(LoginFailed):
        here.derived(b"")
    assert not here.complete


def test_nothing_shows_a_token(issuer: Issuer) -> None:
    token = issuer.token(exp=1, iat=0)
    there = server(issuer)
    there.evaluate(OAuthBearerClient(token).first())
    with pytest.raises(LoginFailed) as failed:
        there.evaluate(b"\x01")
    assert token.split(".")[1] not in str(failed.value) + failed.value.told
