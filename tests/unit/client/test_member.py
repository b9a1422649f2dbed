"""A member of a consumer group: what it says after an answer was lost, when it is fenced, and what it commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

import pytest

from penstock.client import coordinators, member
from penstock.client.client import Fetched, OffsetAt, TopicState
from penstock.client.member import Member
from penstock.errors import CorruptRecordError, ErrorCode, UnreachableError
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.messages.consumer_group_heartbeat_request import TopicPartitions as Owned
from penstock.protocol.messages.consumer_group_heartbeat_response import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from penstock.protocol.messages.offset_commit_request import OffsetCommitRequest
from penstock.protocol.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from penstock.protocol.messages.offset_fetch_response import OffsetFetchResponse, OffsetFetchResponseGroup
from penstock.records.builder import BatchBuilder

TOPIC_ID = UUID(int=7)
RECORDS = 3

Step = ConsumerGroupHeartbeatResponse | UnreachableError


def told(epoch: int, *partitions: int, topic_id: UUID = TOPIC_ID) -> ConsumerGroupHeartbeatResponse:
    """The answer to a heartbeat: the member has these partitions now."""
    assignment = Assignment(topic_partitions=[TopicPartitions(topic_id=topic_id, partitions=list(partitions))])
    return ConsumerGroupHeartbeatResponse(member_epoch=epoch, heartbeat_interval_ms=60_000, assignment=assignment)


def failed(code: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=code, heartbeat_interval_ms=60_000)


class Cluster:
    """Stands for a connected client: heartbeats are answered as the test says; each partition has records.

    Attributes:
        heartbeats: those that came. idle: one waits for its answer.
        commits: offsets by partition, one an OffsetCommit. unreachable: commits to lose.
        topic_id: of the topic in the brokers' metadata. known_id: as the client has it since its last refresh.
        damaged: partitions whose second batch has a wrong checksum.
    """

    brokers: Mapping[int, Any] = {1: None}

    def __init__(self, *steps: Step) -> None:
        self.steps = list(steps)
        self.heartbeats: list[ConsumerGroupHeartbeatRequest] = []
        self.commits: list[dict[int, int]] = []
        self.commit_code = ErrorCode.NONE
        self.unreachable = 0
        self.topic_id = self.known_id = TOPIC_ID
        self.damaged: set[int] = set()
        self.idle = asyncio.Event()
        self._more = asyncio.Event()

    def go_on(self, *steps: Step) -> None:
        """Answers to heartbeats that come now."""
        self.steps += steps
        self.idle.clear()
        self._more.set()

    async def topic(self, name: str) -> TopicState:
        return TopicState(self.known_id, (1, 1))

    async def refresh(self, topics: list[str]) -> None:
        self.known_id = self.topic_id

    async def connection(self, node_id: int | None) -> Cluster:
        return self

    def version_for(self, api: object) -> int:
        return 9

    async def offsets(self, places: list[tuple[str, int]], at: int) -> dict[tuple[str, int], OffsetAt]:
        return dict.fromkeys(places, OffsetAt(0, -1, -1))

    async def fetch(self, positions: Mapping[tuple[str, int], int], **_: Any) -> dict[tuple[str, int], Fetched]:
        builder = BatchBuilder(base_offset=0, leader_epoch=0)
        for number in range(RECORDS):
            builder.append(1, None, b"%d" % number)
        batch = bytes(builder.build())
        torn = batch[:-1] + b"\xff"
        found = {}
        for place, at in positions.items():
            data = batch if at < RECORDS else b""
            if place[1] in self.damaged:
                data += torn[:7] + bytes([RECORDS]) + torn[8:]
            found[place] = Fetched(memoryview(data), RECORDS, RECORDS, 0, ())
        return found

    async def ask_any(self, request: Any) -> Any:
        return await self.send(request)

    async def send(
        self, request: Any, *, node_id: int | None = None, at_most: int | None = None, timeout_ms: int | None = None
    ) -> Any:
        if isinstance(request, FindCoordinatorRequest):
            return FindCoordinatorResponse(coordinators=[Coordinator(node_id=1)])
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            return await self._heartbeat(request)
        if isinstance(request, OffsetCommitRequest):
            return self._commit(request)
        return OffsetFetchResponse(groups=[OffsetFetchResponseGroup()])

    async def _heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        self.heartbeats.append(request)
        if request.member_epoch == -1:
            return ConsumerGroupHeartbeatResponse(member_epoch=-1)
        while not self.steps:
            self.idle.set()
            self._more.clear()
            await self._more.wait()
        step = self.steps.pop(0)
        if isinstance(step, UnreachableError):
            raise step
        return step

    def _commit(self, request: OffsetCommitRequest) -> OffsetCommitResponse:
        if self.unreachable:
            self.unreachable -= 1
            raise UnreachableError("as the test wants it")
        (topic,) = request.topics
        self.commits.append({each.partition_index: each.committed_offset for each in topic.partitions})
        partitions = [
            OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=self.commit_code)
            for each in topic.partitions
        ]
        return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name="t", partitions=partitions)])


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing waits before it is tried again."""
    for module in (coordinators, member):
        monkeypatch.setattr(module, "CLIENT_RETRY_BACKOFF_MS", 0)


