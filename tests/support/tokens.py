"""A node with delegation tokens, and clients that make them and log in by them.

node = with_tokens()
alice = logged_in(node, "alice")
token = made(alice)
job = by_token(node, token)
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from penstock.config.jaas import PLAIN_MODULE
from penstock.errors import ErrorCode
from penstock.metadata.scram import ScramMechanism
from penstock.node.plugged import NOTHING_PLUGGED, Plugged
from penstock.protocol.messages.create_delegation_token_request import CreatableRenewers, CreateDelegationTokenRequest
from penstock.protocol.messages.describe_delegation_token_request import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from penstock.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from penstock.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.security.authorizer import Authorizer
from penstock.security.scram import ScramClient
from support.broker import Client, Node
from support.logins import PASSWORDS, PROPERTIES, SECURED, add_scram, handshake, next_token

SECRET = "canary-of-the-tokens"
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WITH_TOKENS = {
    **PROPERTIES,
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,{SECURED}:SASL_PLAINTEXT",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN_MODULE} required "
    'username="node" password="node-secret" user_node="node-secret" user_alice="alice-secret";',
    "delegation.token.secret.key": SECRET,
}


def with_tokens(authorizer: Authorizer | None = None, *, plugged: Plugged = NOTHING_PLUGGED, **properties: str) -> Node:
    """A node with users and tokens; `properties` with `__` for a point."""
    given = {name.replace("__", "."): text for name, text in properties.items()}
    node = Node(properties={**WITH_TOKENS, **given}, authorizer=authorizer, plugged=plugged)
    for user, password in PASSWORDS.items():
        add_scram(node, user, password)
    return node


def creation(*renewers: str, owner: str = "", max_lifetime_ms: int = -1) -> CreateDelegationTokenRequest:
    """A request for a token; principals such as `User:bob`."""
    kind, _, name = owner.partition(":")
    named = [each.partition(":") for each in renewers]
    return CreateDelegationTokenRequest(
        owner_principal_type=kind or None,
        owner_principal_name=name or None,
        renewers=[CreatableRenewers(principal_type=each[0], principal_name=each[2]) for each in named],
        max_lifetime_ms=max_lifetime_ms,
    )


def made(client: Client, *renewers: str, owner: str = "", max_lifetime_ms: int = -1) -> Any:
    """A new token, as it is answered."""
    answer = client.ask(creation(*renewers, owner=owner, max_lifetime_ms=max_lifetime_ms), 3)
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return answer


def renewed(client: Client, key: bytes, period_ms: int = -1, version: int = 2) -> Any:
    return client.ask(RenewDelegationTokenRequest(hmac=key, renew_period_ms=period_ms), version)


def expired(client: Client, key: bytes, period_ms: int = -1, version: int = 2) -> Any:
    return client.ask(ExpireDelegationTokenRequest(hmac=key, expiry_time_period_ms=period_ms), version)


def seen(client: Client, *owners: str, version: int = 3) -> Any:
    """The answer to a description of tokens; of all, if no owner is named."""
    named = [each.partition(":") for each in owners]
    wanted = [DescribeDelegationTokenOwner(principal_type=each[0], principal_name=each[2]) for each in named]
    return client.ask(DescribeDelegationTokenRequest(owners=wanted or None), version)


def seen_ids(client: Client, *owners: str) -> set[str]:
    answer = seen(client, *owners)
    assert answer.error_code == 0, ErrorCode(answer.error_code)
    return {each.token_id for each in answer.tokens}


def exchange_of(token_id: str, key: bytes, mechanism: str = "SCRAM-SHA-256", nonce: str = "n0nce") -> ScramClient:
    """The client's side of a login by token."""
    scram = ScramMechanism.named(mechanism)
    assert scram is not None
    return ScramClient(scram, token_id, b64encode(key).decode(), nonce, token=True)


def log_in_by(client: Client, token_id: str, key: bytes, mechanism: str = "SCRAM-SHA-256") -> Any:
    """Logs in by a token; the last answer, which may be a refusal that comes after the delay."""
    assert handshake(client, mechanism).error_code == 0
    sasl = exchange_of(token_id, key, mechanism)
    data: bytes | None = sasl.first()
    answer = None
    while data is not None:
        answer = asked_late(client, data)
        if answer.error_code:
            return answer
        data = next_token(sasl, bytes(answer.auth_bytes))
    return answer


def asked_late(client: Client, data: bytes) -> Any:
    """The answer to a token of a login, for which time passes if it is late."""
    client.send(SaslAuthenticateRequest(auth_bytes=data), 2)
    if not client.answers:
        client.node.advance(200)
    return client.receive()


def by_token(node: Node, made_token: Any, mechanism: str = "SCRAM-SHA-256") -> Client:
    """A client that has logged in by a token."""
    client = node.connect(SECURED)
    answer = log_in_by(client, made_token.token_id, bytes(made_token.hmac), mechanism)
    assert answer.error_code == 0, answer.error_message
    return client
