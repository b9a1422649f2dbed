"""Thousands of group members in one process, each on a connection of its own, which only keep their groups alive.

They do on the wire what a client does: join, sync, heartbeat; nobody consumes. Heartbeats are spread evenly over their
interval; those who have joined send theirs while the others join, which takes longer than a session on a bad day. An
answer that differs from the member's last good one is decoded: an error ends the run, a new epoch or interval is taken
over, a rebalance (which a swarm should not see once it has settled) is an error, too.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from abc import ABC, abstractmethod
from functools import partial
from typing import Any
from uuid import UUID

from wire import Wire, answer_of, check, frame_of

from penstock.errors import ErrorCode
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

CLASSIC_INTERVAL_S = 3.0
JOINING_GROUPS = 250
"""Groups that join at a time."""
LEAVING_MEMBERS = 500
"""Members that leave at a time."""
LEAVING_EPOCH = -1
GOLDEN = 0.618034
"""Multiples of it, modulo one, are spread evenly however many there are."""
NOT_YET = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
SUBSCRIPTION = b"\0\1\0\0\0\1\0\3one\xff\xff\xff\xff\0\0\0\0"
"""A consumer's subscription, version 1, to the topic `one`."""


class SwarmMember:
    """One member: its connection and its next heartbeat."""

    __slots__ = ("answer", "frame", "group_id", "interval_s", "member_id", "wire")

    def __init__(self, wire: Wire, group_id: str) -> None:
        self.wire = wire
        self.group_id = group_id
        self.member_id = ""
        self.frame = self.answer = b""
        self.interval_s = CLASSIC_INTERVAL_S


class Swarm(ABC):
    """Groups with as many members each as there are connections for. `label` tells swarms of one kind apart."""

    def __init__(self, topic: str, groups: int, wires: list[Wire], *, label: str = "") -> None:
        self.topic = topic
        self.beats = 0
        size = len(wires) // groups
        self.groups = [
            [
                SwarmMember(wire, f"{type(self).__name__}-{label}{number}")
                for wire in wires[number * size : (number + 1) * size]
            ]
            for number in range(groups)
        ]
        self._error: BaseException | None = None
        self._due: list[tuple[float, int]] = []
        self._members = [member for group in self.groups for member in group]

    @abstractmethod
    async def join_group(self, group: list[SwarmMember]) -> None:
        """All members of a group join it."""

    @abstractmethod
    def changed(self, member: SwarmMember, answer: bytes) -> None:
        """A heartbeat was answered with something new."""

    @abstractmethod
    async def leave(self, member: SwarmMember) -> None:
        """A member leaves its group."""

    async def leave_all(self) -> None:
        """All members leave, some at a time. Who only went away would be missed after a session, in the next round."""
        for first in range(0, len(self._members), LEAVING_MEMBERS):
            await asyncio.gather(*map(self.leave, self._members[first : first + LEAVING_MEMBERS]))

    async def join(self) -> None:
        """All members of all groups join."""
        joined = asyncio.create_task(self._join())
        while not joined.done():
            await self.beat(0.05)
        await joined

    async def _join(self) -> None:
        for first in range(0, len(self.groups), JOINING_GROUPS):
            groups = self.groups[first : first + JOINING_GROUPS]
            await asyncio.gather(*map(self.join_group, groups))
            now, size = time.perf_counter(), len(groups[0])
            for number in range(first * size, (first + len(groups)) * size):
                member = self._members[number]
                heapq.heappush(self._due, (now + member.interval_s * (number * GOLDEN % 1), number))

    async def beat(self, seconds: float) -> None:
        """Every member that has joined sends its heartbeats, for so long."""
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            if self._error is not None:
                raise self._error
            while self._due and self._due[0][0] <= now:
                _, number = heapq.heappop(self._due)
                member = self._members[number]
                member.wire.exchange(member.frame).add_done_callback(partial(self._answered, number))
            await asyncio.sleep(0.005)

    def _answered(self, number: int, done: asyncio.Future[bytes]) -> None:
        member = self._members[number]
        self.beats += 1
        try:
            answer = done.result()
            if answer != member.answer:
                self.changed(member, answer)
                member.answer = answer
        except Exception as error:
            self._error = self._error or RuntimeError(f"a heartbeat of {member.group_id}: {error}")
            return
        heapq.heappush(self._due, (time.perf_counter() + member.interval_s, number))


