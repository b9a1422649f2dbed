"""Apache Kafka and Penstock take turns on one data directory: each knows the delegation tokens that the other made, and
lets in who has one.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from interop.data_directory.turns import DataDirectory
from interop.kafka_peer import require_kafka

from penstock.client.client import Client
from penstock.client.security import ClientSecurity, client_security
from penstock.client.tokens import Token, create_token, describe_tokens, expire_token
from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE

pytestmark = [pytest.mark.java, pytest.mark.slow]


def lines(properties: str) -> list[str]:
    """The settings of a node with tokens, on the listeners that it has."""
    login = f'{PLAIN_MODULE} required username="node" password="node-secret" user_node="node-secret";'
    assert "CONTROLLER" in properties
    return [
        "listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "inter.broker.listener.name=PLAINTEXT",
        "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
        "listener.name.controller.sasl.enabled.mechanisms=PLAIN",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        "sasl.mechanism.controller.protocol=PLAIN",
        f"listener.name.plaintext.plain.sasl.jaas.config={login}",
        f"listener.name.controller.plain.sasl.jaas.config={login}",
        f"listener.name.plaintext.scram-sha-256.sasl.jaas.config={SCRAM_MODULE} required;",
        "delegation.token.secret.key=canary-of-the-tokens",
    ]


def secured(mechanism: str, login: str) -> ClientSecurity:
    return client_security(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": login}
    )


BY_PASSWORD = secured("PLAIN", f'{PLAIN_MODULE} required username="node" password="node-secret";')


def by_token(token: Token) -> ClientSecurity:
    login = f'{SCRAM_MODULE} required username="{token.id}" password="{token.password}" tokenauth="true";'
    return secured("SCRAM-SHA-256", login)


async def turn(bootstrap: str, known: list[Token]) -> None:
    """Finds the tokens, logs in by each, makes two more and ends one of them."""
    async with Client(bootstrap, security=BY_PASSWORD) as client:
        assert sorted(map(described, await describe_tokens(client))) == sorted(map(described, known))
        for token in known:
            async with Client(bootstrap, security=by_token(token)) as bearer:
                await bearer.refresh(None)
        made, ended = [await create_token(client, renewers=["User:bob"]) for _ in range(2)]
        for _ in range(100):
            if {made.id, ended.id} <= {each.id for each in await describe_tokens(client)}:
                break
            await asyncio.sleep(0.1)
        await expire_token(client, ended.hmac)
        known.append(made)


def described(token: Token) -> tuple[object, ...]:
    return tuple(getattr(token, name) for name in token.__slots__)


def test_tokens_go_from_one_to_the_other_and_back(tmp_path: Path) -> None:
    require_kafka()
    known: list[Token] = []
    with DataDirectory(tmp_path, formatted_by="penstock") as shared:
        before = shared.kafka.config_file.read_text()
        shared.kafka.config_file.write_text(before + "\n".join(lines(before)) + "\n")
        for who in ("penstock", "kafka", "penstock"):
            with shared.served_by(who):
                asyncio.run(turn(shared.bootstrap, known))
    assert len(known) == 3
