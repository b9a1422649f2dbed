"""Clients that show a certificate on a listener with TLS: who they are, and who is let in."""

from __future__ import annotations

import pytest
from support.broker import Client, Node

from penstock.errors import ConfigError
from penstock.node.effects import Close

PROPERTIES = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SSL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]+),OU=staff$/$1/L",
}


def connect(node: Node, listener: str, subject: str | None) -> Client:
    number = len(node.clients) + 1
    client = node.clients[number] = Client(node, number)
    node.broker.connected(number, listener, "127.0.0.1:40000", node.now_ms, subject)
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
