"""What a token must say to let its bearer in."""

from __future__ import annotations

from typing import Any

import pytest
from support.issuer import AUDIENCE, ISSUER, RULES, encoded, unsigned

from penstock.config.oauthbearer import TokenRules
from penstock.security.oauthbearer.tokens import Accepted, TokenRefused, check, parse

NOW_S = 1_800_000_000
GOOD: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 60}
UNSIGNED = TokenRules(unsigned=True, clock_skew_ms=0)


def checked(rules: TokenRules = RULES, at_s: float = NOW_S, **changes: Any) -> Accepted:
    """Checks the claims of a good token with changes; ... leaves a claim out."""
    claims = {name: value for name, value in {**GOOD, **changes}.items() if value is not ...}
    return check(parse(unsigned(claims)), rules, int(at_s * 1000))


def test_a_good_token_is_about_its_subject_until_it_ends() -> None:
    accepted = checked(scope="read", extra={"deep": [1]})
    assert accepted == Accepted("alice", ("read",), (NOW_S + 60) * 1000, (NOW_S - 10) * 1000)


def test_another_claim_may_name_the_user_and_the_scopes() -> None:
    rules = TokenRules(ISSUER, (AUDIENCE,), subject_claim="client_id", scope_claim="scp")
    accepted = checked(rules, client_id=" service ", scp=["a", "b "])
    assert (accepted.subject, accepted.scope) == ("service", ("a", "b"))


@pytest.mark.parametrize("audience", [AUDIENCE, ["other", AUDIENCE], [AUDIENCE]])
def test_one_of_its_audiences_is_enough(audience: Any) -> None:
    assert checked(aud=audience).subject == "alice"


def test_the_clocks_may_be_apart_by_the_skew_and_no_more() -> None:
    assert checked(at_s=NOW_S + 60 + 29.999).subject == "alice"
    with pytest.raises(TokenRefused, match="has expired"):
        checked(at_s=NOW_S + 60 + 30)
    assert checked(at_s=NOW_S, nbf=NOW_S + 30).subject == "alice"
    with pytest.raises(TokenRefused, match="not valid yet"):
        checked(at_s=NOW_S, nbf=NOW_S + 31)
    strict = TokenRules(ISSUER, (AUDIENCE,), clock_skew_ms=0)
    with pytest.raises(TokenRefused, match="has expired"):
        checked(strict, at_s=NOW_S + 60)


def test_a_clock_that_was_set_back_lets_in_nothing_that_is_not_valid_yet() -> None:
    with pytest.raises(TokenRefused, match="not valid yet"):
        checked(at_s=NOW_S - 86_400, nbf=NOW_S - 10)
    assert checked(at_s=NOW_S - 86_400).subject == "alice"  # as in Kafka, `iat` is not compared with the time


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": ...}, "issuer"),
        ({"iss": f"{ISSUER}/"}, "issuer"),
        ({"iss": [ISSUER]}, "issuer"),
        ({"iss": None}, "issuer"),
        ({"aud": ...}, "aud"),
        ({"aud": "other"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": [AUDIENCE, 1]}, "aud"),
        ({"aud": {AUDIENCE: 1}}, "aud"),
        ({"exp": ...}, "lacks the claim exp"),
        ({"exp": None}, "lacks the claim exp"),
        ({"exp": str(NOW_S + 60)}, "exp is no time"),
        ({"exp": True}, "exp is no time"),
        ({"exp": -1}, "exp is no time"),
        ({"exp": 1e300}, "exp is no time"),
        ({"exp": 10**400}, "exp is no time"),
        ({"exp": NOW_S - 31}, "has expired"),
        ({"iat": ...}, "lacks the claim iat"),
        ({"iat": [NOW_S]}, "iat is no time"),
        ({"iat": NOW_S + 61}, "ends before it begins"),
        ({"nbf": "soon"}, "nbf is no time"),
        ({"sub": ...}, "sub names nobody"),
        ({"sub": ""}, "sub names nobody"),
        ({"sub": " \t"}, "sub names nobody"),
        ({"sub": 7}, "sub names nobody"),
        ({"sub": ["alice"]}, "sub names nobody"),
        ({"sub": "alice\ud800"}, "sub is too long, or cannot be printed"),
        ({"sub": "alice\nbob"}, "sub is too long, or cannot be printed"),
        ({"sub": "alice\0"}, "sub is too long, or cannot be printed"),
        ({"sub": "\u202ealice"}, "sub is too long, or cannot be printed"),
        ({"sub": "a" * 1025}, "sub is too long, or cannot be printed"),
        ({"scope": ""}, "empty scope"),
        ({"scope": ["a", "a"]}, "scope twice"),
        ({"scope": ["a", 1]}, "no text"),
    ],
)
def test_what_lets_nobody_in(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why) as refused:
        checked(**changes)
    assert refused.value.status == "invalid_token"


