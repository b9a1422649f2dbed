"""A node with a listener that clients log in on, and clients that do.

node = secured()
client = logged_in(node, "alice")
"""

from __future__ import annotations

from random import Random
from typing import Any

from penstock.config.jaas import PLAIN_MODULE
from penstock.metadata.scram import ScramMechanism, credential_of
from penstock.node.plugged import NOTHING_PLUGGED, Plugged
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.security.plain import PlainClient
from penstock.security.sasl import Derivation, SaslClient
from penstock.security.scram import ScramClient
from support.broker import Client, Node

SECURED = "SECURED"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
SALT = b"salt"
PROPERTIES = {
    "listeners": f"PLAINTEXT://127.0.0.1:0,{SECURED}://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,{SECURED}:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "listener.name.secured.plain.sasl.jaas.config": f"{PLAIN_MODULE} required "
    + " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    + ";",
}


def secured(*, plugged: Plugged = NOTHING_PLUGGED, **properties: str) -> Node:
    """A node with users of every mechanism; `properties` with `__` for a point."""
    given = {name.replace("__", "."): text for name, text in properties.items()}
    node = Node(properties={**PROPERTIES, **given}, plugged=plugged)
    for user, password in PASSWORDS.items():
        add_scram(node, user, password)
    return node


def add_scram(node: Node, user: str, password: str, iterations: int = 4096) -> None:
    records = []
    for mechanism in ScramMechanism:
        key = Derivation(mechanism.hash_name, password.encode(), SALT, iterations).derive()
        records.append(credential_of(mechanism, SALT, key, iterations).record(user, mechanism))
    node.change(records)


def client_of(mechanism: str, user: str, password: str | None = None) -> SaslClient:
    """The client's side of a login."""
    password = PASSWORDS.get(user, "") if password is None else password
    scram = ScramMechanism.named(mechanism)
    if scram is None:
        return PlainClient(user, password)
    return ScramClient(scram, user, password, f"{Random(user).getrandbits(100):x}")


def handshake(client: Client, mechanism: str = "PLAIN", version: int = 1) -> Any:
    return client.ask(SaslHandshakeRequest(mechanism=mechanism), version)


def token(client: Client, data: bytes, version: int = 2) -> Any:
    return client.ask(SaslAuthenticateRequest(auth_bytes=data), version)


def next_token(sasl: SaslClient, answer: bytes) -> bytes | None:
    step = sasl.evaluate(answer)
    return sasl.derived(step.derive()) if isinstance(step, Derivation) else step


def log_in(
    client: Client, user: str, mechanism: str = "PLAIN", password: str | None = None, *, version: int = 2
) -> Any:
    """Logs in, first or again; returns the last answer."""
    assert handshake(client, mechanism).error_code == 0
    sasl = client_of(mechanism, user, password)
    data: bytes | None = sasl.first()
    answer = None
    while data is not None:
        answer = token(client, data, version)
        assert answer.error_code == 0, answer
        data = next_token(sasl, bytes(answer.auth_bytes))
    return answer


def logged_in(node: Node, user: str, mechanism: str = "PLAIN") -> Client:
    client = node.connect(SECURED)
    log_in(client, user, mechanism)
    return client
