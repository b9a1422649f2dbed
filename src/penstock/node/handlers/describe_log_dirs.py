"""DescribeLogDirs (key 35): the log directories, whether they work, and the size and lag of the replicas in them.

Versions 1-5, flexible from 2. A null list of topics means all. Total and usable bytes from v4, cordoned directories
from v5. A replica on its way here from another directory is a future one; its lag is how far it is behind the replica
in use (-1 while that is not known). The lag of others is 0, as their high watermark is never ahead of them. An offline
directory answers KAFKA_STORAGE_ERROR. A requester who may not describe the cluster gets CLUSTER_AUTHORIZATION_FAILED,
from v3; before, no directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode, StorageError
from penstock.node.limits import DIRECTORY_ASSIGNMENTS_PER_STEP
from penstock.node.request import Handler, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.log.directory import LogDirectory
    from penstock.node.broker import Broker


Replica = tuple[str, int]
UNKNOWN_LAG = -1


def handle(node: Broker, request: Request[DescribeLogDirsRequest], now_ms: int) -> Stepped[Message]:
    wanted: set[Replica] | None = None
    if request.body.topics is not None:
        wanted, pace = set(), Pace(DIRECTORY_ASSIGNMENTS_PER_STEP)
        for topic in request.body.topics:
            for index in topic.partitions:
                if pace.is_over():
                    yield None
                wanted.add((topic.topic, index))
    replicas = node.logs.describe()
    results = yield from in_steps(
        lambda directory: describe_or_fail(node, directory, replicas[directory.index], wanted, now_ms),
        node.logs.table.directories,
    )
    return DescribeLogDirsResponse(results=results)


def describe_or_fail(
    node: Broker, directory: LogDirectory, replicas: Sequence[Replica], wanted: set[Replica] | None, now_ms: int
) -> DescribeLogDirsResult:
    """One directory; if this is the first to find that its disk is gone, it goes offline."""
    try:
        return describe(node, directory, replicas, wanted)
    except OSError as error:
        node.logs.fail_directory(directory.index, error, now_ms)
        return DescribeLogDirsResult(log_dir=directory.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)


def describe(
    node: Broker, directory: LogDirectory, replicas: Sequence[Replica], wanted: set[Replica] | None
) -> DescribeLogDirsResult:
    """One directory. Unknown sizes raise NotOpen: the lane adds them up, and the request runs again."""
    if directory.error is not None:
        return DescribeLogDirsResult(log_dir=directory.path, error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for topic, index in sorted(replicas):
        if wanted is not None and (topic, index) not in wanted:
            continue
        try:
            size_bytes = node.logs.size_of(topic, index)
        except StorageError:
            continue
        found = DescribeLogDirsPartition(partition_index=index, partition_size=size_bytes)
        topics.setdefault(topic, []).append(found)
    for (topic, index), future in sorted(node.logs.table.futures.items()):
        if future.directory is directory and (wanted is None or (topic, index) in wanted):
            topics.setdefault(topic, []).append(
                DescribeLogDirsPartition(
                    partition_index=index,
                    partition_size=node.logs.sizes.of(future),
                    offset_lag=future_lag(node, topic, index),
                    is_future_key=True,
                )
            )
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=directory.disk.total_bytes(),
        usable_bytes=directory.disk.free_bytes(),
        is_cordoned=node.logs.is_cordoned(directory),
    )


def future_lag(node: Broker, topic: str, index: int) -> int:
    """How many offsets a future replica is behind the one in use; -1 while one of their logs is being opened."""
    future = node.logs.table.futures[topic, index].log
    log = node.logs.open_log(topic, index)
    end_offset = future.log_end_offset if future is not None else node.replication.moves.copied_offset(topic, index)
    return UNKNOWN_LAG if end_offset is None or log is None else max(0, log.log_end_offset - end_offset)


HANDLERS = (Handler(ApiKey.DESCRIBE_LOG_DIRS, handle),)
