"""Logins by GSSAPI at a node: steps that may block run in a lane, and what goes wrong in one ends one login."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from support.broker import Client, Node
from support.gss import ALICE, ToyKerberos
from support.logins import SECURED, handshake, secured, token

from penstock.config.jaas import KERBEROS_MODULE
from penstock.errors import ErrorCode
from penstock.node import logins
from penstock.node.login_steps import LOGIN_LANE, LoginStep
from penstock.node.plugged import Plugged
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.security.builder import Principal, Session
from penstock.security.gssapi import GssapiClient, GssError

JAAS = f'{KERBEROS_MODULE} required useKeyTab=true storeKey=true keyTab="/keys" principal="kafka/broker@ACME";'
PROPERTIES = {
    "sasl__enabled__mechanisms": "GSSAPI,PLAIN",
    "sasl__kerberos__service__name": "kafka",
    "listener__name__secured__gssapi__sasl__jaas__config": JAAS,
}
DELAY_MS = 100


def kerberised(kerberos: Any = None, **more: str) -> Node:
    plugged = Plugged({"acme:f": by_realm}, kerberos or ToyKerberos())
    return secured(plugged=plugged, **PROPERTIES, **more)


def by_realm(session: Session) -> Principal:
    return Principal("User", f"{session.mechanism} {session.name} {session.default}")


def tokens(kerberos: ToyKerberos) -> GssapiClient:
    return GssapiClient(lambda: kerberos.initiator(ALICE, "broker"))


def log_in(client: Client, kerberos: ToyKerberos, version: int = 2) -> Any:
    """Logs in, first or again; returns the last answer."""
    assert handshake(client, "GSSAPI").error_code == 0
    sasl = tokens(kerberos)
    step: Any = sasl.first()
    answer = None
    while step is not None:
        answer = token(client, step.run(), version)
        assert answer.error_code == 0, answer
        step = sasl.evaluate(bytes(answer.auth_bytes))
    return answer


def principal(node: Node, client: Client) -> str:
    return str(node.broker.connections[client.number].principal)


def served(client: Client) -> bool:
    client.send(MetadataRequest(topics=[]), 9)
    return client.closed is None and not client.receive().topics


def test_a_ticket_logs_in_and_names_the_principal_by_the_rules() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    client = node.connect(SECURED)
    assert log_in(client, kerberos).session_lifetime_ms == 0
    assert principal(node, client) == "User:alice"
    assert served(client)
    steps = [operation for operation in node.ran if isinstance(operation, LoginStep)]
    assert {step.directory for step in steps} == {LOGIN_LANE}
    assert len(steps) == 3


def test_tokens_come_bare_after_a_handshake_of_version_0() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    client = node.connect(SECURED)
    handshake(client, "GSSAPI", 0)
    sasl = tokens(kerberos)
    step: Any = sasl.first()
    while step is not None:
        client.send_bytes(step.run())
        step = sasl.evaluate(client.answers.popleft())
    assert principal(node, client) == "User:alice"
    assert served(client)


def test_rules_are_those_of_the_listener_and_may_change() -> None:
    kerberos = ToyKerberos()
    rules = "sasl.kerberos.principal.to.local.rules"
    node = kerberised(kerberos, **{f"listener.name.secured.{rules}": "RULE:[1:$1@$0]s/@/ of /"})
    client = node.connect(SECURED)
    log_in(client, kerberos)
    assert principal(node, client) == "User:alice of ACME"


def test_a_name_that_no_rule_makes_short_fails_the_login() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos, sasl__kerberos__principal__to__local__rules="RULE:[2:$1]")
    client = node.connect(SECURED)
    with pytest.raises(AssertionError):
        log_in(client, kerberos)
    node.advance(DELAY_MS)
    assert client.closed == "its login failed"


def test_a_function_is_given_the_whole_name_also_where_no_rule_has_a_short_one() -> None:
    kerberos = ToyKerberos()
    node = kerberised(
        kerberos, principal__builder__class="acme:f", sasl__kerberos__principal__to__local__rules="RULE:[2:$1]"
    )
    client = node.connect(SECURED)
    log_in(client, kerberos)
    assert principal(node, client) == "User:GSSAPI alice@ACME None"


def test_nothing_of_the_connection_executes_during_a_step_and_all_of_others_does() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    client, other = node.connect(SECURED), node.connect()
    handshake(client, "GSSAPI")
    node.held = lambda operation: isinstance(operation, LoginStep)
    client.send(SaslAuthenticateRequest(auth_bytes=tokens(kerberos).first().run()), 2)
    client.send(SaslAuthenticateRequest(auth_bytes=b""), 2)
    assert other.ask(MetadataRequest(topics=[]), 9).topics == []
    assert not client.answers
    node.let_go()
    assert client.receive().auth_bytes == b"welcome 1"
    assert client.receive().auth_bytes == b"1[\x01\0\0\0]"


def test_a_step_that_takes_too_long_closes_its_connection_and_its_end_is_forgotten() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos, penstock__receive__timeout__ms="5000")
    client = node.connect(SECURED)
    handshake(client, "GSSAPI")
    node.held = lambda operation: isinstance(operation, LoginStep)
    client.send(SaslAuthenticateRequest(auth_bytes=tokens(kerberos).first().run()), 2)
    node.advance(5000)
    assert client.closed is not None
    assert "no login within 5000 ms" in client.closed
    node.let_go()
    assert not client.answers
    assert not kerberos.seen, "a step that nobody waits for is not run"
    again = node.connect(SECURED)
    log_in(again, kerberos)
    assert served(again)


def test_a_failed_ticket_is_answered_late_and_without_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    node = kerberised()
    client = node.connect(SECURED)
    handshake(client, "GSSAPI")
    client.send(SaslAuthenticateRequest(auth_bytes=b"garbage"), 2)
    assert not client.answers
    node.advance(DELAY_MS)
    answer = client.receive()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert answer.error_message == (
        "Authentication failed during authentication due to invalid credentials with SASL mechanism GSSAPI"
    )
    assert client.closed == "its login failed"
    assert "GSSAPI: a defective token" in caplog.text


def test_a_replay_is_closed_without_an_answer_so_that_the_client_tries_again() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    ticket = tokens(kerberos).first().run()
    for closed in (None, "its login failed"):
        client = node.connect(SECURED)
        handshake(client, "GSSAPI")
        client.send(SaslAuthenticateRequest(auth_bytes=ticket), 2)
        node.advance(DELAY_MS)
        assert client.closed == closed
    assert not client.answers


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(13, "Permission denied"), "cannot be used: Permission denied"),
        (TypeError("canary"), "a bug: TypeError"),
    ],
)
def test_what_a_step_raises_ends_one_login(error: Exception, said: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ToyKerberos):
        def acceptor(self, login: Any) -> Any:
            raise error

    node = kerberised(Broken())
    node.bugs_expected = True
    client, other = node.connect(SECURED), node.connect()
    handshake(client, "GSSAPI")
    client.send(SaslAuthenticateRequest(auth_bytes=b"x"), 2)
    node.advance(DELAY_MS)
    assert client.receive().error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert client.closed == "its login failed"
    assert said in caplog.text
    assert served(other)
    assert node.broker.dispatcher.logins._steps == 0


def test_logins_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logins, "LOGIN_STEPS_MAX", 1)
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    first, second = node.connect(SECURED), node.connect(SECURED)
    for client in (first, second):
        handshake(client, "GSSAPI")
    node.held = lambda operation: isinstance(operation, LoginStep)
    for client in (first, second):
        client.send(SaslAuthenticateRequest(auth_bytes=tokens(kerberos).first().run()), 2)
    node.advance(DELAY_MS)
    assert (first.closed, second.closed) == (None, "its login failed")
    assert not second.answers
    node.let_go()
    assert first.receive().error_code == 0


def test_a_login_lasts_no_longer_than_its_ticket_where_logins_end() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos, connections__max__reauth__ms="60000")
    client = node.connect(SECURED)
    kerberos.expires_at_ms = node.now_ms + 20_000
    assert log_in(client, kerberos).session_lifetime_ms == 20_000
    node.advance(19_000)
    kerberos.expires_at_ms = node.now_ms + 90_000
    assert log_in(client, kerberos).session_lifetime_ms == 60_000
    node.advance(59_000)
    assert served(client)
    node.advance(2_000)
    client.send(MetadataRequest(topics=[]), 9)
    assert client.closed is not None
    assert "expired" in client.closed


def test_a_login_for_ever_does_not_end_with_its_ticket_as_in_kafka() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    kerberos.expires_at_ms = node.now_ms + 1
    client = node.connect(SECURED)
    assert log_in(client, kerberos).session_lifetime_ms == 0
    node.advance(60_000)
    assert served(client)


def test_a_connection_that_is_lost_during_a_step_takes_nothing_with_it() -> None:
    kerberos = ToyKerberos()
    node = kerberised(kerberos)
    client = node.connect(SECURED)
    handshake(client, "GSSAPI", 0)
    node.held = lambda operation: isinstance(operation, LoginStep)
    client.send_bytes(tokens(kerberos).first().run())
    node.broker.dispatcher.close(node.broker.connections[client.number], "lost")
    node.run()
    node.let_go()
    assert node.broker.dispatcher.logins._steps == 0


@pytest.mark.parametrize("fails", [lambda: GssError("no"), lambda: GssError("no", retriable=True)])
def test_another_mechanism_is_not_affected(fails: Callable[[], GssError]) -> None:
    class Down(ToyKerberos):
        def acceptor(self, login: Any) -> Any:
            raise fails()

    node = kerberised(Down())
    client = node.connect(SECURED)
    handshake(client)
    assert token(client, b"\0alice\0alice-secret").error_code == 0
    assert served(client)
