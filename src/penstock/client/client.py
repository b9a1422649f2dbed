"""A small async client of any Kafka cluster: metadata, offsets, produce and fetch, and `send` for the rest.

`Client` keeps one connection a broker, opened at first use; it learns leaders from Metadata and forgets them when a
broker says that it is not the leader. Requests that fail retriably are repeated until `timeout_ms` has passed.

    async with Client("127.0.0.1:9092") as client:
        ends = await client.offsets([("clicks", 0)], LATEST)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import Any, Self
from uuid import UUID

from penstock.client.connection import BrokerConnection
from penstock.client.limits import CLIENT_FETCH_BYTES, CLIENT_RETRY_BACKOFF_MS
from penstock.client.security import UNSECURED, ClientSecurity
from penstock.errors import (
    AuthenticationError,
    ConfigError,
    ErrorCode,
    PenstockError,
    RequestError,
    UnreachableError,
)
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.metadata_response import MetadataResponse
from penstock.protocol.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from penstock.protocol.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

EARLIEST, LATEST, MAX_TIMESTAMP = -2, -1, -3
READ_UNCOMMITTED, READ_COMMITTED = 0, 1
CONSUMER = -1
"""The replica id of who is no replica; a broker tells a replica its log end, whatever the isolation."""

Partition = tuple[str, int]
Ask = Callable[[int, list[Partition]], Awaitable[list[Partition]]]

FINAL = (AuthenticationError, ConfigError)
"""Why a connection does not come about that will not at the next address either."""
OPERATIONS_FROM_VERSION = 8
"""Metadata tells what a client may do to a topic from this version on (KIP-430)."""
HURRY_MS = 3_000
"""How long one of several bootstrap addresses may take to answer before the next is tried."""


@dataclass(frozen=True, slots=True)
class OffsetAt:
    """Answer of ListOffsets. `offset` is -1 when no record is as late as the time asked for."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class EpochEnd:
    """Answer of OffsetForLeaderEpoch: the largest epoch of the log that is no later than the one asked for, and the
    offset at which the next one begins; both -1 when the log has no epoch as late."""

    leader_epoch: int
    end_offset: int


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one fetch for one partition. `records` is whole batches, viewed in the response's own buffer."""

    records: memoryview
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of each aborted transaction that overlaps; empty unless read_committed."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """What the client knows about a topic: its id, and the node id of each partition's leader (-1: none)."""

    topic_id: UUID
    leaders: tuple[int, ...]


