"""Whatever comes as a message of OAUTHBEARER or as a token: it is refused, or it is what the issuer signed."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.issuer import RULES, Issuer, encoded

from penstock.config.oauthbearer import BearerListener, KeySource
from penstock.security.oauthbearer.exchange import OAuthBearerServer
from penstock.security.oauthbearer.keys import ALGORITHMS, BadKeys, KeyRing, read_keys, verify
from penstock.security.oauthbearer.messages import first_message, parse_first
from penstock.security.oauthbearer.tokens import TokenRefused, check, parse
from penstock.security.sasl import LoginFailed

ISSUER = Issuer()
RING = KeyRing(read_keys(ISSUER.jwks))
CLAIMS = ISSUER.claims()
NOW_MS = CLAIMS["iat"] * 1000
TOKEN = ISSUER.token()
LISTENER = BearerListener(RULES, KeySource("https://issuer.example.com/keys", 1, 1, 1))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(st.characters(categories=["Lu", "Ll"], max_codepoint=127), min_size=1, max_size=8).filter(
    lambda t: t != "auth"
)
VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=12)


def server() -> OAuthBearerServer:
    return OAuthBearerServer(LISTENER, RING, lambda: NOW_MS)


@given(st.from_regex(r"[A-Za-z0-9._-]{1,40}", fullmatch=True), st.dictionaries(NAMES, VALUES, max_size=4))
def test_every_message_is_read_as_it_was_written(token: str, extensions: dict[str, str]) -> None:
    first = parse_first(first_message(token, extensions.items()))
    assert (first.token, dict(first.extensions)) == (token, extensions)


@given(st.lists(st.binary(max_size=80) | st.just(b"\x01"), max_size=4))
def test_garbage_ends_a_login_and_nothing_else(messages: list[bytes]) -> None:
    there = server()
    try:
        for message in messages:
            there.evaluate(message)
    except LoginFailed:
        pass
    assert not there.complete


@settings(max_examples=300)
@given(st.integers(0), st.integers(0, 255))
def test_a_changed_message_lets_nobody_in_as_somebody_else(position: int, byte: int) -> None:
    message = bytearray(first_message(TOKEN))
    message[position % len(message)] = byte
    there = server()
    try:
        there.evaluate(bytes(message))
    except LoginFailed:
        return
    assert there.user in ("", "alice")
    if there.complete:  # only what is not part of the token may differ, such as the case of `bearer`
        changed = parse_first(bytes(message)).token
        assert changed == TOKEN or parse(changed).signature == parse(TOKEN).signature


@settings(max_examples=300)
@given(st.integers(0), st.sampled_from("AZaz09-_.="))
def test_a_changed_token_is_refused(position: int, letter: str) -> None:
    position %= len(TOKEN)
    changed = TOKEN[:position] + letter + TOKEN[position + 1 :]
    assume(changed != TOKEN)
    try:
        token = parse(changed)
        verify(token, RING)
    except TokenRefused:
        return
    assert token.claims == parse(TOKEN).claims, "base64 may have spare bits at the end of a signature, and that is all"


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "jwk", "x"]), JSON), st.binary(max_size=70))
def test_no_header_makes_a_forged_signature_right(header: dict[str, Any], signature: bytes) -> None:
    text = f"{encoded(header)}.{encoded(CLAIMS)}.{encoded(signature)}"
    try:
        verify(parse(text), RING)
    except TokenRefused:
        return
    raise AssertionError(text)


@given(st.sampled_from(ALGORITHMS), st.sampled_from(["rsa", "ec", None]), st.binary(max_size=300))
def test_no_algorithm_takes_a_random_signature(algorithm: str, key_id: str | None, signature: bytes) -> None:
    header = {"alg": algorithm, **({} if key_id is None else {"kid": key_id})}
    test_no_header_makes_a_forged_signature_right.hypothesis.inner_test(header, signature)  # type: ignore[attr-defined]  # hypothesis adds it


@given(st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "iat", "nbf", "scope"]), JSON))
def test_claims_of_any_kind_let_in_only_as_the_rules_say(changes: dict[str, Any]) -> None:
    claims = {**CLAIMS, **changes}
    try:
        accepted = check(parse(f"{encoded({'alg': 'ES256'})}.{encoded(claims)}.x"), RULES, NOW_MS)
    except (TokenRefused, ValueError):  # ValueError: JSON of Python's for what is none, such as NaN
        return
    assert claims["iss"] == RULES.issuer
    assert RULES.audiences[0] in ([claims["aud"]] if isinstance(claims["aud"], str) else claims["aud"])
    assert accepted.subject == claims["sub"].strip() != ""
    assert accepted.expires_at_ms > NOW_MS - RULES.clock_skew_ms


@given(st.binary(max_size=200) | JSON.map(lambda value: json.dumps({"keys": [value]}).encode()))
def test_what_is_no_set_of_keys_is_refused(data: bytes) -> None:
    try:
        read_keys(data)
    except BadKeys:
        return
    raise AssertionError(data)
