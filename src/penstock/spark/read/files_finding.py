"""Which partitions of a task lie in a directory that this host can read, and what their leaders say of them first.

Only the leader's own directory counts: a follower's may end in records that were never committed. It is told by the
leader (DescribeLogDirs) or given as a path, and it counts when its `meta.properties` name the cluster and the leader.

Files know no ACLs. So the brokers are asked first whether this user may READ the topic (the authorized operations of
Metadata); a topic that it may not read is not read from files either.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.client.client import CONSUMER, EARLIEST, LATEST, READ_UNCOMMITTED, Client, Partition
from penstock.client.connection import BrokerConnection
from penstock.errors import ConfigError, ErrorCode, PenstockError
from penstock.log.meta_properties import FILE, MetaProperties, parse_meta_properties
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from penstock.spark.read.plan import OffsetRange

MAY_READ = 1 << 3
"""The bit of READ among the operations that a broker allows on a topic (AclOperation 3). It is not set when the broker
tells none: then files are left alone."""
FENCED_FROM_VERSION = 4
"""ListOffsets carries the leader epoch from this version on."""


@dataclass(frozen=True, slots=True)
class Lead:
    """The leader's answers about a partition before any of its files was opened.

    `connection` is the one it said it on: a broker that was restarted does not answer on it. Offsets from `start` to
    before `end` were readable then, and nothing but compaction and deletion changes them while `leader_epoch` lasts.
    """

    topic: str
    partition: int
    leader_epoch: int
    connection: BrokerConnection
    directory: Path
    start: int
    end: int

    async def lasts(self) -> bool:
        """Whether the broker leads the partition still, in the same epoch and without a restart since."""
        request = _list_offsets({(self.topic, self.partition): self.leader_epoch}, EARLIEST, READ_UNCOMMITTED)
        try:
            answer = await self.connection.send(request)
        except PenstockError:
            return False
        return bool(answer.topics[0].partitions[0].error_code == ErrorCode.NONE)


async def find(
    client: Client, ranges: Sequence[OffsetRange], isolation: int, log_dirs: Sequence[str]
) -> dict[Partition, Lead | str]:
    """For every partition of the ranges where its files are, or why they cannot be read.

    Args:
        client: connected to the cluster.
        ranges: what a task is to read.
        isolation: READ_COMMITTED bounds what is readable by the last stable offset.
        log_dirs: paths of log directories; none: those that the brokers tell.
    """
    found: dict[Partition, Lead | str] = {}
    by_leader: dict[int, dict[Partition, int]] = {}
    ids = {(each.topic, each.partition): each.topic_id for each in ranges}
    answer = await client.refresh({topic for topic, _ in ids}, operations=True)
    for topic in answer.topics:
        for each in topic.partitions:
            key = (topic.name or "", each.partition_index)
            if key not in ids:
                continue
            if not topic.topic_authorized_operations & MAY_READ:
                found[key] = "its broker does not allow this user to read it"
            elif topic.topic_id != ids[key]:
                found[key] = "the topic was deleted and created again"
            elif each.leader_id < 0 or each.leader_epoch < 0:
                found[key] = "it has no leader" if each.leader_id < 0 else "its broker tells no leader epochs"
            else:
                by_leader.setdefault(each.leader_id, {})[key] = each.leader_epoch
    for key in ids:
        if key not in found and not any(key in led for led in by_leader.values()):
            found[key] = "the brokers do not know it"
    mounted = _mounted(log_dirs, client.cluster_id or "") if log_dirs else None
    for some in await asyncio.gather(*(_led_by(client, item, isolation, mounted) for item in by_leader.items())):
        found |= some
    return found


async def _led_by(
    client: Client, leader: tuple[int, dict[Partition, int]], isolation: int, mounted: dict[int, list[Path]] | None
) -> dict[Partition, Lead | str]:
    """`find` for the partitions, with their epochs, of one leader."""
    node_id, epochs = leader
    try:
        connection = await client.connection(node_id)
        if mounted is None:
            directories = await _told(connection, epochs, client.cluster_id or "", node_id)
        else:
            directories = {key: _directory_in(mounted.get(node_id, ()), key) for key in epochs}
        reachable = {key: epochs[key] for key, where in directories.items() if isinstance(where, Path)}
        bounds = await _bounds(connection, reachable, isolation) if reachable else {}
    except PenstockError as error:
        return dict.fromkeys(epochs, f"its leader does not answer: {error}")
    found: dict[Partition, Lead | str] = {}
    for key in epochs:
        where = directories.get(key, "its leader does not say where it is")
        if isinstance(where, Path):
            at = bounds.get(key)
            found[key] = Lead(*key, epochs[key], connection, where, *at) if at else "its leader has just changed"
        else:
            found[key] = where
    return found


async def _told(
    connection: BrokerConnection, partitions: dict[Partition, int], cluster_id: str, node_id: int
) -> dict[Partition, Path | str]:
    """Where the leader itself says that the partitions are."""
    topics: dict[str, list[int]] = {}
    for name, index in partitions:
        topics.setdefault(name, []).append(index)
    request = DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic=name, partitions=indexes) for name, indexes in topics.items()]
    )
    answer = await connection.send(request)
    if answer.error_code != ErrorCode.NONE:
        return dict.fromkeys(partitions, f"its leader does not say where it is: {ErrorCode(answer.error_code).name}")
    found: dict[Partition, Path | str] = {}
    for directory in answer.results:
        here: str | None = None
        for topic in directory.topics:
            for each in topic.partitions:
                if each.is_future_key:
                    continue
                here = _not_here(directory.log_dir, cluster_id, node_id) if here is None else here
                path = Path(directory.log_dir, f"{topic.name}-{each.partition_index}")
                found[topic.name, each.partition_index] = here or path
    return found


async def _bounds(
    connection: BrokerConnection, epochs: dict[Partition, int], isolation: int
) -> dict[Partition, tuple[int, int]]:
    """First and end offset of what readers may have; a partition whose leader or epoch is another now has none."""
    if connection.version_for(ApiKey.LIST_OFFSETS) < FENCED_FROM_VERSION:
        return {}
    both = []
    for time in (EARLIEST, LATEST):
        answer = await connection.send(_list_offsets(epochs, time, isolation))
        both.append(
            {
                (topic.name, each.partition_index): each.offset
                for topic in answer.topics
                for each in topic.partitions
                if each.error_code == ErrorCode.NONE
            }
        )
    return {key: (both[0][key], both[1][key]) for key in epochs if key in both[0] and key in both[1]}


def _list_offsets(epochs: dict[Partition, int], time: int, isolation: int) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (name, index), epoch in epochs.items():
        wanted = ListOffsetsPartition(partition_index=index, current_leader_epoch=epoch, timestamp=time)
        topics.setdefault(name, []).append(wanted)
    return ListOffsetsRequest(
        replica_id=CONSUMER,
        isolation_level=isolation,
        topics=[ListOffsetsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )


def _mounted(log_dirs: Sequence[str], cluster_id: str) -> dict[int, list[Path]]:
    """The given directories of this cluster by node id. Raises ConfigError for one that is no log directory."""
    found: dict[int, list[Path]] = {}
    for path in log_dirs:
        properties = _properties(path)
        if isinstance(properties, str):
            raise ConfigError(f"penstock.log.dirs: {properties}")
        if properties.cluster_id == cluster_id:
            found.setdefault(properties.node_id, []).append(Path(path))
    return found


def _directory_in(log_dirs: Sequence[Path], partition: Partition) -> Path | str:
    for path in log_dirs:
        directory = path / f"{partition[0]}-{partition[1]}"
        if directory.is_dir():
            return directory
    return "no directory in penstock.log.dirs has it as its leader's"


def _not_here(log_dir: str, cluster_id: str, node_id: int) -> str:
    """Why a path that a broker tells is not that directory on this host; "" if it is."""
    if not os.path.isabs(log_dir):
        return f"its broker tells {log_dir!r}, which is relative"
    properties = _properties(log_dir)
    if isinstance(properties, str):
        return properties
    if (properties.cluster_id, properties.node_id) != (cluster_id, node_id):
        return f"{log_dir} on this host belongs to another broker"
    return ""


def _properties(log_dir: str) -> MetaProperties | str:
    """The meta.properties of a log directory, or the reason why they cannot be read."""
    path = Path(log_dir, FILE)
    try:
        return parse_meta_properties(path.read_bytes(), str(path))
    except OSError as error:
        return f"{path} cannot be read on this host: {os.strerror(error.errno or 0).lower()}"
    except ConfigError as error:
        return str(error)