def play(steps: list[Step], job: Callable[[Member, Cluster], Awaitable[None]]) -> Cluster:
    """A member lives through the answers while `job` runs."""

    async def work() -> Cluster:
        cluster = Cluster(*steps)
        async with asyncio.timeout(60), Member(cluster, "g", ["t"]) as each:  # type: ignore[arg-type]
            await job(each, cluster)
        return cluster

    return asyncio.run(work())


async def read(each: Member, cluster: Cluster) -> list[tuple[int, int]]:
    """Polls until there is nothing to read and no heartbeat is answered any more; partition and offset of what came."""
    found: list[tuple[int, int]] = []
    while (more := await each.poll()) or not cluster.idle.is_set():
        found += [(partition, record.offset) for _, partition, record in more]
        await asyncio.sleep(0)
    return found


@pytest.mark.parametrize("lost", [UnreachableError("lost"), failed(ErrorCode.NOT_COORDINATOR)])
def test_after_a_lost_answer_the_next_heartbeat_says_everything(lost: Step) -> None:
    cluster = play([told(1, 0), lost, told(2, 0, 1)], read)
    first, second, third, fourth, *_ = cluster.heartbeats
    assert (first.member_epoch, first.subscribed_topic_names) == (0, ["t"])
    assert (second.subscribed_topic_names, second.rebalance_timeout_ms) == (None, -1)
    assert (third.member_epoch, third.subscribed_topic_names) == (1, ["t"]), "else it is not told its assignment again"
    assert third.rebalance_timeout_ms > 0
    assert third.topic_partitions == [Owned(topic_id=TOPIC_ID, partitions=[0])]
    assert fourth.subscribed_topic_names is None


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.GROUP_ID_NOT_FOUND])
def test_a_member_that_is_none_commits_nothing_of_what_it_had_and_says_that_it_has_nothing(code: ErrorCode) -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        await read(each, cluster)
        cluster.go_on(failed(code), told(5, 1))
        while each.membership.epoch != 5:
            await asyncio.sleep(0)
        await each.commit()
        assert not cluster.commits
        assert len(await each.poll()) == RECORDS
        assert each.positions == {("t", 1): RECORDS}
        await each.commit()

    cluster = play([told(1, 0)], job)
    assert cluster.commits == [{1: RECORDS}]
    joined = next(each for each in cluster.heartbeats[1:] if each.member_epoch == 0)
    assert joined.topic_partitions == []


def test_what_was_read_is_committed_at_the_end() -> None:
    assert play([told(1, 0)], read).commits == [{0: RECORDS}]


def test_what_was_read_before_an_error_is_not_taken_for_done() -> None:
    seen: list[Cluster] = []

    async def job(each: Member, cluster: Cluster) -> None:
        seen.append(cluster)
        await read(each, cluster)
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        play([told(1, 0)], job)
    (cluster,) = seen
    assert not cluster.commits
    assert cluster.heartbeats[-1].member_epoch == -1, "it leaves all the same"


def test_a_commit_is_sent_again_when_the_coordinator_does_not_answer() -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        await read(each, cluster)
        cluster.unreachable = 2
        await each.commit()

    assert play([told(1, 0)], job).commits == [{0: RECORDS}]


def test_a_commit_that_comes_too_late_is_no_failure_of_the_member() -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        await read(each, cluster)
        cluster.commit_code = ErrorCode.STALE_MEMBER_EPOCH
        await each.commit()
        cluster.commit_code = ErrorCode.NONE
        await each.commit()

    assert play([told(1, 0)], job).commits == [{0: RECORDS}] * 2


AGAIN = UUID(int=8)


def test_a_topic_that_is_made_again_is_read_from_its_begin_and_inherits_no_offset() -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        assert await read(each, cluster) == [(0, offset) for offset in range(RECORDS)]
        cluster.topic_id = AGAIN
        cluster.go_on(told(2, 0, topic_id=AGAIN))
        assert await read(each, cluster) == [(0, offset) for offset in range(RECORDS)]

    cluster = play([told(1, 0)], job)
    assert cluster.commits == [{0: RECORDS}], "once, at the end, of the new topic"
    assert cluster.heartbeats[-2].topic_partitions == [Owned(topic_id=AGAIN, partitions=[0])]


def test_records_of_a_new_topic_are_not_read_from_offsets_of_the_old_one() -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        await read(each, cluster)
        cluster.known_id = AGAIN  # the client has met the new topic before the coordinator has
        assert await each.poll() == []
        assert not each.positions

    assert not play([told(1, 0)], job).commits


def test_a_topic_whose_id_the_brokers_do_not_know_yet_is_asked_for_again() -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        assert not await read(each, cluster)
        cluster.topic_id = AGAIN
        cluster.go_on(ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=60_000))
        assert len(await read(each, cluster)) == RECORDS

    play([told(1, 0, topic_id=AGAIN)], job)


def test_records_that_were_read_before_damaged_ones_are_given_first() -> None:
    async def job(each: Member, cluster: Cluster) -> None:
        while not each.positions:
            cluster.damaged = {1}
            found = await each.poll()
        assert [(partition, record.offset) for _, partition, record in found] == [
            (partition, offset) for partition in (0, 1) for offset in range(RECORDS)
        ]
        assert each.positions == {("t", 0): RECORDS, ("t", 1): RECORDS}
        with pytest.raises(CorruptRecordError):
            await each.poll()

    play([told(1, 0, 1)], job)
