"""A real member in a classic group, with a fake client: it reads, rebalances, commits and leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest
from unit.client.test_member import RECORDS, Cluster

from penstock.client import coordinators, member
from penstock.client.member import CLASSIC, CONSUMER, Member
from penstock.errors import ErrorCode, RequestError, UnsupportedVersionError
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_group_heartbeat_response import ConsumerGroupHeartbeatResponse
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse, JoinGroupResponseMember
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse
from penstock.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.protocol.messages.offset_commit_request import OffsetCommitRequest
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse


class ClassicCluster(Cluster):
    """A cluster with a classic group: whoever joins leads it, and is alone.

    Attributes:
        asked: the kinds of requests of the group, in order. generation: of the group. heartbeat_code: what heartbeats
            are answered. partitions: of the topic. served: whether the cluster has consumer groups.
        refusal: of a join to a consumer group. hold: joins wait for it. closed: the connection was.
    """

    def __init__(self, refusal: ErrorCode = ErrorCode.GROUP_ID_NOT_FOUND, *, served: bool = True) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.generation = 0
        self.heartbeat_code = ErrorCode.NONE
        self.partitions = 1
        self.served = served
        self.refusal = refusal
        self.hold: asyncio.Event | None = None
        self.closed = False

    def version_for(self, api: object) -> int:
        if api is ApiKey.CONSUMER_GROUP_HEARTBEAT and not self.served:
            raise UnsupportedVersionError("no such API")
        return super().version_for(api)

    def close(self) -> None:
        self.closed = True

    async def refresh(self, topics: list[str]) -> MetadataResponse:  # type: ignore[override]
        await super().refresh(topics)
        partitions = [MetadataResponsePartition(partition_index=index) for index in range(self.partitions)]
        return MetadataResponse(topics=[MetadataResponseTopic(name="t", partitions=partitions)])

    async def send(self, request: Any, **how: Any) -> Any:
        if not isinstance(
            request,
            ConsumerGroupHeartbeatRequest
            | JoinGroupRequest
            | SyncGroupRequest
            | HeartbeatRequest
            | LeaveGroupRequest
            | OffsetCommitRequest,
        ):
            return await super().send(request, **how)
        self.asked.append(request.NAME.removesuffix("Request"))
        match request:
            case ConsumerGroupHeartbeatRequest():
                return ConsumerGroupHeartbeatResponse(error_code=self.refusal)
            case JoinGroupRequest():
                return await self._join(request)
            case SyncGroupRequest():
                return SyncGroupResponse(assignment=request.assignments[0].assignment)
            case HeartbeatRequest():
                await asyncio.sleep(0)
                return HeartbeatResponse(error_code=self.heartbeat_code)
            case LeaveGroupRequest():
                return LeaveGroupResponse()
        return await super().send(request, **how)

    async def _join(self, request: JoinGroupRequest) -> JoinGroupResponse:
        if not request.member_id:
            return JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
        if self.hold is not None:
            await self.hold.wait()
        self.generation += 1
        self.heartbeat_code = ErrorCode.NONE
        offer = request.protocols[0]
        one = JoinGroupResponseMember(member_id="m", metadata=offer.metadata)
        return JoinGroupResponse(
            generation_id=self.generation, protocol_name=offer.name, leader="m", member_id="m", members=[one]
        )


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits before it is tried again, and heartbeats follow each other."""
    for module in (coordinators, member):
        monkeypatch.setattr(module, "CLIENT_RETRY_BACKOFF_MS", 0)
    monkeypatch.setattr(member, "HEARTBEAT_INTERVAL_MS", 1)


Job = Callable[[Member, ClassicCluster], Awaitable[None]]


def play(job: Job, cluster: ClassicCluster | None = None, protocol: str | None = CLASSIC) -> ClassicCluster:
    """A member lives while `job` runs."""
    cluster = cluster or ClassicCluster()

    async def work() -> None:
        async with asyncio.timeout(60), Member(cluster, "g", ["t"], protocol=protocol) as each:  # type: ignore[arg-type]
            await job(each, cluster)

    asyncio.run(work())
    return cluster


async def read(each: Member, cluster: ClassicCluster) -> None:
    """Polls until something has come."""
    while not await each.poll():
        await asyncio.sleep(0)


async def has(each: Member, count: int) -> None:
    """Polls until it has so many partitions."""
    while len(each.positions) != count:
        await each.poll()
        await asyncio.sleep(0)


def without_heartbeats(cluster: ClassicCluster) -> list[str]:
    return [kind for kind in cluster.asked if kind != "Heartbeat"]


def test_a_member_joins_reads_commits_and_leaves() -> None:
    cluster = play(read)
    assert without_heartbeats(cluster) == ["JoinGroup", "JoinGroup", "SyncGroup", "OffsetCommit", "LeaveGroup"]
    assert cluster.commits == [{0: RECORDS}]


