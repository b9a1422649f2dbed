"""Penstock decides about delegation tokens as Apache Kafka 4.3.1 does: the table of both.

The record is `token_decisions.json`; `python -m interop.security.test_token_decisions` in tests/ makes it anew.
"""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from interop.security.secured_peer import SecuredPeer, SocketAsker
from interop.security.test_decisions import differences
from support.broker import Client, Node
from support.decisions.table import World
from support.decisions.tokens import PASSWORDS, SECRET, Table, Tokens, TokenWorld, ask_all, log_in, probes
from support.logins import PROPERTIES, SECURED
from support.tokens import WITH_TOKENS

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.protocol.api import ApiKey
from penstock.security.authorizer import StandardAuthorizer

RECORD = Path(__file__).with_name("token_decisions.json")
USERS = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
TOKEN_APIS = {
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
}


class TokenPeer(SecuredPeer):
    """Apache Kafka with tokens, and the users alice and bob beside the admin."""

    def write_configuration(self) -> None:
        super().write_configuration()
        login = f'{PLAIN_MODULE} required username="admin" password="secret" {USERS};'
        lines = [
            "listener.name.admin.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
            f"listener.name.admin.plain.sasl.jaas.config={login}",
            f"listener.name.admin.scram-sha-256.sasl.jaas.config={SCRAM_MODULE} required;",
            f"delegation.token.secret.key={SECRET}",
        ]
        self.config_file.write_text(self.config_file.read_text() + "\n".join(lines) + "\n")


def kafkas_table() -> Table:
    """Asks a new node of Apache Kafka."""
    with TokenPeer() as kafka, ExitStack() as stack:

        def connect(listener: str = "ADMIN") -> SocketAsker:
            return stack.enter_context(closing(SocketAsker(kafka.ports[listener])))

        clients = {name: connect() for name in ("alice", "bob", "admin")}
        for name, client in clients.items():
            log_in(client, name)
        controllers = connect("CONTROLLER")
        log_in(controllers, "admin")
        everybody = {**clients, "nobody": connect("PLAINTEXT")}
        world = World(everybody["alice"], connect("OPEN"), clients["admin"], controllers, lambda: time.sleep(0.05))
        return ask_all(TokenWorld(world, dict(everybody), connect))


def penstocks_table() -> Table:
    """Asks a node in this process."""
    properties = {
        **WITH_TOKENS,
        **PROPERTIES,
        "listener.security.protocol.map": WITH_TOKENS["listener.security.protocol.map"],
        "listener.name.secured.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {USERS};",
        "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="admin" '
        f'password="secret" {USERS};',
        "delegation.token.secret.key": SECRET,
    }
    node = Node(properties=properties, authorizer=StandardAuthorizer(["User:admin"]))

    def connect(listener: str = SECURED) -> Client:
        return node.connect(listener)

    clients = {name: connect() for name in ("alice", "bob", "admin")}
    for name, client in clients.items():
        log_in(client, name)
    controllers = connect("CONTROLLER")
    log_in(controllers, "admin")
    everybody = {**clients, "nobody": connect("PLAINTEXT")}
    world = World(everybody["alice"], controllers, clients["admin"], controllers, lambda: node.advance(10))
    return ask_all(TokenWorld(world, dict(everybody), connect))


def recorded() -> Table:
    found: Table = json.loads(RECORD.read_text())
    return found


def test_penstock_decides_as_kafka_did() -> None:
    assert differences(recorded(), penstocks_table()) == {}


@pytest.mark.java
@pytest.mark.long
def test_the_record_is_what_kafka_says() -> None:
    assert differences(recorded(), kafkas_table()) == {}


def test_every_api_of_tokens_is_asked_about() -> None:
    class Anything(dict[str, bytes]):
        def __missing__(self, name: str) -> bytes:
            return b""

    asked = {ApiKey(probe.make(Tokens({}, Anything())).KEY) for probe in probes()}
    assert asked == TOKEN_APIS


def test_a_decision_that_differs_is_found() -> None:
    """The check itself: a client that lacks its right is answered otherwise."""
    table = recorded()
    other = {
        probe: {what: [who for who in many if who != "bob"] for what, many in of.items()} for probe, of in table.items()
    }
    assert len(differences(table, other)) == len(table)


if __name__ == "__main__":
    rows = (f"{json.dumps(probe)}: {json.dumps(outcomes)}" for probe, outcomes in kafkas_table().items())
    RECORD.write_text("{\n" + ",\n".join(rows) + "\n}\n")