def test_a_scope_of_another_kind_is_none() -> None:
    assert checked(scope=7).scope == checked(scope={"a": 1}).scope == checked().scope == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a.b",
        "a.b.c.d",
        "..",
        "a..c",
        f"{encoded({})}.{encoded([])}.x",
        f"{encoded({})}.{encoded('alice')}.x",
        f"{encoded({})}.{encoded(b'{')}.x",
        f"{encoded({})}.{encoded(b'')}.x",
        f"{encoded({})}.{encoded(bytes([0xFF]))}.x",
        f"{encoded({})}.{encoded(b'[' * 40_000)}.x",
        f"{encoded({})}.{encoded(b'{' + b'1' * 5000 + b'}')}.x",
        f'{encoded({})}.{encoded(b"""{"sub":"alice","sub":"root"}""")}.x',
        f'{encoded(b"""{"alg":"none","alg":"RS256"}""")}.{encoded({})}.x',
        f'{encoded({})}.{encoded(b"""{"exp":NaN}""")}.x',
        f"{encoded({})}.{encoded({})}=.x",
        f"{encoded({})}.{encoded({})}.+/",
        f"{encoded({})}.a.x",
        f"{encoded({})}.{encoded({})}.\u212a",
    ],
)
def test_what_is_no_token(text: str) -> None:
    with pytest.raises(TokenRefused) as refused:
        parse(text)
    assert "alice" not in str(refused.value)


def test_an_unsigned_token_needs_to_say_less() -> None:
    accepted = checked(UNSIGNED, iss=..., aud=..., iat=...)
    assert accepted == Accepted("alice", (), (NOW_S + 60) * 1000)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"exp": ...}, "exp"),
        ({"exp": NOW_S}, "has expired"),
        ({"iat": NOW_S + 1}, "future"),
        ({"exp": NOW_S + 5, "iat": NOW_S + 5}, "future"),
        ({"sub": ...}, "sub"),
    ],
)
def test_what_an_unsigned_token_must_say(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        checked(UNSIGNED, **changes)


def test_an_unsigned_token_must_not_pretend_to_be_signed() -> None:
    for text in (
        f"{encoded({'alg': 'none'})}.{encoded(GOOD)}.{encoded(b'x')}",
        f"{encoded({'alg': 'RS256'})}.{encoded(GOOD)}.",
        f"{encoded({})}.{encoded(GOOD)}.",
    ):
        with pytest.raises(TokenRefused, match="only unsigned"):
            check(parse(text), UNSIGNED, NOW_S * 1000)


def test_a_required_scope_may_be_asked_of_unsigned_tokens() -> None:
    rules = TokenRules(unsigned=True, required_scope=("LOGIN", "WRITE"))
    assert checked(rules, scope="WRITE LOGIN").subject == "alice"
    assert checked(rules, scope=["LOGIN", "WRITE"]).subject == "alice"
    with pytest.raises(TokenRefused, match="scope") as refused:
        checked(rules, scope="LOGIN")
    assert (refused.value.status, refused.value.scope) == ("insufficient_scope", "[LOGIN, WRITE]")
