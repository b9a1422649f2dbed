"""A node of Penstock with delegation tokens, and the ordinary users alice and bob."""

from __future__ import annotations

from pathlib import Path

from interop.secured_kafka import write_properties

from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.testing.broker import LocalBroker

SECRET = "canary-of-the-tokens"
PASSWORDS = {"alice": "alice-secret", "bob": "bob-secret"}
USERS = " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SECURED://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT,SECURED:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.secured.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {USERS};",
    "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="node" '
    'password="node-secret" user_node="node-secret";',
    "delegation.token.secret.key": SECRET,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS;User:node;User:alice",
}


class TokenBroker(LocalBroker):
    """See the module's head. `secured` is the address of the listener with SASL."""

    def __init__(self, data_dir: Path | None = None, **more: str) -> None:
        super().__init__({**SETTINGS, **{name.replace("__", "."): text for name, text in more.items()}}, data_dir)

    @property
    def secured(self) -> str:
        return self.addresses["SECURED"]


def client_file(directory: Path, user: str) -> Path:
    """Client properties of a user."""
    login = f'{PLAIN_MODULE} required username="{user}" password="{PASSWORDS[user]}";'
    return write_properties(
        directory / f"{user}.properties",
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": login},
    )


def token_file(directory: Path, token_id: str, hmac: str, mechanism: str = "SCRAM-SHA-256") -> Path:
    """Client properties of the bearer of a token."""
    login = f'{SCRAM_MODULE} required username="{token_id}" password="{hmac}" tokenauth="true";'
    return write_properties(
        directory / f"{token_id}-{mechanism}.properties",
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": login},
    )
