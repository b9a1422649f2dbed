"""Who a connection is: by the certificate it shows, by its login, and as a function of the operator's says."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest
from support.broker import Client, Node
from support.logins import SECURED, client_of, handshake, logged_in, secured

from penstock.errors import ConfigError, ErrorCode
from penstock.node.channel import deserialized
from penstock.node.effects import Close
from penstock.node.plugged import Plugged
from penstock.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.security.authorizer import StandardAuthorizer
from penstock.security.builder import Principal, Session
from penstock.security.certificates import Shown

PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=staff$/$1/L",
}


def connect(node: Node, listener: str, subject: str | None) -> Client:
    number = len(node.clients) + 1
    client = node.clients[number] = Client(node, number)
    shown = None if subject is None else Shown(subject, b"")
    node.broker.connected(number, listener, "127.0.0.1:40000", node.now_ms, shown)
    return client


def test_the_principal_is_by_the_rules_of_the_listener() -> None:
    node = Node(properties=PROPERTIES)
    alice = connect(node, "SSL", "CN=Alice,OU=staff")
    plain = connect(node, "PLAINTEXT", None)
    found = node.broker.connections
    assert str(found[alice.number].principal) == "User:alice"
    assert str(found[plain.number].principal) == "User:ANONYMOUS"


def test_a_subject_without_a_rule_is_closed() -> None:
    node = Node(properties=PROPERTIES)
    mallory = connect(node, "SSL", "CN=Mallory,OU=guests")
    closes = [effect for effect in node.broker.take_effects() if isinstance(effect, Close)]
    assert [close.connection for close in closes] == [mallory.number]
    assert "no rule applies to CN=Mallory,OU=guests" in closes[0].reason
    assert mallory.number not in node.broker.connections


def test_who_showed_no_certificate_is_anonymous_whatever_the_rules() -> None:
    node = Node(properties=PROPERTIES)
    client = connect(node, "SSL", None)
    assert str(node.broker.connections[client.number].principal) == "User:ANONYMOUS"


def test_bad_rules_stop_the_start() -> None:
    with pytest.raises(ConfigError, match=r"ssl\.principal\.mapping\.rules"):
        Node(properties={**PROPERTIES, "listener.name.ssl.ssl.principal.mapping.rules": "RULE:(/x/"})


def by_session(session: Session) -> Principal:
    """Names principals by all that is known."""
    if session.name == "bob":
        raise RuntimeError("canary")
    if session.address == "10.9.9.9":
        return cast(Principal, None)
    who = (
        f"{session.listener}|{session.protocol}|{session.address}|{session.subject}|{session.mechanism}|{session.name}"
    )
    return Principal("Team", f"{who}|{session.default}|{session.certificate!r}")


FUNCTION = "acme:by_session"
BUILDER = {"principal.builder.class": FUNCTION}
PLUGGED = Plugged({FUNCTION: by_session})


def principal_name(node: Node, client: Client) -> str:
    return str(node.broker.connections[client.number].principal)


def test_a_function_names_who_has_no_credentials() -> None:
    node = Node(properties={**PROPERTIES, **BUILDER}, plugged=PLUGGED)
    plain = connect(node, "PLAINTEXT", None)
    found = "Team:PLAINTEXT|PLAINTEXT|127.0.0.1|None|||User:ANONYMOUS|None"
    assert principal_name(node, plain) == found
    assert plain.ask(MetadataRequest(topics=[]), 9).topics == []


def test_a_function_sees_the_certificate_also_where_no_rule_has_a_name_for_it() -> None:
    node = Node(properties={**PROPERTIES, **BUILDER}, plugged=PLUGGED)
    alice, mallory = (connect(node, "SSL", subject) for subject in ("CN=Alice,OU=staff", "CN=M,OU=guests"))
    assert principal_name(node, alice) == "Team:SSL|SSL|127.0.0.1|CN=Alice,OU=staff|||User:alice|b''"
    assert principal_name(node, mallory) == "Team:SSL|SSL|127.0.0.1|CN=M,OU=guests|||None|b''"


def test_a_function_names_who_has_logged_in() -> None:
    node = secured(plugged=PLUGGED, listener__name__secured__principal__builder__class=FUNCTION)
    alice = logged_in(node, "alice", "SCRAM-SHA-512")
    found = f"Team:{SECURED}|SASL_PLAINTEXT|127.0.0.1|None|SCRAM-SHA-512|alice|User:alice|None"
    assert principal_name(node, alice) == found
    assert principal_name(node, node.connect()) == "User:ANONYMOUS"


def test_a_login_that_a_function_cannot_name_fails_and_disturbs_no_other(caplog: pytest.LogCaptureFixture) -> None:
    node = secured(plugged=PLUGGED, principal__builder__class=FUNCTION)
    alice = logged_in(node, "alice")
    bob = node.connect(SECURED)
    handshake(bob)
    bob.send(SaslAuthenticateRequest(auth_bytes=client_of("PLAIN", "bob").first()), 2)
    node.advance(100)
    answer = bob.receive()
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "credentials" in answer.error_message
    assert bob.closed == "its login failed"
    assert node.broker.dispatcher.logins.counters[SECURED].first_failed == 1
    assert alice.ask(MetadataRequest(topics=[]), 9).topics == []
    assert "the principal builder raised RuntimeError (test_identities.py:" in caplog.text
    assert "canary" not in caplog.text + answer.error_message


def test_a_connection_that_a_function_cannot_name_is_closed_and_counted() -> None:
    node = Node(properties={**PROPERTIES, **BUILDER}, plugged=PLUGGED)
    node.clients[7] = Client(node, 7)
    node.broker.connected(7, "PLAINTEXT", "10.9.9.9:40000", node.now_ms)
    node.run()
    assert node.clients[7].closed == "the principal builder gave NoneType instead of Principal"
    assert 7 not in node.broker.connections
    assert node.broker.dispatcher.logins.counters["PLAINTEXT"].first_failed == 1


def test_who_logs_in_again_must_be_named_the_same() -> None:
    names = iter(["one", "other"])
    plugged = Plugged({FUNCTION: lambda session: Principal("User", next(names))})
    node = secured(plugged=plugged, principal__builder__class=FUNCTION, connections__max__reauth__ms="5000")
    alice = logged_in(node, "alice")
    node.advance(2000)
    handshake(alice)
    alice.send(SaslAuthenticateRequest(auth_bytes=client_of("PLAIN", "alice").first()), 2)
    node.advance(100)
    assert "Cannot change principals" in alice.receive().error_message


def test_a_forwarded_request_carries_the_principal_that_a_function_named(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(properties={**PROPERTIES, **BUILDER}, plugged=PLUGGED)
    client, channel = connect(node, "PLAINTEXT", None), node.broker.channel
    asked: list[Callable[[], EnvelopeRequest]] = []
    monkeypatch.setattr(node.broker.controller, "active", False)
    monkeypatch.setattr(type(channel), "elsewhere", True)
    monkeypatch.setattr(channel, "to_controller", lambda make, *_, **__: asked.append(make))
    client.send(CreateTopicsRequest(topics=[CreatableTopic(name="t")]), 7)
    principal = deserialized(asked[0]().request_principal or b"")
    assert principal == node.broker.connections[client.number].principal
    assert (principal.type, type(principal)) == ("Team", Principal)


def test_an_acl_of_another_type_than_user_is_about_who_a_function_names() -> None:
    authorizer = StandardAuthorizer({"Team:ops"})
    names = {"127.0.0.1": Principal("Team", "ops"), "10.0.0.1": Principal("User", "ops")}
    plugged = Plugged({FUNCTION: lambda session: names[session.address]})
    node = Node(properties={**PROPERTIES, **BUILDER}, plugged=plugged, authorizer=authorizer)
    ops = connect(node, "PLAINTEXT", None)
    node.broker.connected(99, "PLAINTEXT", "10.0.0.1:4", node.now_ms)
    found = node.broker.connections
    assert authorizer.is_super(found[ops.number].principal)
    assert not authorizer.is_super(found[99].principal)
