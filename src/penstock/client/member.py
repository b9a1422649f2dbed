"""A member of a group, for the command line: it heartbeats, takes over its assignment, reads, commits.

    async with Member(client, "reports", ["clicks"]) as member:
        for topic, partition, record in await member.poll(): ...
        await member.commit()

The requests to the coordinator, and the meaning of its answers, are in `client.membership` for consumer groups
(KIP-848) and in `client.classic_membership` for the classic protocol, where the member is an eager one. A task
heartbeats; `poll` takes over a new assignment before it fetches: it commits, gives up partitions it has lost, and
continues from the committed offsets of new ones. A member that was fenced forgets its partitions, and commits nothing
for them. A topic that was deleted and created again is another topic, with another id: positions in the old one are
forgotten.

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

from penstock.client.assignors import ASSIGNORS
from penstock.client.classic_membership import ClassicMembership
from penstock.client.client import EARLIEST, READ_UNCOMMITTED, Client, Fetched, Partition
from penstock.client.consumer import user_batches
from penstock.client.coordinators import ask, coordinator
from penstock.client.groups import (
    NAMES_UP_TO,
    NO_CONSUMER_GROUP,
    Committed,
    commit_error,
    commit_request,
    committed,
)
from penstock.client.limits import CLIENT_FETCH_BYTES, CLIENT_RETRY_BACKOFF_MS
from penstock.client.membership import JOIN, LOST, Heard, Membership
from penstock.errors import ErrorCode, PenstockError, RequestError, UnreachableError, UnsupportedVersionError
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.records.compression import Contexts
from penstock.records.reader import Record, bounded, records

CLASSIC, CONSUMER = "classic", "consumer"
"""What a member may be, as `group.protocol` says it."""
WAIT_MS = 500
REBALANCE_TIMEOUT_MS = 60_000
JOIN_GRACE_MS = 5_000
"""A join is answered when all have joined, or their time is up; then it is on its way."""
SESSION_TIMEOUT_MS, HEARTBEAT_INTERVAL_MS = 45_000, 3_000
"""Of a classic member, as in Kafka's consumer."""
HEARTBEAT_TIMEOUT_MS = 15_000
"""A coordinator that hangs leaves time for the next one in the same session."""
METADATA_MAX_AGE_S = 60.0
"""How often the leader of a classic group looks for new partitions."""
MADE_AGAIN = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.OFFSET_OUT_OF_RANGE}
)
"""Errors of a fetch that may come of reading a new topic from the old one's offsets."""
LATE = (LOST - {ErrorCode.GROUP_ID_NOT_FOUND}) | {
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
}
"""Errors of a commit after which the next heartbeat tells what the member has."""