class Client:
    """See the module's head.

    Args:
        bootstrap: "host:port", several separated by commas, or a sequence of them.
        client_id: how the brokers' logs and quotas call us.
        timeout_ms: how long one call may take with all its retries.
        security: TLS and login, for the bootstrap addresses and all brokers alike.
    """

    def __init__(
        self,
        bootstrap: str | Sequence[str],
        *,
        client_id: str = "penstock",
        timeout_ms: int = 30_000,
        security: ClientSecurity = UNSECURED,
    ) -> None:
        addresses = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
        self._bootstrap = [parse_address(address) for address in addresses]
        self._client_id = client_id
        self._timeout_ms = timeout_ms
        self._security = security
        self._brokers: dict[int, tuple[str, int]] = {}
        self._connections: dict[int | None, BrokerConnection] = {}
        self._opening: dict[int | None, asyncio.Lock] = {}
        self._topics: dict[str, TopicState] = {}
        self.controller_id = -1
        self.cluster_id: str | None = None

    async def __aenter__(self) -> Self:
        try:
            await self.connection(None)
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()
        await asyncio.sleep(0)  # lets the transports close

    def close(self) -> None:
        """Closes all connections."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    async def connection(self, node_id: int | None) -> BrokerConnection:
        """The connection to a broker, opened if need be; None is whichever bootstrap address answers first."""
        async with self._opening.setdefault(node_id, asyncio.Lock()):
            connection = self._connections.get(node_id)
            if connection is not None and not connection.closed:
                return connection
            candidates = self._bootstrap
            if node_id is not None:
                if node_id not in self._brokers:
                    await self.refresh([])
                if node_id not in self._brokers:
                    raise UnreachableError(f"broker {node_id} is not in the cluster now")
                candidates = [self._brokers[node_id]]
            connection = self._connections[node_id] = await self._first_of(candidates)
            return connection

    async def _first_of(self, candidates: Sequence[tuple[str, int]]) -> BrokerConnection:
        """A connection to the first address that answers. One that hangs does not delay those after it for long."""
        failure: PenstockError | None = None
        for limit_ms in (HURRY_MS, self._timeout_ms) if len(candidates) > 1 else (self._timeout_ms,):
            for host, port in candidates:
                connection = BrokerConnection(host, port, self._client_id, self._timeout_ms, self._security)
                try:
                    await connection.open(min(limit_ms, self._timeout_ms))
                    return connection
                except FINAL:
                    connection.close()
                    raise
                except PenstockError as error:
                    connection.close()
                    failure = error
        raise failure or UnreachableError("no bootstrap address given")

    async def send(
        self, message: Any, *, node_id: int | None = None, at_most: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        """Sends any request message to a broker and returns its response message, whatever its error codes."""
        connection = await self.connection(node_id)
        return await connection.send(message, at_most=at_most, timeout_ms=timeout_ms)

    async def ask_any(self, message: Any) -> Any:
        """Asks a broker what any of them knows. One that hangs does not hold up for long those after it."""
        if len(self._bootstrap) > 1:
            connection = await self.connection(None)
            with suppress(UnreachableError):
                return await connection.send(message, timeout_ms=self._timeout_ms // 3)
        return await self.send(message)

    async def refresh(
        self, topics: Iterable[str] | None, *, create: bool = False, operations: bool = False
    ) -> MetadataResponse:
        """Asks for metadata (None: all topics) and remembers brokers, leaders and topic ids. `operations`: also what
        this client may do to the topics, where brokers tell it (Metadata 8).
        """
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        if operations:
            version = (await self.connection(None)).version_for(ApiKey.METADATA)
            request.include_topic_authorized_operations = version >= OPERATIONS_FROM_VERSION
        answer: MetadataResponse = await self.ask_any(request)
        self._brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self.controller_id, self.cluster_id = answer.controller_id, answer.cluster_id
        for topic in answer.topics:
            if topic.name is None or topic.error_code != ErrorCode.NONE:
                continue
            leaders = [-1] * len(topic.partitions)
            for partition in topic.partitions:
                leaders[partition.partition_index] = partition.leader_id
            self._topics[topic.name] = TopicState(topic.topic_id, tuple(leaders))
        return answer

    def another(self, bootstrap: str | Sequence[str], *, timeout_ms: int) -> Client:
        """A client of other addresses of the same cluster, which it reaches as this one does."""
        return Client(bootstrap, client_id=self._client_id, timeout_ms=timeout_ms, security=self._security)

    @property
    def brokers(self) -> Mapping[int, tuple[str, int]]:
        """Host and port by node id, as of the last metadata."""
        return self._brokers

    async def topic(self, name: str, count: int = 0) -> TopicState:
        """Id and leaders of a topic; asks again if it has fewer than `count` partitions as far as this client knows.

        Raises RequestError (UNKNOWN_TOPIC_OR_PARTITION, ...).
        """
        state = self._topics.get(name)
        if state is None or -1 in state.leaders or len(state.leaders) < count:
            answer = await self.refresh([name])
            for topic in answer.topics:
                if topic.error_code != ErrorCode.NONE:
                    code = ErrorCode(topic.error_code)
                    missing = code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    raise RequestError(code, f"topic {name}: {'there is no such topic' if missing else code.name}")
            state = self._topics[name]
        return state

    async def topic_names(self) -> list[str]:
        """All topics that this client may see, sorted."""
        answer = await self.refresh(None)
        return sorted(topic.name for topic in answer.topics if topic.name is not None)

    async def offsets(
        self, partitions: Iterable[Partition], timestamp_ms: int, *, isolation: int = READ_UNCOMMITTED
    ) -> dict[Partition, OffsetAt]:
        """Where partitions begin (EARLIEST), end (LATEST), or first reach a time, in one request a leader."""
        found: dict[Partition, OffsetAt] = {}

        async def ask(node_id: int, some: list[Partition]) -> list[Partition]:
            topics = [
                ListOffsetsTopic(
                    name=name,
                    partitions=[ListOffsetsPartition(partition_index=p, timestamp=timestamp_ms) for p in indexes],
                )
                for name, indexes in by_topic(some).items()
            ]
            request = ListOffsetsRequest(replica_id=CONSUMER, isolation_level=isolation, topics=topics)
            answer = await self.send(request, node_id=node_id)
            failed = []
            for topic in answer.topics:
                for got in topic.partitions:
                    key = (topic.name, got.partition_index)
                    if got.error_code == ErrorCode.NONE:
                        found[key] = OffsetAt(got.offset, got.timestamp, got.leader_epoch)
                    else:
                        failed.append(self.retriable(key, got.error_code))
            return failed

        await self.for_leaders(list(partitions), ask)
        return found

    async def epoch_ends(self, epochs: Mapping[Partition, int]) -> dict[Partition, EpochEnd]:
        """Where leader epochs end in the leaders' logs (OffsetForLeaderEpoch), in one request a leader."""
        found: dict[Partition, EpochEnd] = {}

        async def ask(node_id: int, some: list[Partition]) -> list[Partition]:
            topics = [
                OffsetForLeaderTopic(
                    topic=name,
                    partitions=[OffsetForLeaderPartition(partition=p, leader_epoch=epochs[name, p]) for p in indexes],
                )
                for name, indexes in by_topic(some).items()
            ]
            request = OffsetForLeaderEpochRequest(replica_id=CONSUMER, topics=topics)
            answer = await self.send(request, node_id=node_id)
            failed = []
            for topic in answer.topics:
                for got in topic.partitions:
                    key = (topic.topic, got.partition)
                    if got.error_code == ErrorCode.NONE:
                        found[key] = EpochEnd(got.leader_epoch, got.end_offset)
                    else:
                        failed.append(self.retriable(key, got.error_code))
            return failed

        await self.for_leaders(list(epochs), ask)
        return found

    async def produce(
        self,
        topic: str,
        partition: int,
        batch: Any,
        *,
        acks: int = -1,
        timeout_ms: int = 30_000,
        topic_id: UUID | None = None,
        transactional_id: str | None = None,
        at_most: int | None = None,
    ) -> tuple[int, int]:
        """Appends one record batch (bytes of RecordBatch v2). Returns its base offset and the log-append time or -1.

        With acks=0 nobody answers: both are -1. Raises RequestError when the broker refuses the batch, and when the
        topic is not the one of `topic_id`, if that is given. (Brokers before Produce 13 are told the name alone, and
        may have a new topic of that name a moment before the metadata say so.) `transactional_id` is whose transaction
        the batch belongs to; `at_most` caps the version of Produce.
        """
        result = (-1, -1)

        async def ask(node_id: int, some: list[Partition]) -> list[Partition]:
            nonlocal result
            known_id = (await self.topic(topic)).topic_id
            if topic_id is not None and known_id != topic_id:
                raise RequestError(ErrorCode.UNKNOWN_TOPIC_ID, f"{topic} was deleted and made again meanwhile")
            data = TopicProduceData(
                name=topic,
                topic_id=known_id,
                partition_data=[PartitionProduceData(index=partition, records=batch)],
            )
            request = ProduceRequest(
                transactional_id=transactional_id, acks=acks, timeout_ms=timeout_ms, topic_data=[data]
            )
            connection = await self.connection(node_id)
            answer = await connection.send(request, at_most=at_most, answered=acks != 0)
            if answer is None:
                return []
            got = answer.responses[0].partition_responses[0]
            if got.error_code != ErrorCode.NONE:
                return [self.retriable((topic, partition), got.error_code, got.error_message)]
            result = (got.base_offset, got.log_append_time_ms)
            return []

        await self.for_leaders([(topic, partition)], ask)
        return result

    async def fetch(
        self,
        positions: Mapping[Partition, int],
        *,
        max_wait_ms: int = 500,
        min_bytes: int = 1,
        max_bytes: int = 16 * CLIENT_FETCH_BYTES,
        partition_max_bytes: int = CLIENT_FETCH_BYTES,
        isolation: int = READ_UNCOMMITTED,
    ) -> dict[Partition, Fetched]:
        """Whole batches from each position on, in one request a leader.

        Where `max_bytes` is not enough for all, those that come first in `positions` are served first.
        Raises RequestError (OFFSET_OUT_OF_RANGE).
        """
        found: dict[Partition, Fetched] = {}

        async def ask(node_id: int, some: list[Partition]) -> list[Partition]:
            topics = []
            for name, group in groupby(some, key=itemgetter(0)):  # in order: brokers serve those first that come first
                wanted = [
                    FetchPartition(
                        partition=p, fetch_offset=positions[name, p], partition_max_bytes=partition_max_bytes
                    )
                    for _, p in group
                ]
                topics.append(FetchTopic(topic=name, topic_id=(await self.topic(name)).topic_id, partitions=wanted))
            request = FetchRequest(
                max_wait_ms=max_wait_ms,
                min_bytes=min_bytes,
                max_bytes=max_bytes,
                isolation_level=isolation,
                topics=topics,
            )
            answer = await self.send(request, node_id=node_id)
            if answer.error_code != ErrorCode.NONE:
                return [self.retriable(key, answer.error_code) for key in some]
            names = {(await self.topic(name)).topic_id: name for name in dict(some)}
            failed = []
            for topic in answer.responses:
                for got in topic.partitions:
                    key = (topic.topic or names[topic.topic_id], got.partition_index)
                    if got.error_code != ErrorCode.NONE:
                        failed.append(self.retriable(key, got.error_code))
                        continue
                    aborted = tuple((t.producer_id, t.first_offset) for t in got.aborted_transactions or ())
                    records = memoryview(b"") if got.records is None else got.records
                    found[key] = Fetched(
                        records, got.high_watermark, got.last_stable_offset, got.log_start_offset, aborted
                    )
            return failed

        await self.for_leaders(list(positions), ask)
        return found

    def retriable(self, partition: Partition, code: int, message: str | None = None) -> Partition:
        """The partition, after forgetting its leader, if a later try may succeed; otherwise raises RequestError.

        A leader that does not know the topic may not have heard of it yet; that there is none, the metadata say.
        """
        error = ErrorCode(code)
        self._topics.pop(partition[0], None)
        if not error.retriable:
            raise RequestError(error, message or f"{partition[0]}-{partition[1]}: {error.name}")
        return partition

    async def for_leaders(self, partitions: list[Partition], ask: Ask) -> None:
        """Runs `ask(leader, its partitions)` for all leaders at once, and again for the partitions that it returns.

        Raises what `ask` raises, and UnreachableError when some still fail after the time that a call may take.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_ms / 1000
        reason = "no leader"
        while True:
            late = loop.time() > deadline  # who has waited all the time for a broker that hangs tries another one
            by_leader, again = await self._group_by_leader(partitions)
            answers = await asyncio.gather(*(ask(*item) for item in by_leader.items()), return_exceptions=True)
            for some, answer in zip(by_leader.values(), answers, strict=True):
                if isinstance(answer, UnreachableError):
                    reason = str(answer)
                    for name, _ in some:
                        self._topics.pop(name, None)
                    again += some
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    again += answer
            if not again:
                return
            if late:
                names = ", ".join(f"{name}-{index}" for name, index in again[:5])
                raise UnreachableError(f"gave up on {names} after {self._timeout_ms} ms: {reason}")
            partitions = again
            await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)

    async def _group_by_leader(self, partitions: list[Partition]) -> tuple[dict[int, list[Partition]], list[Partition]]:
        """Partitions by their leader's node id, and those that have none now. Raises RequestError for unknown ones."""
        by_leader: dict[int, list[Partition]] = {}
        leaderless: list[Partition] = []
        last = {name: max(indexes) for name, indexes in by_topic(partitions).items()}
        found = {name: (await self.topic(name, index + 1)).leaders for name, index in last.items()}
        for name, index in partitions:
            leaders = found[name]
            if not 0 <= index < len(leaders):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                raise RequestError(code, f"{name} has partitions 0-{len(leaders) - 1}, not {index}")
            if leaders[index] < 0:
                leaderless.append((name, index))
            else:
                by_leader.setdefault(leaders[index], []).append((name, index))
        return by_leader, leaderless


def parse_address(text: str) -> tuple[str, int]:
    """ "host:port" or "[v6]:port" as a pair. Raises ValueError naming what is wrong."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address: host:port, for example 127.0.0.1:9092")
    return host.strip("[]"), int(port)


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Partition indexes by topic, in the order in which they come."""
    grouped: dict[str, list[int]] = {}
    for name, index in partitions:
        grouped.setdefault(name, []).append(index)
    return grouped
