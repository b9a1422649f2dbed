"""SCRAM as the RFCs have it, and what an exchange that is not ends with."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable

import pytest

from penstock.metadata.scram import ScramCredential, ScramMechanism
from penstock.security.sasl import Derivation, LoginFailed
from penstock.security.scram import ScramClient, ScramServer, credential_of, keyed

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
CLIENT_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_NONCE = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
BOTH = f"{CLIENT_NONCE}{SERVER_NONCE}"
CHALLENGE = f"r={BOTH},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
PROVEN = f"c=biws,r={BOTH},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
SIGNED = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(password: str, mechanism: ScramMechanism = SHA_256, iterations: int = 4096) -> ScramCredential:
    key = Derivation(mechanism.hash_name, password.encode(), SALT, iterations).derive()
    return credential_of(mechanism, SALT, key, iterations)


def server(
    stored: ScramCredential | None = None, mechanism: ScramMechanism = SHA_256, decoy_key: bytes = b"decoy"
) -> ScramServer:
    return ScramServer(mechanism, SERVER_NONCE, lambda user, token: stored, decoy_key)


def client(user: str = "user", password: str = "pencil", mechanism: ScramMechanism = SHA_256) -> ScramClient:
    return ScramClient(mechanism, user, password, CLIENT_NONCE)


def answered(side: ScramClient, challenge: bytes) -> bytes:
    derivation = side.evaluate(challenge)
    assert derivation is not None
    return side.derived(derivation.derive())


def log_in(side: ScramClient, other: ScramServer) -> None:
    assert side.evaluate(other.evaluate(answered(side, other.evaluate(side.first())))) is None


def test_rfc_7677_section_3() -> None:
    side, other = client(), server(credential("pencil"))
    assert side.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert other.evaluate(side.first()) == CHALLENGE
    assert answered(side, CHALLENGE) == PROVEN
    assert other.evaluate(PROVEN) == SIGNED
    assert other.complete
    assert other.user == "user"
    side.evaluate(SIGNED)
    assert side.complete


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("user", ["alice", "a=b,c", "=2C", "=3D", "日本", "o'neil"])
def test_every_name_and_mechanism_logs_in(user: str, mechanism: ScramMechanism) -> None:
    side, other = client(user, "pass,word=1", mechanism), server(credential("pass,word=1", mechanism), mechanism)
    log_in(side, other)
    assert side.complete
    assert (other.complete, other.user, other.mechanism) == (True, user, mechanism.sasl_name)


@pytest.mark.parametrize("stored", [None, credential("another")])
def test_an_unknown_user_fails_where_a_wrong_password_does(stored: ScramCredential | None) -> None:
    other = server(stored)
    proof = answered(client(), other.evaluate(client().first()))
    with pytest.raises(LoginFailed) as failed:
        other.evaluate(proof)
    assert failed.value.told == ""
    assert not other.complete


def test_an_unknown_user_has_the_same_salt_each_time_and_another_than_others() -> None:
    salts = [server().evaluate(f"n,,n={user},r=abc".encode()).split(b",")[1] for user in ("bob", "bob", "eve")]
    assert salts[0] == salts[1] != salts[2]
    assert server(decoy_key=b"other").evaluate(b"n,,n=bob,r=abc").split(b",")[1] != salts[0]


def test_a_decoy_cannot_be_fulfilled_by_who_knows_how_it_is_made() -> None:
    other = server(decoy_key=b"known")
    challenge = other.evaluate(b"n,,n=bob,r=abc").decode()
    unproven = f"c=biws,r=abc{SERVER_NONCE}"
    stored = keyed(SHA_256, b"known", b"stored,SCRAM-SHA-256,bob")
    signature = keyed(SHA_256, stored, f"n=bob,r=abc,{challenge},{unproven}".encode())
    with pytest.raises(LoginFailed, match="unknown user"):
        other.evaluate(f"{unproven},p={b64encode(signature).decode()}".encode())


def test_a_stored_credential_with_few_iterations_logs_nobody_in() -> None:
    other = server(credential("pencil", iterations=4095))
    proof = answered(client(), other.evaluate(client().first()))
    with pytest.raises(LoginFailed):
        other.evaluate(proof)


FIRSTS: dict[str, bytes] = {
    "nothing": b"",
    "not UTF-8": b"n,,n=\xff,r=abc",
    "channel binding": b"p=tls-unique,,n=user,r=abc",
    "no header": b"n=user,r=abc",
    "a mandatory extension": b"n,,m=1,n=user,r=abc",
    "no user": b"n,,n=,r=abc",
    "a comma in the nonce": b"n,,n=user,r=a,c",
    "a control character in the nonce": b"n,,n=user,r=a\x01",
    "a bare equals sign": b"n,,n=us=er,r=abc",
    "NUL in the name": b"n,,n=us\0er,r=abc",
    "no nonce": b"n,,n=user,r=",
    "a line after it": b"n,,n=user,r=abc\n",
    "too long": b"n,,n=" + b"u" * 70_000 + b",r=abc",
}


@pytest.mark.parametrize("message", FIRSTS.values(), ids=list(FIRSTS))
def test_a_malformed_first_message_ends_the_exchange(message: bytes) -> None:
    other = server(credential("pencil"))
    for token in (message, client().first()):
        with pytest.raises(LoginFailed):
            other.evaluate(token)


def test_another_authorization_id_is_refused_whether_or_not_the_user_exists() -> None:
    for stored in (None, credential("pencil")):
        with pytest.raises(LoginFailed) as failed:
            server(stored).evaluate(b"n,a=admin,n=user,r=abc")
        assert "authorization id" in failed.value.told


def test_the_own_authorization_id_is_allowed_and_must_be_bound() -> None:
    for binding, right in ((b"n,a=user,", True), (b"n,,", False)):
        side, other = client(), server(credential("pencil"))
        challenge = other.evaluate(b"n,a=user," + side.first()[3:])
        derivation = side.evaluate(challenge)
        assert derivation is not None
        side._unproven = side._unproven.replace("biws", b64encode(binding).decode())
        side._heard = side._heard.replace("biws", b64encode(binding).decode())
        proof = side.derived(derivation.derive())
        if right:
            other.evaluate(proof)
            assert other.complete
        else:
            with pytest.raises(LoginFailed):
                other.evaluate(proof)


FINALS: dict[str, Callable[[bytes], bytes]] = {
    "another nonce": lambda proof: proof.replace(BOTH.encode(), b"x" * len(BOTH)),
    "only the client's nonce": lambda proof: proof.replace(SERVER_NONCE.encode(), b""),
    "a longer nonce": lambda proof: proof.replace(SERVER_NONCE.encode(), SERVER_NONCE.encode() + b"1"),
    "another header": lambda proof: proof.replace(b"biws", b"eSws"),
    "no proof": lambda proof: proof[: proof.index(b",p=")],
    "a short proof": lambda proof: proof[: proof.index(b",p=")] + b",p=AAAA",
    "a flipped proof": lambda proof: proof[:-5] + bytes([proof[-5] ^ 1]) + proof[-4:],
    "not Base64": lambda proof: proof[: proof.index(b",p=")] + b",p=A",
    "garbage": lambda proof: b"\0\xff",
    "a first message": lambda proof: client().first(),
}


@pytest.mark.parametrize("changed", FINALS.values(), ids=list(FINALS))
def test_a_changed_final_message_fails_and_cannot_be_tried_again(changed: Callable[[bytes], bytes]) -> None:
    side, other = client(), server(credential("pencil"))
    proof = answered(side, other.evaluate(side.first()))
    for token in (changed(proof), proof):
        with pytest.raises(LoginFailed):
            other.evaluate(token)
    assert not other.complete


def test_a_recorded_exchange_does_not_log_in_again() -> None:
    later = ScramServer(SHA_256, "another-nonce-of-18-bytes", lambda user, token: credential("pencil"), b"")
    later.evaluate(client().first())
    with pytest.raises(LoginFailed, match="nonce"):
        later.evaluate(PROVEN)


def test_nothing_follows_a_login() -> None:
    other = server(credential("pencil"))
    log_in(client(), other)
    with pytest.raises(LoginFailed):
        other.evaluate(client().first())


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff",
        CHALLENGE.replace(CLIENT_NONCE.encode(), b"x" * 20),
        CHALLENGE.replace(SERVER_NONCE.encode(), b""),
        CHALLENGE.replace(b"i=4096", b"i=4095"),
        CHALLENGE.replace(b"i=4096", b"i=1000001"),
        CHALLENGE.replace(b"i=4096", b"i=99999999999999999999"),
        CHALLENGE.replace(b"i=4096", b"i=0"),
        CHALLENGE.replace(b"s=W", b"s=,W"),
        b"m=1," + CHALLENGE,
        SIGNED,
    ],
)
def test_a_client_refuses_a_bad_challenge(challenge: bytes) -> None:
    with pytest.raises(LoginFailed):
        client().evaluate(challenge)


@pytest.mark.parametrize("final", [b"", b"v=AAAA", b"v=A", b"e=other-error", CHALLENGE, SIGNED[:-3] + b"5=="])
def test_a_client_refuses_a_server_that_proves_nothing(final: bytes) -> None:
    side = client()
    answered(side, CHALLENGE)
    with pytest.raises(LoginFailed):
        side.evaluate(final)
    assert not side.complete


def test_a_delegation_token_is_looked_up_as_one() -> None:
    asked: list[tuple[str, bool]] = []

    def look_up(user: str, token: bool) -> None:
        asked.append((user, token))

    for token in (True, False):
        side = ScramClient(SHA_256, "id", "hmac", CLIENT_NONCE, token=token)
        ScramServer(SHA_256, SERVER_NONCE, look_up, b"").evaluate(side.first())
    assert asked == [("id", True), ("id", False)]


def test_secrets_do_not_show() -> None:
    derivation = client(password="canary").evaluate(CHALLENGE)
    assert "canary" not in repr(derivation)
    assert repr(credential("canary")) == "ScramCredential(iterations=4096)"
