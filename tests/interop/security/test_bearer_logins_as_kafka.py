"""What Apache Kafka answers to messages of OAUTHBEARER, good and bad, and that a node of ours answers the same; and our
client logs in at Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from interop.kafka_peer import KafkaPeer
from interop.secured_kafka import write_properties
from interop.security.commands import Capture, Commands, use
from interop.security.secured_peer import SocketAsker
from interop.security.test_clients_log_in_by_token import KAFKAS_ALLOWED_URLS, LISTENERS
from support.issuer import AUDIENCE, Issuer, client_properties, encoded, listener_properties, unsigned
from support.processes import free_ports

from penstock.client.bearer_tokens import ALLOWED_URLS_VARIABLE
from penstock.errors import ErrorCode
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.security.oauthbearer.messages import first_message
from penstock.testing.broker import LocalBroker

pytestmark = [pytest.mark.java, pytest.mark.slow]
HANDLER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
NOW_S = int(time.time())


class BearerKafka(KafkaPeer):
    """Apache Kafka with a listener that takes an issuer's tokens. `secured`: its address."""

    secured: int

    def __init__(self, issuer: Issuer) -> None:
        super().__init__(java_options=[f"-D{KAFKAS_ALLOWED_URLS}={issuer.jwks_url}"])
        self._issuer = issuer

    def write_configuration(self) -> None:
        super().write_configuration()
        (self.secured,) = free_ports(1)
        before = self.config_file.read_text()
        plain = next(line for line in before.splitlines() if line.startswith("listeners="))
        given = {
            name: text for name, text in listener_properties(self._issuer.jwks_url).items() if "penstock" not in name
        }
        more = {
            "listener.security.protocol.map": LISTENERS["listener.security.protocol.map"],
            "inter.broker.listener.name": "PLAINTEXT",
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.secured.oauthbearer.sasl.server.callback.handler.class": HANDLER,
            **given,
            **{name.partition("oauthbearer.")[2]: text for name, text in given.items() if "jaas" not in name},
        }
        lines = [f"{plain},SECURED://127.0.0.1:{self.secured}", *(f"{name}={text}" for name, text in more.items())]
        self.config_file.write_text(before + "\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer().serving() as issuer:
        yield issuer


@pytest.fixture(scope="module")
def kafka(issuer: Issuer) -> Iterator[BearerKafka]:
    with BearerKafka(issuer) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def ours(issuer: Issuer) -> Iterator[int]:
    with LocalBroker({**LISTENERS, **listener_properties(issuer.jwks_url)}) as broker:
        yield int(broker.addresses["SECURED"].rpartition(":")[2])


def exchange(port: int, messages: list[bytes]) -> list[Any]:
    """The answers to a login: error code, error message, bytes, and whether there is a lifetime."""
    asker, answers = SocketAsker(port), []
    try:
        assert asker.ask(SaslHandshakeRequest(mechanism="OAUTHBEARER"), 1).error_code == 0
        for message in messages:
            try:
                answer = asker.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
            except (AssertionError, ConnectionError):
                answers.append("closed")
                break
            told = (answer.error_code, answer.error_message, bytes(answer.auth_bytes))
            answers.append((*told, answer.session_lifetime_ms > 0))
    finally:
        asker.close()
    return answers


GIVE_UP = b"\x01"
Make = Callable[[Issuer], list[bytes]]


def shown(**claims: Any) -> Make:
    """A token with changed claims, and then the byte 1 if it is refused."""
    return lambda issuer: [first_message(issuer.token(**claims)), GIVE_UP]


GOOD: dict[str, Make] = {
    "good": lambda issuer: [first_message(issuer.token())],
    "RS256": lambda issuer: [first_message(issuer.token(algorithm="RS256"))],
    "PS384": lambda issuer: [first_message(issuer.token(algorithm="PS384"))],
    "with extensions": lambda issuer: [first_message(issuer.token(), [("traceId", "a b")])],
    "its own id": lambda issuer: [first_message(issuer.token()).replace(b"n,,", b"n,a=alice,")],
    "several audiences": lambda issuer: [first_message(issuer.token(aud=["x", AUDIENCE]))],
    "within the skew": lambda issuer: [first_message(issuer.token(exp=int(time.time()) - 5))],
    "issued later": lambda issuer: [first_message(issuer.token(iat=int(time.time()) + 300))],
    "no kid": lambda issuer: [first_message(issuer.token(header={"kid": None}))],
    "scopes": lambda issuer: [first_message(issuer.token(scope=["a", "b"]))],
}
BAD: dict[str, Make] = {
    "expired": shown(exp=NOW_S - 100, iat=NOW_S - 200),
    "not yet": shown(nbf=NOW_S + 3000),
    "no exp": shown(exp=None),
    "no iat": shown(iat=None),
    "no sub": shown(sub=None),
    "empty sub": shown(sub=" "),
    "number as sub": shown(sub=7),
    "another issuer": shown(iss="https://others.example.com"),
    "no issuer": shown(iss=None),
    "another audience": shown(aud="others"),
    "no audience": shown(aud=None),
    "text as exp": shown(exp="tomorrow"),
    "a scope twice": shown(scope=["a", "a"]),
    "an empty scope": shown(scope=["a", ""]),
    "unsigned": lambda issuer: [first_message(unsigned(issuer.claims()) + "x"), GIVE_UP],
    "none": lambda issuer: [first_message(unsigned(issuer.claims())), GIVE_UP],
    "unknown key": lambda issuer: [first_message(issuer.token(key=Issuer.new_key("unknown"))), GIVE_UP],
    "forged": lambda issuer: [first_message(issuer.token(key=Issuer.new_key("ec"))), GIVE_UP],
    "HS256": lambda issuer: [first_message(f"{encoded({'alg': 'HS256', 'kid': 'ec'})}.{encoded({})}.x"), GIVE_UP],
    "opaque": lambda _: [first_message("opaque"), GIVE_UP],
    "no JSON": lambda _: [first_message(f"{encoded(b'x')}.{encoded(b'y')}.z"), GIVE_UP],
    "another id": lambda issuer: [first_message(issuer.token()).replace(b"n,,", b"n,a=root,")],
    "nothing": lambda _: [b""],
    "the byte 1": lambda _: [GIVE_UP],
    "PLAIN": lambda _: [b"\0alice\0secret"],
    "no token": lambda _: [b"n,,\x01host=x\x01\x01"],
    "channel binding": lambda issuer: [first_message(issuer.token()).replace(b"n,,", b"y,,")],
    "bad extension": lambda issuer: [first_message(issuer.token(), [("t1", "x")])],
}


@pytest.mark.parametrize("name", [*GOOD, *BAD])
def test_a_node_answers_as_kafka_does(kafka: BearerKafka, ours: int, issuer: Issuer, name: str) -> None:
    messages = {**GOOD, **BAD}[name](issuer)
    expected = exchange(kafka.secured, messages)
    assert exchange(ours, messages) == expected
    assert (expected[-1][0] == 0) == (name in GOOD), expected


def test_another_scheme_is_answered_and_not_only_closed(kafka: BearerKafka, ours: int) -> None:
    """Kafka trips over itself when it writes the error for it (it asks the wrong matcher for the scheme)."""
    messages = [b"n,,\x01auth=Basic abc\x01\x01"]
    assert exchange(kafka.secured, messages) == ["closed"]
    ((code, *_),) = exchange(ours, messages)
    assert code == ErrorCode.SASL_AUTHENTICATION_FAILED


def test_our_client_logs_in_at_kafka(
    kafka: BearerKafka, issuer: Issuer, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = f"127.0.0.1:{kafka.secured}"
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, issuer.token_url)
    file = write_properties(tmp_path / "client.properties", client_properties(issuer.token_url))
    use(Commands(address, file, capsys), "clicks")
    token = tmp_path / "token"
    token.write_text(issuer.token(aud="others"))
    monkeypatch.setenv(ALLOWED_URLS_VARIABLE, f"file://{token}")
    refused = write_properties(tmp_path / "refused.properties", client_properties(f"file://{token}", ""))
    assert "invalid_token" in Commands(address, refused, capsys)("topics", "list", code=1)