def test_told_to_rebalance_it_commits_before_it_joins_again() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        await read(each, cluster)
        cluster.partitions = 2
        cluster.heartbeat_code = ErrorCode.REBALANCE_IN_PROGRESS
        await has(each, 2)

    cluster = play(job)
    assert without_heartbeats(cluster)[3:6] == ["OffsetCommit", "JoinGroup", "SyncGroup"]
    assert cluster.commits[0] == {0: RECORDS}


def test_its_leader_looks_for_new_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(member, "METADATA_MAX_AGE_S", 0)

    async def job(each: Member, cluster: ClassicCluster) -> None:
        await read(each, cluster)
        cluster.partitions = 2
        await has(each, 2)

    assert play(job).generation == 2


def test_who_was_fenced_commits_nothing_of_what_it_had() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        await read(each, cluster)
        cluster.heartbeat_code = ErrorCode.UNKNOWN_MEMBER_ID
        while cluster.generation < 2:
            await asyncio.sleep(0)
        await each.commit()
        assert not cluster.commits
        await read(each, cluster)

    assert play(job).commits == [{0: RECORDS}], "of the second time that it has read"


def test_a_topic_that_is_made_again_is_joined_for_again() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        await read(each, cluster)
        cluster.topic_id = cluster.known_id = UUID(int=8)
        await read(each, cluster)

    cluster = play(job)
    assert cluster.generation == 2
    assert cluster.commits == [{0: RECORDS}], "once, at the end, of the new topic"


@pytest.mark.parametrize(
    "cluster",
    [
        ClassicCluster(ErrorCode.GROUP_ID_NOT_FOUND),
        ClassicCluster(ErrorCode.UNSUPPORTED_VERSION),
        ClassicCluster(served=False),
    ],
    ids=["a classic group", "feature level 0", "an older cluster"],
)
def test_where_there_can_be_no_consumer_group_it_is_a_classic_member(cluster: ClassicCluster) -> None:
    play(read, cluster, protocol=None)
    assert cluster.asked[: cluster.served] == ["ConsumerGroupHeartbeat"] * cluster.served
    assert cluster.commits == [{0: RECORDS}]


def test_who_is_told_to_be_a_consumer_is_no_classic_member() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        with pytest.raises(RequestError, match="GROUP_ID_NOT_FOUND"):
            await read(each, cluster)

    assert play(job, protocol=CONSUMER).generation == 0


def test_an_end_does_not_wait_for_those_who_have_not_joined() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        cluster.hold = asyncio.Event()
        while cluster.asked != ["JoinGroup", "JoinGroup"]:
            await asyncio.sleep(0)

    cluster = play(job)
    assert cluster.closed
    assert cluster.asked[-1] == "LeaveGroup"


def test_what_is_taken_away_while_it_is_taken_over_is_not_read() -> None:
    """Else it would be committed in the next generation, in which it may be another's."""

    async def job(each: Member, cluster: ClassicCluster) -> None:
        offsets = cluster.offsets

        async def slow(places: list[tuple[str, int]], at: int) -> Any:
            cluster.heartbeat_code = ErrorCode.REBALANCE_IN_PROGRESS
            cluster.partitions = 0
            while cluster.generation < 2:
                await asyncio.sleep(0)
            return await offsets(places, at)

        cluster.offsets = slow  # type: ignore[method-assign]
        while cluster.generation < 2:
            assert await each.poll() == []
        assert not each.positions

    assert not play(job).commits


def test_it_gives_up_what_it_was_about_to_take_over_before_it_joins_for_a_new_generation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its leader looks for new partitions by itself, at any time."""
    monkeypatch.setattr(member, "METADATA_MAX_AGE_S", 0)

    async def job(each: Member, cluster: ClassicCluster) -> None:
        offsets = cluster.offsets

        async def slow(places: list[tuple[str, int]], at: int) -> Any:
            cluster.hold, cluster.partitions = asyncio.Event(), 2
            while cluster.asked.count("JoinGroup") < 3:
                await asyncio.sleep(0)
            cluster.offsets = offsets  # type: ignore[method-assign]
            return await offsets(places, at)

        cluster.offsets = slow  # type: ignore[method-assign]
        while cluster.hold is None:
            assert await each.poll() == []
        assert not each.positions
        cluster.hold.set()
        await has(each, 2)

    play(job)


def test_it_leaves_though_its_last_commit_is_refused() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        await read(each, cluster)
        cluster.commit_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    assert play(job).asked[-1] == "LeaveGroup"


def test_whatever_ends_its_heartbeats_is_told_to_who_polls() -> None:
    async def job(each: Member, cluster: ClassicCluster) -> None:
        await read(each, cluster)
        send = cluster.send

        async def broken(request: Any, **how: Any) -> Any:
            if isinstance(request, HeartbeatRequest):
                raise KeyError("a bug")
            return await send(request, **how)

        cluster.send = broken  # type: ignore[method-assign]
        with pytest.raises(KeyError, match="a bug"):
            await has(each, 0)

    play(job)
