"""The settings of SASL: which mechanisms a listener has, and as whom this node logs in at others."""

from __future__ import annotations

import pytest

from penstock.config.jaas import KERBEROS_MODULE, PLAIN_MODULE, SCRAM_MODULE
from penstock.config.kerberos import KerberosLogin
from penstock.config.sasl import Sasl, SaslLogin
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
        ({"sasl.enabled.mechanisms": None}, "clients.gssapi.sasl.jaas.config is missing: GSSAPI on listener CLIENTS"),
        ({"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA256"}, "did you mean SCRAM-SHA-256"),
        ({"sasl.enabled.mechanisms": ""}, "sasl.enabled.mechanisms is empty"),
        ({"listener.name.clients.plain.sasl.jaas.config": None}, "clients.plain.sasl.jaas.config is missing"),
        ({"listener.name.clients.plain.sasl.jaas.config": SCRAM}, "the login module of SCRAM, not of PLAIN"),
        ({"listener.name.clients.plain.sasl.jaas.config": f"{PLAIN_MODULE} required"}, "must end with a semicolon"),
        ({"sasl.jaas.config": USERS}, "sasl.jaas.config belongs to no mechanism of a listener"),
        ({"listener.name.clients.sasl.jaas.config": USERS}, "belongs to no mechanism of a listener"),
        ({"sasl.mechanism.inter.broker.protocol": None}, "nodes.gssapi.sasl.jaas.config is missing"),
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


KERBEROS = 'required useKeyTab=true storeKey=true keyTab="/keys" principal="kafka/host@ACME"'
OF_GSSAPI = {
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.mechanism.inter.broker.protocol": "GSSAPI",
    "sasl.mechanism.controller.protocol": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    **{
        f"listener.name.{name}.gssapi.sasl.jaas.config": f"{KERBEROS_MODULE} {KERBEROS};"
        for name in ("clients", "nodes", "controller")
    },
}


def of_gssapi(module: str, **more: str | None) -> Sasl:
    """The settings of GSSAPI on all listeners, with this login module for clients."""
    name = "listener.name.clients.gssapi.sasl.jaas.config"
    changes = {**dict.fromkeys(OF_LISTENERS), **OF_GSSAPI, name: f"{KERBEROS_MODULE} {module};"}
    return settings(**{**changes, **more}).sasl


def test_gssapi_has_a_key_on_each_listener_and_tickets_between_nodes() -> None:
    sasl = of_gssapi(KERBEROS)
    login = KerberosLogin("kafka/host@ACME", "kafka", keytab="/keys")
    assert {each.mechanisms["GSSAPI"].kerberos for each in sasl.listeners.values()} == {login}
    assert sasl.logins["NODES"] == SaslLogin("GSSAPI", "kafka/host@ACME", "", login)


def test_the_machines_keytab_is_taken_where_none_is_named() -> None:
    sasl = of_gssapi('required useKeyTab=true principal="kafka/host@ACME" serviceName=kafka')
    assert sasl.listeners["CLIENTS"].mechanisms["GSSAPI"].kerberos == KerberosLogin("kafka/host@ACME", "kafka", "")


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("required", "must have useKeyTab=true"),
        ("required useTicketCache=true", "must have useKeyTab=true"),
        ("required useKeyTab=yes", "usekeytab must be true or false"),
        ("required useKeyTab=true", "has no principal, such as kafka/host@REALM"),
        ('required useKeyTab=true principal="a@b@c"', "malformed"),
        (f"{KERBEROS} serviceName=other", "has serviceName other, and sasl.kerberos.service.name is kafka"),
        (f"{KERBEROS} useFirstPass=true", "the option useFirstPass of the login module means nothing here"),
    ],
)
def test_a_login_module_of_kerberos_that_could_not_work_stops_the_start(module: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        of_gssapi(module)


def test_a_service_must_have_a_name() -> None:
    with pytest.raises(ConfigError, match=r"sasl\.kerberos\.service\.name is missing"):
        of_gssapi(KERBEROS, **{"sasl.kerberos.service.name": None})