class Member:
    """See the module's head.

    Args:
        topics: what to subscribe to. start: EARLIEST or LATEST, for partitions without a committed offset.
        isolation: as `Client.fetch`.
        protocol: CLASSIC or CONSUMER; None: CONSUMER, if the cluster and the group know it.

    Attributes:
        positions: the next offset to read of each partition that this member has.
        membership: its place in the group.
    """

    def __init__(
        self,
        client: Client,
        group_id: str,
        topics: Sequence[str],
        *,
        start: int = EARLIEST,
        isolation: int = READ_UNCOMMITTED,
        protocol: str | None = None,
    ) -> None:
        self.positions: dict[Partition, int] = {}
        self._client = client
        self._group_id = group_id
        self._topics = list(topics)
        self._protocol = protocol
        self.membership: Membership | ClassicMembership = self._place_in(CONSUMER if protocol is None else protocol)
        self._start = start
        self._isolation = isolation
        self._assigned: dict[Partition, UUID] = {}
        self._ids: dict[str, UUID] = {}
        self._read_from: dict[Partition, UUID] = {}
        self._committed: dict[Partition, int] = {}
        self._lost = False
        self._changed = asyncio.Event()
        self._said = asyncio.Event()
        self._look_at_s = 0.0
        self._beating: asyncio.Task[None] | None = None
        self._decompress = bounded(Contexts())

    def _place_in(self, protocol: str) -> Membership | ClassicMembership:
        if protocol == CONSUMER:
            member_id = base64.urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")
            return Membership(self._group_id, member_id, self._topics, rebalance_timeout_ms=REBALANCE_TIMEOUT_MS)
        return ClassicMembership(
            self._group_id,
            self._topics,
            ASSIGNORS,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            interval_ms=HEARTBEAT_INTERVAL_MS,
        )

    async def __aenter__(self) -> Self:
        for topic in self._topics:
            self._ids[topic] = (await self._client.topic(topic)).topic_id
        if self._protocol is None:
            try:
                (await self._client.connection(None)).version_for(ApiKey.CONSUMER_GROUP_HEARTBEAT)
            except UnsupportedVersionError:
                self.membership = self._place_in(CLASSIC)
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._beating is not None
        self._beating.cancel()
        await asyncio.gather(self._beating, return_exceptions=True)
        if kind is None:  # else what `poll` gave last may not have been done
            with suppress(PenstockError):  # it leaves even so
                await self.commit()
        request = self.membership.leave_request()
        if request is not None:
            with suppress(PenstockError):
                await self._client.send(request, node_id=await coordinator(self._client, self._group_id))

    async def poll(self, limit: int = sys.maxsize) -> list[tuple[str, int, Record]]:
        """Returns (topic, partition, record) of records to read, in order within a partition; none after a timeout.

        At most `limit` records. Records of an earlier call count as processed: a new assignment commits them.
        """
        await self._take_over()
        if not self.positions:
            with suppress(TimeoutError):
                async with asyncio.timeout(WAIT_MS / 1000):
                    await self._changed.wait()
            return []
        fetched = await self._fetch()
        found: list[tuple[str, int, Record]] = []
        for place, answer in sorted(fetched.items()):
            try:
                for record in self._records(place, answer):
                    found.append((*place, record))
                    if len(found) == limit:
                        self.positions[place] = record.offset + 1
                        return found
            except PenstockError:
                if not found:
                    raise
                *last, record = found[-1]
                if tuple(last) == place:
                    self.positions[place] = record.offset + 1
                return found  # what was read is not lost; the next call meets the error again, and says so
        return found

    async def _fetch(self) -> dict[Partition, Fetched]:
        """Fetches from the positions on; skips topics that were deleted and created again."""
        try:
            fetched = await self._client.fetch(
                dict(self.positions),
                max_wait_ms=WAIT_MS,
                partition_max_bytes=CLIENT_FETCH_BYTES,
                isolation=self._isolation,
            )
        except RequestError as error:
            if error.code not in MADE_AGAIN or not await self._forget_what_was_made_again():
                raise
            return {}
        await self._forget_what_was_made_again()
        return {place: answer for place, answer in fetched.items() if place in self.positions}

    async def _forget_what_was_made_again(self) -> bool:
        """Drops the positions in topics that have been created again; returns whether there were any."""
        ids = {name: (await self._client.topic(name)).topic_id for name, _ in self._read_from}
        old = [place for place, topic_id in self._read_from.items() if topic_id != ids.get(place[0], topic_id)]
        self._forget(old)
        self._ids |= ids
        if old and isinstance(self.membership, ClassicMembership):
            self.membership.rejoin()  # nobody else would tell that it is to have the new ones
        return bool(old)

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

        A member that was fenced meanwhile commits nothing: the new owner of its partitions reads the records again.
        """
        offsets = {place: at for place, at in self.positions.items() if self._committed.get(place) != at}
        if not offsets or self._lost:
            return
        new = {place: Committed(at) for place, at in offsets.items()}
        place = self.membership
        request = commit_request(self._group_id, new, member_id=place.member_id, epoch=place.epoch)
        answer, _ = await ask(self._client, self._group_id, request, commit_error, at_most=NAMES_UP_TO)
        code = ErrorCode(commit_error(answer))
        if code in LATE:
            return
        if code:
            raise RequestError(code, f"group {self._group_id}: offsets are not committed: {code.name}")
        self._committed.update(offsets)

    async def _take_over(self) -> None:
        """Starts to read the partitions that the heartbeats have assigned."""
        if self._beating is not None and self._beating.done():
            await self._beating  # raises what has ended it
        while self._changed.is_set():
            self._changed.clear()
            if self._lost:
                self._lost = False
                self._forget(list(self._read_from))
            assigned = self._assigned
            self._forget([place for place, was in self._read_from.items() if assigned.get(place, was) != was])
            if not self.positions.keys() <= assigned.keys():
                with suppress(RequestError):  # who is late has read in vain
                    await self.commit()
            self._forget([place for place in self.positions if place not in assigned])
            begin = await self._begin(sorted(assigned.keys() - self.positions.keys()))
            if not self._changed.is_set():  # else it is not to have these any more, or not all of them
                self.positions |= begin
                self._read_from |= {place: assigned[place] for place in begin}
                self._said.set()

    async def _begin(self, places: list[Partition]) -> dict[Partition, int]:
        """Where to begin: at the group's committed offsets, or as `start` says."""
        if not places:
            return {}
        held = await committed(self._client, self._group_id)
        fresh = [place for place in places if place not in held]
        begin = await self._client.offsets(fresh, self._start) if fresh else {}
        return {place: held[place].offset if place in held else begin[place].offset for place in places}

    def _forget(self, places: list[Partition]) -> None:
        for place in places:
            for each in (self.positions, self._committed, self._read_from):
                each.pop(place, None)

    # Heartbeats

    async def _beat(self) -> None:
        """Sends heartbeats until it is cancelled, or until the coordinator refuses for good."""
        node_id: int | None = None
        while True:
            answer = None
            with suppress(UnreachableError):
                if node_id is None:
                    node_id = await coordinator(self._client, self._group_id)
                answer = await self._say(node_id)
            if not await self._heard(answer):
                node_id = None
                await asyncio.sleep(CLIENT_RETRY_BACKOFF_MS / 1000)

    async def _say(self, node_id: int) -> Any:
        """Sends the next request and returns the answer."""
        await self._look()
        owned = {} if self._lost else dict(self._read_from)
        if isinstance(self.membership, ClassicMembership):
            owned |= self._assigned  # it may be taking these over
        request = self.membership.request(owned)
        if not isinstance(request, JoinGroupRequest | SyncGroupRequest):
            return await self._client.send(request, node_id=node_id, timeout_ms=HEARTBEAT_TIMEOUT_MS)
        timeout_ms = REBALANCE_TIMEOUT_MS + JOIN_GRACE_MS
        try:
            return await self._client.send(request, node_id=node_id, timeout_ms=timeout_ms)
        except asyncio.CancelledError:
            (await self._client.connection(node_id)).close()  # until all have joined it has no answer to anything else
            raise

    async def _look(self) -> None:
        """The leader of a classic group finds out how many partitions there are."""
        place, now_s = self.membership, asyncio.get_running_loop().time()
        if isinstance(place, ClassicMembership) and place.wanted and (place.is_to_share or now_s > self._look_at_s):
            found = await self._client.refresh(place.wanted)
            self._look_at_s = now_s + METADATA_MAX_AGE_S
            counts = {topic.name: len(topic.partitions) for topic in found.topics if topic.name and topic.partitions}
            place.share(counts)

    async def _heard(self, answer: Any) -> bool:
        """Acts on an answer, and waits until the next request is due; returns whether a coordinator has answered.

        Raises RequestError when it refuses for good.
        """
        match self.membership.heard(answer):
            case Heard.UNSERVED:
                return False
            case Heard.LOST:
                self._assigned, self._lost = {}, True
                self._changed.set()
            case Heard.JOINED:
                pass
            case Heard.REJOINS:
                self._assigned = {}
                self._said.clear()
                self._changed.set()
                await self._wait(self.membership.interval_ms if self.positions else CLIENT_RETRY_BACKOFF_MS)
            case Heard.REFUSED:
                self._refused(answer)
            case heard:
                if heard is Heard.GIVEN or len(self._assigned) < len(self.membership.target):
                    await self._resolve()
                    self._said.clear()
                    self._changed.set()
                await self._wait(self.membership.interval_ms)
        return True

    def _refused(self, answer: Any) -> None:
        """Changes to the other protocol, if that is allowed. Raises RequestError."""
        code, message = ErrorCode(answer.error_code), None
        if self._protocol is None and self.membership.epoch == JOIN and code in NO_CONSUMER_GROUP:
            self.membership = self._place_in(CLASSIC)
            return
        if isinstance(answer, ConsumerGroupHeartbeatResponse):
            message = answer.error_message
        elif code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
            message = f"its members are no consumers, or share the partitions by none of {', '.join(ASSIGNORS)}"
        raise RequestError(code, f"group {self._group_id}: {message or code.name}")

    async def _resolve(self) -> None:
        """Names the topics of the assignment. One that was made again has a new id; one that is not known yet is asked
        for again after the next heartbeat."""
        self._assigned = self.membership.assigned(self._ids)
        if len(self._assigned) < len(self.membership.target):
            with suppress(RequestError, UnreachableError):
                await self._client.refresh(self._topics)
                self._ids = {name: (await self._client.topic(name)).topic_id for name in self._topics}
            self._assigned = self.membership.assigned(self._ids)

    async def _wait(self, interval_ms: int) -> None:
        """Waits until the next heartbeat is due."""
        with suppress(TimeoutError):  # sooner, when there is something to say: that the assignment is taken over
            async with asyncio.timeout(interval_ms / 1000):  # wait_for of 3.11 may swallow the end
                await self._said.wait()
            self._said.clear()