class ClassicSwarm(Swarm):
    """JoinGroup, SyncGroup, Heartbeat."""

    async def join_group(self, group: list[SwarmMember]) -> None:
        protocols = [JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)]

        async def join(member: SwarmMember) -> tuple[SwarmMember, Any]:
            request = JoinGroupRequest(
                group_id=member.group_id,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                protocol_type="consumer",
                protocols=protocols,
            )
            while True:
                answer = await member.wire.ask(ApiKey.JOIN_GROUP, request)
                code = check(answer.error_code, ErrorCode.MEMBER_ID_REQUIRED, *NOT_YET)
                if not code:
                    return member, answer
                if code is ErrorCode.MEMBER_ID_REQUIRED:
                    request.member_id = answer.member_id
                else:
                    await asyncio.sleep(0.1)

        joined = await asyncio.gather(*map(join, group))
        if len({answer.generation_id for _, answer in joined}) > 1:
            raise RuntimeError("the members of a group have come to different generations")

        async def sync(member: SwarmMember, answer: Any) -> None:
            request = SyncGroupRequest(
                group_id=member.group_id,
                generation_id=answer.generation_id,
                member_id=answer.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[
                    SyncGroupRequestAssignment(member_id=each.member_id, assignment=b"\0\1" + bytes(8))
                    for each in answer.members
                ],
            )
            synced = await member.wire.ask(ApiKey.SYNC_GROUP, request)
            check(synced.error_code)
            heartbeat = HeartbeatRequest(
                group_id=member.group_id, generation_id=answer.generation_id, member_id=answer.member_id
            )
            member.frame = frame_of(ApiKey.HEARTBEAT, heartbeat)
            member.member_id = answer.member_id

        await asyncio.gather(*(sync(member, answer) for member, answer in joined))

    def changed(self, member: SwarmMember, answer: bytes) -> None:
        check(answer_of(ApiKey.HEARTBEAT, answer).error_code)

    async def leave(self, member: SwarmMember) -> None:
        leaves = [MemberIdentity(member_id=member.member_id)]
        answer = await member.wire.ask(ApiKey.LEAVE_GROUP, LeaveGroupRequest(group_id=member.group_id, members=leaves))
        check(answer.error_code)


class ConsumerSwarm(Swarm):
    """ConsumerGroupHeartbeat."""

    async def join_group(self, group: list[SwarmMember]) -> None:
        async def join(number: int, member: SwarmMember) -> None:
            request = ConsumerGroupHeartbeatRequest(
                group_id=member.group_id,
                member_id=str(UUID(int=number + 1)),
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=[self.topic],
                topic_partitions=[],
            )
            while True:
                answer = await member.wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
                if not check(answer.error_code, *NOT_YET):
                    break
                await asyncio.sleep(0.1)
            self._take_over(member, answer)

        await asyncio.gather(*(join(*each) for each in enumerate(group)))

    async def leave(self, member: SwarmMember) -> None:
        leaves = ConsumerGroupHeartbeatRequest(
            group_id=member.group_id, member_id=member.member_id, member_epoch=LEAVING_EPOCH
        )
        answer = await member.wire.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, leaves)
        check(answer.error_code)

    def changed(self, member: SwarmMember, answer: bytes) -> None:
        self._take_over(member, answer_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, answer))

    def _take_over(self, member: SwarmMember, answer: ConsumerGroupHeartbeatResponse) -> None:
        check(answer.error_code)
        owned = None
        if answer.assignment is not None:
            owned = [
                TopicPartitions(topic_id=each.topic_id, partitions=each.partitions)
                for each in answer.assignment.topic_partitions
            ]
        assert answer.member_id is not None
        member.member_id = answer.member_id
        request = ConsumerGroupHeartbeatRequest(
            group_id=member.group_id,
            member_id=answer.member_id,
            member_epoch=answer.member_epoch,
            topic_partitions=owned,
        )
        member.frame = frame_of(ApiKey.CONSUMER_GROUP_HEARTBEAT, request)
        member.interval_s = answer.heartbeat_interval_ms / 1e3
