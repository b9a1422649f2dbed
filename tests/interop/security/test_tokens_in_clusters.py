"""Delegation tokens in three nodes: what a broker that is not the controller is asked is forwarded, and tokens outlive
the controller that made them.
"""

from __future__ import annotations

import asyncio
from itertools import product
from pathlib import Path

import pytest
from interop.security.test_links_between_nodes import NODE, cluster
from support.processes import Cluster

from penstock.client.client import Client
from penstock.client.security import ClientSecurity, client_security
from penstock.client.tokens import Token, create_token, describe_tokens, expire_token, renew_token
from penstock.config.jaas import PLAIN_MODULE, SCRAM_MODULE
from penstock.errors import AuthenticationError
from penstock.protocol.messages import describe_quorum_request

pytestmark = pytest.mark.slow

SECRET = "canary-of-the-tokens"


def three(directory: Path) -> Cluster:
    """Three nodes whose clients log in by PLAIN, or by a token with SCRAM."""
    nodes = cluster(directory, "PLAIN", delegation_token_secret_key=SECRET)
    for id_ in nodes.roles:
        text = nodes.file(id_).read_text()
        more = (
            "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n"
            f"listener.name.plaintext.scram-sha-256.sasl.jaas.config={SCRAM_MODULE} required;\n"
        )
        nodes.file(id_).write_text(f"{text}\n{more}")
    return nodes


def secured(mechanism: str, login: str) -> ClientSecurity:
    return client_security(
        {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism, "sasl.jaas.config": login}
    )


BY_PASSWORD = secured("PLAIN", f"{PLAIN_MODULE} required {NODE};")


def by_token(token: Token) -> ClientSecurity:
    login = f'{SCRAM_MODULE} required username="{token.id}" password="{token.password}" tokenauth="true";'
    return secured("SCRAM-SHA-256", login)


async def logs_in(address: str, security: ClientSecurity) -> bool:
    """Whether a client is let in by one node."""
    try:
        async with Client(address, security=security) as client:
            await client.refresh(None)
    except AuthenticationError:
        return False
    return True


async def ask_each(nodes: Cluster) -> list[Token]:
    """Has each node make a token, renew it and see it; then all know all of them."""
    made = []
    for address in nodes.bootstrap.split(","):
        async with Client(address, security=BY_PASSWORD) as client:
            token = await create_token(client, renewers=["User:bob"])
            assert await renew_token(client, token.hmac) >= token.expires_ms
            assert token.id in {each.id for each in await describe_tokens(client)}
            made.append(token)
    return made


async def go_on(addresses: list[str], tokens: list[Token]) -> None:
    """Has nodes go on after a failover: make tokens, and end the first of those that there are."""
    for address in addresses:
        async with Client(address, security=BY_PASSWORD) as client:
            await create_token(client)
    async with Client(addresses[0], security=BY_PASSWORD) as client:
        await expire_token(client, tokens[0].hmac)
        assert tokens[0].id not in {each.id for each in await describe_tokens(client)}
    assert not await logs_in(addresses[0], by_token(tokens[0]))
    assert await logs_in(addresses[0], by_token(tokens[1]))


async def leader_of(nodes: Cluster) -> int:
    """The id of the active controller."""
    async with Client(nodes.bootstrap, security=BY_PASSWORD) as client:
        topic = describe_quorum_request.TopicData(
            topic_name="__cluster_metadata", partitions=[describe_quorum_request.PartitionData(partition_index=0)]
        )
        answer = await client.send(describe_quorum_request.DescribeQuorumRequest(topics=[topic]))
        return int(answer.topics[0].partitions[0].leader_id)


def test_tokens_outlive_the_controller_that_made_them(tmp_path: Path) -> None:
    with three(tmp_path) as nodes:
        tokens = asyncio.run(ask_each(nodes))
        leader = asyncio.run(leader_of(nodes))
        nodes.kill(leader)
        left = [f"127.0.0.1:{nodes.ports[id_]}" for id_ in nodes.roles if id_ != leader]
        for address, token in product(left, tokens):
            assert asyncio.run(logs_in(address, by_token(token))), "none is lost"
        asyncio.run(go_on(left, tokens))
        said = "".join(nodes.log(id_) for id_ in nodes.roles)
        assert "Traceback" not in said
        assert all(token.password not in said and token.hmac.hex() not in said for token in tokens)
        nodes.start(leader)
        nodes.wait_ready(leader)
