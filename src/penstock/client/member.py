"""A member of a consumer group (KIP-848), for the command line: it heartbeats, takes what it is given, reads, commits.

    async with Member(client, "reports", ["clicks"]) as member:
        for topic, partition, record in await member.poll(): ...
        await member.commit()

The coordinator decides who reads what; the member says what it has. A task heartbeats; `poll` takes over a new
assignment before it fetches: it commits, gives up what is not its own any more, and goes on from the committed
offsets of what is new. A member that was fenced forgets what it had, commits nothing of it, and joins again. One that
missed an answer says all of itself in its next heartbeat, and so is told its whole assignment again.

Applications use their language's well-kept client; this one is at-least-once, of one process, and small.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self
from uuid import UUID, uuid4

from penstock.client.client import EARLIEST, READ_UNCOMMITTED, Client, Fetched, Partition
from penstock.client.consumer import user_batches
from penstock.client.groups import MOVED, NAMES_UP_TO, ask, commit_error, committed, coordinator
from penstock.config.limits import CLIENT_FETCH_BYTES, CLIENT_RETRY_BACKOFF_MS
from penstock.errors import ErrorCode, PenstockError, RequestError, UnreachableError
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.records.compression import Contexts
from penstock.records.reader import Record, bounded, records

WAIT_MS = 500
REBALANCE_TIMEOUT_MS = 60_000
LEAVE, JOIN = -1, 0
LOST = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""Errors of a heartbeat after which the member has nothing any more, and joins again."""
LATE = LOST | {ErrorCode.STALE_MEMBER_EPOCH}
"""Errors of a commit after which the next heartbeat tells what the member has."""


