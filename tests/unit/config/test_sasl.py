"""The settings of SASL: which mechanisms a listener has, and as whom this node logs in at others."""

from __future__ import annotations

import pytest

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.config.sasl import SaslLogin
from penstock.config.server import Settings
from penstock.errors import ConfigError

USERS = f'{PLAIN_MODULE} required username="node" password="canary" user_alice="canary-2";'
SCRAM = f'{SCRAM_MODULE} required username="node" password="canary";'

OF_LISTENERS = (
    "listener.name.clients.plain.sasl.jaas.config",
    "listener.name.nodes.plain.sasl.jaas.config",
    "listener.name.controller.plain.sasl.jaas.config",
    "listener.name.controller.scram-sha-256.sasl.jaas.config",
)


def settings(**extra: str | None) -> Settings:
    given: dict[str, str | None] = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": "CLIENTS://127.0.0.1:0,NODES://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT,NODES:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:0",
        "inter.broker.listener.name": "NODES",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "SCRAM-SHA-256",
        "listener.name.clients.plain.sasl.jaas.config": USERS,
        "listener.name.nodes.plain.sasl.jaas.config": USERS,
        "listener.name.controller.plain.sasl.jaas.config": USERS,
        "listener.name.controller.scram-sha-256.sasl.jaas.config": SCRAM,
    }
    given.update({name.replace("__", "."): value for name, value in extra.items()})
    return Settings.from_properties({name: text for name, text in given.items() if text is not None}, strict=True)


def test_each_listener_has_its_mechanisms_and_nodes_their_logins() -> None:
    sasl = settings().sasl
    assert list(sasl.listeners) == ["CLIENTS", "NODES", "CONTROLLER"]
    assert list(sasl.listeners["CLIENTS"].mechanisms) == ["PLAIN", "SCRAM-SHA-256"]
    assert sasl.listeners["CLIENTS"].mechanisms["PLAIN"].users == {"alice": "canary-2"}
    assert sasl.logins == {
        "NODES": SaslLogin("PLAIN", "node", "canary"),
        "CONTROLLER": SaslLogin("SCRAM-SHA-256", "node", "canary"),
    }


def test_a_listener_or_mechanism_may_differ() -> None:
    sasl = settings(
        **{
            "listener.name.clients.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.clients.sasl.server.max.receive.size": "1000",
            "connections.max.reauth.ms": "5000",
            "listener.name.nodes.plain.connections.max.reauth.ms": "-1",
        }
    ).sasl
    assert list(sasl.listeners["CLIENTS"].mechanisms) == ["SCRAM-SHA-512"]
    assert [each.receive_max_bytes for each in sasl.listeners.values()] == [1000, 524288, 524288]
    assert sasl.listeners["NODES"].mechanisms["PLAIN"].max_reauth_ms == 0
    assert sasl.listeners["NODES"].mechanisms["SCRAM-SHA-256"].max_reauth_ms == 5000


def test_plaintext_listeners_have_none() -> None:
    sasl = Settings.for_node().sasl
    assert (sasl.listeners, sasl.logins) == ({}, {})


def test_users_may_change_while_the_node_runs() -> None:
    name = "listener.name.clients.plain.sasl.jaas.config"
    changed = settings().with_dynamic({}, {name: f'{PLAIN_MODULE} required user_bob="b";'})
    assert changed.sasl.listeners["CLIENTS"].mechanisms["PLAIN"].users == {"bob": "b"}
    with pytest.raises(ConfigError):
        settings().with_dynamic({}, {name: "nonsense"})


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sasl.enabled.mechanisms": None}, "GSSAPI is not supported: it must be one of PLAIN"),
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA256"}, "did you mean SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        ({"listener.name.clients.plain.sasl.jaas.config": None}, "clients.plain.sasl.jaas.config is missing"),
        ({"listener.name.clients.plain.sasl.jaas.config": SCRAM}, "the login module of SCRAM, not of PLAIN"),
        ({"listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_MODULE} required"}, "must end with a semicolon"),
        ({"sasl.jaas.config": USERS}, "sasl.jaas.config belongs to no mechanism of a listener"),
        ({"listener.name.clients.sasl.jaas.config": USERS}, "belongs to no mechanism of a listener"),
        ({"sasl.mechanism.inter.broker.protocol": None}, "sasl.mechanism.inter.broker.protocol: GSSAPI"),
        ({"sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256"}, "nodes.scram-sha-256.sasl.jaas.config is missing"),
        (
            {"listener.name.nodes.plain.sasl.jaas.config": f"{PLAIN_MODULE} required;"},
            "nodes.plain.sasl.jaas.config needs username and password",
        ),
        ({"listener.name.controller.sasl.enabled.mechanisms": "PLAIN"}, "SCRAM-SHA-256 is not among"),
        ({"connection.failed.authentication.delay.ms": "-1"}, "connection.failed.authentication.delay.ms"),
    ],
)
def test_what_could_not_work_stops_the_start(changes: dict[str, str | None], sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as wrong:
        settings(**changes)
    assert "canary" not in str(wrong.value)


def test_secrets_do_not_show() -> None:
    assert "canary" not in repr(settings()) + repr(settings().sasl)


def test_a_listener_may_be_called_as_a_mechanism_is() -> None:
    sasl = settings(
        **{
            "listeners": "PLAIN://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "listener.security.protocol.map": "PLAIN:SASL_PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": USERS,
            "listener.name.sasl.plain.sasl.jaas.config": USERS,
            **dict.fromkeys(OF_LISTENERS),
        }
    ).sasl
    assert list(sasl.listeners) == ["PLAIN", "SASL"]
    assert sasl.logins == {"PLAIN": SaslLogin("PLAIN", "node", "canary")}
