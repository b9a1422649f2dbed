"""Two real nodes in one loop, each a cluster of its own: calls between them, and to Apache Kafka, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from interop.kafka_peer import KafkaPeer

from penstock.config.server import Settings
from penstock.node.outgoing import Peer
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.vote_request import VoteRequest
from penstock.server.directories import format_storage
from penstock.server.server import Server

TIMEOUT_S = 30


@contextlib.asynccontextmanager
async def nodes(path: Path, **settings: Any) -> AsyncIterator[tuple[Server, Server]]:
    """Node 1, which calls, and node 2."""
    made = []
    try:
        for number in (1, 2):
            known = Settings.for_node(number, log_dirs=(str(path / f"node-{number}"),), **settings)
            format_storage(known, None, Random(os.urandom(16)), time.time_ns() // 1_000_000, durable=False)
            server = Server(known, durable=False)
            await server.start()
            made.append(server)
        yield made[0], made[1]
    finally:
        for server in made:
            await server.stop()


async def ask(server: Server, peer: Peer, message: Message, timeout_ms: int = 10_000) -> Any:
    """The answer, or the reason as text."""
    ended: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    server.shell.begin()
    server.broker.calls.outgoing.call(
        peer,
        message,
        timeout_ms=timeout_ms,
        done=lambda answer, reason, now_ms: ended.set_result(reason if answer is None else answer),
        now_ms=server.shell.now_ms,
    )
    server.shell.kick()
    return await asyncio.wait_for(ended, TIMEOUT_S)


def peer_of(server: Server, host: str = "127.0.0.1") -> Peer:
    port = int(server.addresses["PLAINTEXT"].rpartition(":")[2])
    return Peer(server.settings.node_id, host, port, "PLAINTEXT")


def run(scenario: Any) -> None:
    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        runner.run(scenario)


def test_a_node_asks_another_by_address_and_by_name_and_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path) as (first, second):
            for peer, node_id in (
                (peer_of(second), 2),
                (peer_of(second, "localhost"), 2),
                (peer_of(first), 1),
            ):
                answer = await ask(first, peer, MetadataRequest(topics=None))
                assert [broker.node_id for broker in answer.brokers] == [node_id]
            assert len(first.shell.links.connected) == 2, "itself it reaches without a socket"
            assert len(second.shell.connections) == 2

    run(scenario())


def test_a_node_that_stops_ends_its_calls_and_others_hear_of_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path) as (first, second):
            peer = peer_of(second)
            await ask(first, peer, ApiVersionsRequest(client_software_name="a", client_software_version="1"))
            lost: list[str] = []
            first.broker.calls.outgoing.on_link_lost.append(lambda peer, channel, reason, now_ms: lost.append(reason))
            await second.stop()
            assert await ask(first, peer, MetadataRequest(topics=None)) == f"{peer}: connection refused"
            assert lost == ["closed by the other side"]

    run(scenario())


def test_many_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with nodes(tmp_path) as (first, second):
            peer = peer_of(second)
            answers = await asyncio.gather(*(ask(first, peer, MetadataRequest(topics=[])) for _ in range(500)))
            assert all(answer.brokers[0].node_id == 2 for answer in answers)
            assert len(first.shell.links.connected) == 1

    run(scenario())


@pytest.mark.java
def test_a_node_asks_a_broker_of_apache_kafka(tmp_path: Path, kafka_peer: KafkaPeer) -> None:
    async def scenario() -> None:
        host, _, port = kafka_peer.bootstrap.rpartition(":")
        kafka = Peer(-1, host, int(port), "PLAINTEXT")
        async with nodes(tmp_path) as (first, _):
            answers = await asyncio.gather(*(ask(first, kafka, MetadataRequest(topics=None)) for _ in range(50)))
            assert {answer.brokers[0].port for answer in answers} == {int(port)}
            refused = await ask(first, kafka, VoteRequest())
            assert refused == f"{kafka} serves no version of Vote, we know 0 to 2"

    run(scenario())