class Member:
    """See the module's head.

    Args:
        topics: what to subscribe to. start: EARLIEST or LATEST, for partitions without a committed offset.
        isolation: as `Client.fetch`.

    Attributes:
        positions: the next offset to read of each partition that this member has.
    """

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        start: int = EARLIEST,
        isolation: int = READ_UNCOMMITTED,
    ) -> None:
        self.positions: dict[Partition, int] = {}
        self._client = client
        self._group_id = group_id
        self._topics = list(topics)
        self._start = start
        self._isolation = isolation
        self._member_id = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
        self._epoch = JOIN
        self._assigned: frozenset[Partition] = frozenset()
        self._ids: dict[str, UUID] = {}
        self._committed: dict[Partition, int] = {}
        self._unsure = False
        self._lost = False
        self._changed = asyncio.Event()
        self._said = asyncio.Event()
        self._failure: PenstockError | None = None
        self._beating: asyncio.Task[None] | None = None
        self._decompress = bounded(Contexts())

    async def __aenter__(self) -> Self:
        for topic in self._topics:
            self._ids[topic] = (await self._client.topic(topic)).topic_id
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._beating is not None
        self._beating.cancel()
        with suppress(asyncio.CancelledError):
            await self._beating
        if self._epoch > JOIN:
            with suppress(PenstockError):
                if kind is None:  # else what `poll` gave last may not have been done
                    await self.commit()
                await self._client.send(self._heartbeat(LEAVE), node_id=await coordinator(self._client, self._group_id))

    async def poll(self, limit: int = sys.maxsize) -> list[tuple[str, int, Record]]:
        """(topic, partition, record) of what there is to read, in order within a partition; none after a while.

        At most `limit` records. What an earlier call gave is taken for done: a new assignment commits it.
        """
        await self._take_over()
        if not self.positions:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_MS / 1000):
                    await self._changed.wait()
            return []
        found: list[tuple[str, int, Record]] = []
        fetched = await self._client.fetch(
            dict(self.positions), max_wait_ms=WAIT_MS, partition_max_bytes=CLIENT_FETCH_BYTES, isolation=self._isolation
        )
        for place, answer in sorted(fetched.items()):
            for record in self._records(place, answer):
                found.append((*place, record))
                if len(found) == limit:
                    self.positions[place] = record.offset + 1
                    return found
        return found

    def _records(self, place: Partition, answer: Fetched) -> Iterator[Record]:
        """The records of one partition, from its position on, which moves behind each batch."""
        for position, header in user_batches(answer, self._isolation, self._decompress):
            at = self.positions[place]
            if position is not None:
                for record in records(answer.records, header, position, self._decompress):
                    if record.offset >= at:
                        yield record
            self.positions[place] = max(at, header.next_offset)

    async def commit(self) -> None:
        """Commits how far this member has come. Raises RequestError, UnreachableError.

        A member that was fenced meanwhile commits nothing: who has its partitions now reads them again.
        """
        offsets = {place: at for place, at in self.positions.items() if self._committed.get(place) != at}
        if not offsets or self._lost:
            return
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (name, index), offset in offsets.items():
            place = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, committed_metadata="")
            topics.setdefault(name, []).append(place)
        request = OffsetCommitRequest(
            group_id=self._group_id,
            generation_id_or_member_epoch=self._epoch,
            member_id=self._member_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=some) for name, some in topics.items()],
        )
        answer, _ = await ask(self._client, self._group_id, request, commit_error, at_most=NAMES_UP_TO)
        code = ErrorCode(commit_error(answer))
        if code in LATE:
            return
        if code:
            raise RequestError(code, f"group {self._group_id}: offsets are not committed: {code.name}")
        self._committed.update(offsets)

    async def _take_over(self) -> None:
        """What the heartbeats have brought becomes what is read."""
        if self._failure is not None:
            raise self._failure
        if not self._changed.is_set():
            return
        self._changed.clear()
        if self._lost:
            self._lost = False
            self.positions, self._committed = {}, {}
        assigned = self._assigned
        if not self.positions.keys() <= assigned:
            with suppress(RequestError):  # who is late has read in vain
                await self.commit()
        self.positions = {place: at for place, at in self.positions.items() if place in assigned}
        new = sorted(assigned - self.positions.keys())
        if new:
            held = await committed(self._client, self._group_id)
            fresh = [place for place in new if place not in held]
            begin = await self._client.offsets(fresh, self._start) if fresh else {}
            for place in new:
                self.positions[place] = held[place].offset if place in held else begin[place].offset
        self._committed = {place: at for place, at in self._committed.items() if place in assigned}
        self._said.set()

    # Heartbeats

    def _heartbeat(self, epoch: int) -> ConsumerGroupHeartbeatRequest:
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=epoch, topic_partitions=None
        )
        if epoch != LEAVE:
            owned: dict[UUID, list[int]] = {}
            for name, index in sorted(() if epoch == JOIN or self._lost else self.positions):
                owned.setdefault(self._ids[name], []).append(index)
            request.topic_partitions = [
                TopicPartitions(topic_id=topic_id, partitions=indexes) for topic_id, indexes in owned.items()
            ]
        if epoch == JOIN or (self._unsure and epoch != LEAVE):
            request.subscribed_topic_names = self._topics
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS
        return request

    async def _beat(self) -> None:
        """Heartbeats until it is cancelled, or until the coordinator refuses for good."""
        node_id: int | None = None
        try:
            while True:
                try:
                    if node_id is None:
                        node_id = await coordinator(self._client, self._group_id)
                    answer = await self._client.send(self._heartbeat(self._epoch), node_id=node_id)
                except UnreachableError:
                    answer = None
                if answer is None or answer.error_code in MOVED:
                    node_id, self._unsure = None, True
                    await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)
                else:
                    self._unsure = False
                    await self._heard(answer)
        except PenstockError as error:
            self._failure = error
            self._changed.set()

    async def _heard(self, answer: Any) -> None:
        """Does what an answer says, and waits until the next heartbeat is due. Raises RequestError."""
        code = ErrorCode(answer.error_code)
        if code in LOST:
            self._epoch, self._assigned, self._lost = JOIN, frozenset(), True
            self._changed.set()
            return
        if code:
            raise RequestError(code, f"group {self._group_id}: {answer.error_message or code.name}")
        self._epoch = answer.member_epoch
        if answer.assignment is not None:
            names = {topic_id: name for name, topic_id in self._ids.items()}
            self._assigned = frozenset(
                (names[topic.topic_id], index)
                for topic in answer.assignment.topic_partitions
                if topic.topic_id in names
                for index in topic.partitions
            )
            self._said.clear()
            self._changed.set()
        with suppress(TimeoutError):  # sooner, when there is something to say: that the assignment is taken over
            async with asyncio.timeout(answer.heartbeat_interval_ms / 1000):  # wait_for of 3.11 may swallow the end
                await self._said.wait()
            self._said.clear()
