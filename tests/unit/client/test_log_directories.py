"""Log directories as the client asks brokers for them, and moves between them, with answers made up here."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.cli.cluster.directory_moves import DirectoryMove, begin_directory_moves, find_directory_moves
from penstock.client.client import Client
from penstock.client.log_directories import alter_replica_directories, describe_log_directories
from penstock.errors import ErrorCode, RequestError, UnreachableError, UsageError
from penstock.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from penstock.protocol.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from penstock.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

NOT_AVAILABLE = ErrorCode.REPLICA_NOT_AVAILABLE


class Brokers(Client):
    """Brokers with answers by their ids; requests are kept."""

    def __init__(self, **answers: Any) -> None:
        super().__init__("127.0.0.1:9092")
        self.answers = answers
        self.asked: list[tuple[int | None, Any]] = []

    async def send(self, message: Any, *, node_id: int | None = None, **_: Any) -> Any:
        self.asked.append((node_id, message))
        answer = self.answers[f"b{node_id}"]
        if isinstance(answer, Exception):
            raise answer
        return answer


def described(*partitions: DescribeLogDirsPartition, path: str = "/a", **fields: int) -> DescribeLogDirsResult:
    return DescribeLogDirsResult(
        log_dir=path, topics=[DescribeLogDirsTopic(name="t", partitions=list(partitions))], **fields
    )


def directories(*results: DescribeLogDirsResult) -> DescribeLogDirsResponse:
    return DescribeLogDirsResponse(results=list(results))


def altered(*codes: ErrorCode) -> AlterReplicaLogDirsResponse:
    results = [AlterReplicaLogDirPartitionResult(partition_index=i, error_code=code) for i, code in enumerate(codes)]
    return AlterReplicaLogDirsResponse(results=[AlterReplicaLogDirTopicResult(topic_name="t", partitions=results)])


BOTH = directories(
    described(DescribeLogDirsPartition(partition_index=0, partition_size=7), total_bytes=10, usable_bytes=3),
    described(DescribeLogDirsPartition(partition_index=0, partition_size=2, is_future_key=True), path="/b"),
    DescribeLogDirsResult(log_dir="/off", error_code=ErrorCode.KAFKA_STORAGE_ERROR),
)


def test_every_broker_is_asked_and_one_that_is_away_does_not_hide_the_others() -> None:
    client = Brokers(b1=BOTH, b2=UnreachableError("gone"))
    found = asyncio.run(describe_log_directories(client, [1, 2, 1]))
    assert len(client.asked) == 2
    assert isinstance(found[2], UnreachableError)
    assert isinstance(found[1], tuple)
    a, b, off = found[1]
    assert (a.total_bytes, a.usable_bytes, a.replicas[0].size_bytes, a.replicas[0].is_future) == (10, 3, 7, False)
    assert (b.total_bytes, b.usable_bytes, b.replicas[0].is_future) == (-1, -1, True)
    assert (off.error, off.replicas) == (ErrorCode.KAFKA_STORAGE_ERROR, ())


@pytest.mark.parametrize(
    "answer", [directories(), DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, results=[])]
)
def test_who_may_not_know_is_told_so(answer: DescribeLogDirsResponse) -> None:
    with pytest.raises(RequestError, match="log directories of broker 1: not allowed"):
        asyncio.run(describe_log_directories(Brokers(b1=answer), [1]))


def test_moves_are_asked_for_by_directory_and_refusals_come_back() -> None:
    client = Brokers(b1=altered(ErrorCode.NONE, ErrorCode.LOG_DIR_NOT_FOUND))
    outcome = asyncio.run(alter_replica_directories(client, 1, {("t", 0): "/a", ("t", 1): "/b"}))
    [(_, request)] = client.asked
    assert isinstance(request, AlterReplicaLogDirsRequest)
    assert [(each.path, each.topics[0].partitions) for each in request.dirs] == [("/a", [0]), ("/b", [1])]
    assert outcome["t", 0] is None
    refusal = outcome["t", 1]
    assert refusal is not None
    assert refusal.code is ErrorCode.LOG_DIR_NOT_FOUND


def test_a_plan_moves_what_does_not_lie_there_already() -> None:
    client = Brokers(b1=BOTH)
    wanted = {("t", 0, 1): "/b", ("t", 1, 1): "/a"}
    there, coming = asyncio.run(find_directory_moves(client, wanted))
    assert there == DirectoryMove("t", 0, 1, "/a", "/b", 7), "a future replica is not there yet"
    assert coming == DirectoryMove("t", 1, 1, None, "/a")
    assert asyncio.run(find_directory_moves(client, {("t", 0, 1): "/a"})) == []
    [swapped] = asyncio.run(find_directory_moves(Brokers(b1=directories(*BOTH.results[::-1])), {("t", 0, 1): "/b"}))
    assert swapped == there


def test_a_directory_that_cannot_take_replicas_is_refused_before_anything_moves() -> None:
    client = Brokers(b1=BOTH, b2=UnreachableError("broker 2 is gone"))
    with pytest.raises(UsageError, match="broker 1 has no log directory /c: it has /a, /b, /off"):
        asyncio.run(find_directory_moves(client, {("t", 0, 1): "/c"}))
    with pytest.raises(UsageError, match="log directory /off of broker 1 is offline"):
        asyncio.run(find_directory_moves(client, {("t", 0, 1): "/off"}))
    with pytest.raises(UnreachableError, match="broker 2 is gone"):
        asyncio.run(find_directory_moves(client, {("t", 0, 2): "/a"}))


def test_a_replica_that_is_still_to_come_may_be_missing_until_it_has_arrived() -> None:
    client = Brokers(b1=altered(NOT_AVAILABLE, NOT_AVAILABLE))
    moves = [DirectoryMove("t", 0, 1, None, "/a"), DirectoryMove("t", 1, 1, "/a", "/b")]
    assert [key for key, _ in asyncio.run(begin_directory_moves(client, moves))] == [("t", 1)]
    refused = asyncio.run(begin_directory_moves(client, moves, arrived=True))
    assert [(key, error.code) for key, error in refused] == [(("t", 0), NOT_AVAILABLE), (("t", 1), NOT_AVAILABLE)]
