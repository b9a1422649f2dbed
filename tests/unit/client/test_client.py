"""A client of several brokers: one that hangs or goes away ends nothing that another can do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from penstock.client import client as module
from penstock.client.client import LATEST, Client, OffsetAt
from penstock.client.connection import NoAnswer
from penstock.client.coordinators import coordinator
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

TIMEOUT_MS = 9
HANGING_S = 0.012
"""Longer than a call of the client may take."""


class Brokers:
    """Brokers 1 and 2, on ports of these numbers.

    Attributes:
        there: those that the metadata name. hanging: those that answer nothing. leader: of all partitions.
        partitions: of the topic. deaf: how often its leader answers that it does not know the topic.
        deleted: who is asked for metadata has heard that the topic is deleted.
    """

    def __init__(self) -> None:
        self.there = {1, 2}
        self.hanging: set[int] = set()
        self.leader = 1
        self.partitions = 1
        self.deaf = 0
        self.deleted = False

    def answer(self, request: Any) -> Any:
        if isinstance(request, MetadataRequest):
            partitions = [
                MetadataResponsePartition(partition_index=index, leader_id=self.leader)
                for index in range(self.partitions)
            ]
            unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.deleted else ErrorCode.NONE
            topic = MetadataResponseTopic(
                error_code=unknown, name="t", topic_id=UUID(int=7), partitions=[] if self.deleted else partitions
            )
            brokers = [MetadataResponseBroker(node_id=each, host="h", port=each) for each in sorted(self.there)]
            return MetadataResponse(brokers=brokers, topics=[topic])
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator(node_id=self.leader)])
        heard = ErrorCode.NONE if self.deaf == 0 else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self.deaf -= bool(heard)
        offsets = [
            ListOffsetsPartitionResponse(partition_index=each.partition_index, error_code=heard, offset=5)
            for each in request.topics[0].partitions
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=offsets)])


@pytest.fixture
def brokers(monkeypatch: pytest.MonkeyPatch) -> Brokers:
    brokers = Brokers()

    class Connection:
        def __init__(self, host: str, port: int, client_id: str, timeout_ms: int, security: object) -> None:
            self.node_id, self.closed = port, False

        async def open(self, timeout_ms: int) -> None:
            if self.node_id in brokers.hanging:
                raise UnreachableError("it does not answer")

        def close(self) -> None:
            self.closed = True

        def version_for(self, key: object) -> int:
            return 6

        async def send(self, message: Any, **_: Any) -> Any:
            if self.node_id in brokers.hanging:
                await asyncio.sleep(HANGING_S)
                self.closed = True
                raise NoAnswer("it does not answer")
            return brokers.answer(message)

    monkeypatch.setattr(module, "BrokerConnection", Connection)
    monkeypatch.setattr(module, "CLIENT_RETRY_BACKOFF_MS", 0)
    return brokers


def run(job: Callable[[Client], Awaitable[None]]) -> None:
    async def work() -> None:
        async with Client(["h:1", "h:2"], timeout_ms=TIMEOUT_MS) as client:
            await job(client)

    asyncio.run(work())


def test_when_the_leader_hangs_the_next_one_is_asked_even_if_the_time_is_up(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        assert await client.offsets([("t", 0)], LATEST) == {("t", 0): OffsetAt(5, -1, -1)}
        brokers.hanging, brokers.leader = {1}, 2
        assert await client.offsets([("t", 0)], LATEST) == {("t", 0): OffsetAt(5, -1, -1)}

    run(job)


def test_a_coordinator_is_found_though_the_broker_that_was_asked_so_far_hangs(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        brokers.hanging, brokers.leader = {1}, 2
        assert await coordinator(client, "g") == 2

    run(job)


def test_a_broker_that_is_not_in_the_metadata_any_more_cannot_be_reached(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        brokers.there.remove(2)
        await client.refresh([])
        with pytest.raises(UnreachableError, match="broker 2 is not in the cluster now"):
            await client.send(HeartbeatRequest(), node_id=2)

    run(job)


def test_a_partition_that_the_topic_has_got_since_is_found(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        assert await client.offsets([("t", 0)], LATEST)
        brokers.partitions = 3
        assert await client.offsets([("t", 0), ("t", 2)], LATEST) == dict.fromkeys(
            [("t", 0), ("t", 2)], OffsetAt(5, -1, -1)
        )
        with pytest.raises(RequestError, match="t has partitions 0-2, not 3"):
            await client.offsets([("t", 3)], LATEST)

    run(job)


def test_a_leader_that_has_not_heard_of_a_new_topic_is_asked_again(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        brokers.deaf = 1
        assert await client.offsets([("t", 0)], LATEST) == {("t", 0): OffsetAt(5, -1, -1)}

    run(job)


def test_a_topic_that_was_deleted_since_is_said_to_be_missing(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        assert await client.offsets([("t", 0)], LATEST)
        brokers.deaf, brokers.deleted = 1, True
        with pytest.raises(RequestError, match="topic t: there is no such topic"):
            await client.offsets([("t", 0)], LATEST)

    run(job)


def test_nothing_is_produced_to_another_topic_of_the_name(brokers: Brokers) -> None:
    async def job(client: Client) -> None:
        with pytest.raises(RequestError, match="t was deleted and made again meanwhile") as raised:
            await client.produce("t", 0, b"", topic_id=UUID(int=8))
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_ID

    run(job)
