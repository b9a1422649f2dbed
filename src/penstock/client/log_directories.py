"""The log directories of brokers: what is in them (DescribeLogDirs), and replicas moved between them
(AlterReplicaLogDirs, KIP-113)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.client.admin import refused
from penstock.client.client import Partition
from penstock.client.cluster import Outcome, refusal
from penstock.client.limits import CLIENT_LOG_DIRECTORIES_MS
from penstock.errors import ErrorCode, UnreachableError

if TYPE_CHECKING:
    from penstock.client.client import Client

UNKNOWN_BYTES = -1
"""Total and usable bytes from a broker that does not tell them: before DescribeLogDirs 4, Kafka 3.3."""


@dataclass(frozen=True, slots=True)
class ReplicaInDirectory:
    """A replica in a directory. `is_future`: it is on its way here from another directory of the broker."""

    topic: str
    index: int
    size_bytes: int
    is_future: bool

    @property
    def key(self) -> Partition:
        """Topic and index."""
        return self.topic, self.index


@dataclass(frozen=True, slots=True)
class LogDirectoryState:
    """One log directory, as its broker describes it. `error` is KAFKA_STORAGE_ERROR when it is offline."""

    broker: int
    path: str
    error: ErrorCode = ErrorCode.NONE
    total_bytes: int = UNKNOWN_BYTES
    usable_bytes: int = UNKNOWN_BYTES
    is_cordoned: bool = False
    replicas: tuple[ReplicaInDirectory, ...] = ()


Described = dict[int, tuple[LogDirectoryState, ...] | UnreachableError]


async def describe_log_directories(client: Client, node_ids: Iterable[int]) -> Described:
    """The log directories of each broker, or why it cannot be reached. Raises RequestError if one refuses."""
    from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

    found: Described = {}

    async def ask(node_id: int) -> None:
        try:
            async with asyncio.timeout(CLIENT_LOG_DIRECTORIES_MS / 1000):
                answer = await client.send(DescribeLogDirsRequest(topics=None), node_id=node_id)
        except UnreachableError as error:
            found[node_id] = error
            return
        except TimeoutError:
            found[node_id] = UnreachableError(f"broker {node_id} has not answered in {CLIENT_LOG_DIRECTORIES_MS} ms")
            return
        subject = f"log directories of broker {node_id}"
        refused(answer.error_code, None, subject)
        if not answer.results:  # what a broker before version 3 answers to who may not know
            refused(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None, subject)
        found[node_id] = tuple(
            LogDirectoryState(
                node_id,
                each.log_dir,
                ErrorCode(each.error_code),
                each.total_bytes,
                each.usable_bytes,
                each.is_cordoned,
                tuple(
                    ReplicaInDirectory(topic.name, got.partition_index, got.partition_size, got.is_future_key)
                    for topic in each.topics
                    for got in topic.partitions
                ),
            )
            for each in answer.results
        )

    await asyncio.gather(*map(ask, sorted(set(node_ids))))
    return found


async def alter_replica_directories(client: Client, node_id: int, targets: Mapping[Partition, str]) -> Outcome:
    """Begins to move replicas of one broker to its directories with these paths; `Outcome` as in `client.cluster`.

    REPLICA_NOT_AVAILABLE: the broker has no such replica yet, and will make it in that directory.
    """
    from penstock.protocol.messages.alter_replica_log_dirs_request import (
        AlterReplicaLogDir,
        AlterReplicaLogDirsRequest,
        AlterReplicaLogDirTopic,
    )

    by_path: dict[str, dict[str, list[int]]] = {}
    for (topic, index), path in targets.items():
        by_path.setdefault(path, {}).setdefault(topic, []).append(index)
    dirs = [
        AlterReplicaLogDir(
            path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=some) for name, some in topics.items()]
        )
        for path, topics in by_path.items()
    ]
    answer = await client.send(AlterReplicaLogDirsRequest(dirs=dirs), node_id=node_id)
    return {
        (topic.topic_name, got.partition_index): refusal(got.error_code, None, (topic.topic_name, got.partition_index))
        for topic in answer.results
        for got in topic.partitions
    }
