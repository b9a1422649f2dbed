"""With which keys and algorithms a token may be signed."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import pytest
from support.issuer import RSA, Issuer, encoded, unsigned

from penstock.security.limits import JWKS_KEYS_MAX, KEY_ID_MAX_CHARACTERS
from penstock.security.oauthbearer.keys import ALGORITHMS, BadKeys, KeyRing, read_keys, verify
from penstock.security.oauthbearer.tokens import TokenRefused, parse

CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest.fixture
def ring(issuer: Issuer) -> KeyRing:
    return KeyRing(read_keys(issuer.jwks))


def refused(token: str, ring: KeyRing, why: str) -> None:
    with pytest.raises(TokenRefused, match=why):
        verify(parse(token), ring)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_asymmetric_algorithm(algorithm: str, issuer: Issuer) -> None:
    key = RSA if algorithm[0] in "RP" else Issuer.new_key("k", CURVES[algorithm])
    ring = KeyRing(read_keys(json.dumps({"keys": [key.as_dict(private=False)]}).encode()))
    verify(parse(issuer.token(algorithm=algorithm, key=key)), ring)
    refused(issuer.token(algorithm=algorithm, key=key)[:-8] + "AAAAAAAA", ring, "signature is wrong")


def test_other_claims_or_another_header_under_the_same_signature(issuer: Issuer, ring: KeyRing) -> None:
    header, claims, signature = issuer.token().split(".")
    _, others, _ = issuer.token("root").split(".")
    refused(f"{header}.{others}.{signature}", ring, "signature is wrong")
    longer = encoded({"alg": "ES256", "kid": "ec", "typ": "x"})
    refused(f"{longer}.{claims}.{signature}", ring, "signature is wrong")
    refused(f"{header}.{claims}.", ring, "signature is wrong")


def test_nobody_gets_in_unsigned(issuer: Issuer, ring: KeyRing) -> None:
    for algorithm in ("none", "None", "NONE", "nOnE", "", None, 1, ["ES256"]):
        refused(unsigned(issuer.claims(), alg=algorithm, kid="ec"), ring, "not allowed")
    refused(f"{encoded({'kid': 'ec'})}.{encoded(issuer.claims())}.", ring, "not allowed")


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_shared_secret(algorithm: str, issuer: Issuer, ring: KeyRing) -> None:
    """The old trick: HMAC with the public key, which everybody has, as the secret."""
    signed = f"{encoded({'alg': algorithm, 'kid': 'rsa'})}.{encoded(issuer.claims())}"
    for secret in (RSA.as_pem(private=False), RSA.as_der(private=False), issuer.jwks):
        signature = hmac.new(secret, signed.encode(), getattr(hashlib, f"sha{algorithm[2:]}")).digest()
        refused(f"{signed}.{encoded(signature)}", ring, "not allowed")


def test_a_secret_in_a_set_is_passed_over(issuer: Issuer) -> None:
    secret = {"kty": "oct", "kid": "s", "k": base64.urlsafe_b64encode(b"secret" * 8).decode().rstrip("=")}
    with pytest.raises(BadKeys, match="none of its 1 keys"):
        read_keys(json.dumps({"keys": [secret]}).encode())
    found = json.loads(issuer.jwks)
    found["keys"].append(secret)
    assert [key.id for key in read_keys(json.dumps(found).encode())] == ["rsa", "ec"]


def test_a_key_that_the_token_brings_along_does_not_count(issuer: Issuer, ring: KeyRing) -> None:
    own = Issuer.new_key("ec")
    for header in ({"jwk": own.as_dict(private=False)}, {"jku": "https://evil.example.com/keys"}, {"x5u": "https://e"}):
        refused(issuer.token(key=own, header=header), ring, "signature is wrong")
        refused(issuer.token(key=own, header={**header, "kid": None}), ring, "signature is wrong")


def test_what_must_be_understood_and_is_not(issuer: Issuer, ring: KeyRing) -> None:
    _, claims, signature = issuer.token().split(".")
    for extra in ({"crit": ["exp"], "exp": 1}, {"crit": []}, {"b64": False}):
        refused(f"{encoded({'alg': 'ES256', 'kid': 'ec', **extra})}.{claims}.{signature}", ring, "not known here")


def test_a_key_is_for_its_own_kind_curve_and_algorithm(issuer: Issuer, ring: KeyRing) -> None:
    refused(f"{encoded({'alg': 'RS256', 'kid': 'ec'})}.{encoded({})}.AAAA", ring, "no key")
    refused(f"{encoded({'alg': 'ES384', 'kid': 'ec'})}.{encoded({})}.AAAA", ring, "no key")
    public = {**RSA.as_dict(private=False), "alg": "PS256"}
    only = KeyRing(read_keys(json.dumps({"keys": [public]}).encode()))
    verify(parse(issuer.token(algorithm="PS256")), only)
    refused(issuer.token(algorithm="RS256"), only, "no key")


def test_a_token_names_its_key_and_else_all_are_tried(issuer: Issuer) -> None:
    keys = [Issuer.new_key(str(number)) for number in range(3)]
    with_ids = [key.as_dict(private=False) for key in keys]
    ring = KeyRing(read_keys(json.dumps({"keys": with_ids}).encode()))
    verify(parse(issuer.token(key=keys[2])), ring)
    verify(parse(issuer.token(key=keys[2], header={"kid": None})), ring)
    refused(issuer.token(key=keys[2], header={"kid": "1"}), ring, "signature is wrong")
    without = [{name: text for name, text in each.items() if name != "kid"} for each in with_ids]
    verify(parse(issuer.token(key=keys[2])), KeyRing(read_keys(json.dumps({"keys": without}).encode())))


def test_an_unknown_key_is_asked_for(issuer: Issuer) -> None:
    wanted: list[str] = []
    ring = KeyRing(read_keys(issuer.jwks), lambda: wanted.append("keys"))
    refused(issuer.token(key=Issuer.new_key("new")), ring, "no key that is known")
    assert wanted == ["keys"]
    refused(issuer.token(key=Issuer.new_key("ec")), ring, "signature is wrong")
    refused(issuer.token(header={"kid": "k" * (KEY_ID_MAX_CHARACTERS + 1)}), ring, "no proper id")
    refused(unsigned({}, alg="ES256", kid=7), ring, "no proper id")
    assert wanted == ["keys"]
    ring.keys = None
    refused(issuer.token(), ring, "no keys to check it with")
    assert wanted == ["keys", "keys"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"{}",
        b'{"keys":{}}',
        b'{"keys":[]}',
        b'{"keys":[1,null,"x",[],{}]}',
        b'{"keys":[{"kty":"RSA"}]}',
        b'{"keys":[{"kty":"RSA","n":"","e":"AQAB"}]}',
        b'{"keys":[{"kty":"RSA","n":"!","e":"AQAB"}]}',
        b'{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}',
        b'{"keys":[{"kty":"EC","crv":"secp256k1","x":"AA","y":"AA"}]}',
        b'{"keys":[{"kty":"OKP","crv":"Ed25519","x":"AA"}]}',
        b'{"keys":[' + b"[" * 50_000,
        b"<html>not found</html>",
        bytes(100),
    ],
)
def test_what_is_no_set_of_keys(data: bytes) -> None:
    with pytest.raises(BadKeys):
        read_keys(data)


def test_weak_strong_and_other_peoples_keys_are_passed_over(issuer: Issuer) -> None:
    def with_modulus(bits: int, **parts: Any) -> dict[str, Any]:
        modulus = ((1 << bits) - 1).to_bytes((bits + 7) // 8, "big")
        return {"kty": "RSA", "n": encoded(modulus), "e": "AQAB", **parts}

    good = RSA.as_dict(private=False)
    bad = [
        with_modulus(1024),
        with_modulus(16_384),
        with_modulus(2048, e=encoded(b"\xff" * 8)),
        {**good, "use": "enc"},
        {**good, "key_ops": ["sign"]},
        {**good, "key_ops": "verify"},
        {**good, "kid": 5},
        {**good, "kid": "k" * (KEY_ID_MAX_CHARACTERS + 1)},
        {**good, "alg": ["RS256"]},
        {**good, "n": 5},
    ]
    for each in bad:
        with pytest.raises(BadKeys):
            read_keys(json.dumps({"keys": [each]}).encode())
    with pytest.raises(BadKeys, match="more than"):
        read_keys(json.dumps({"keys": [good] * (JWKS_KEYS_MAX + 1)}).encode())


def test_a_private_key_in_a_set_is_read_as_its_public_one() -> None:
    (key,) = read_keys(json.dumps({"keys": [RSA.as_dict(private=True)]}).encode())
    assert not key.key.is_private
