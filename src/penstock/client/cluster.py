"""Administration of the cluster itself: its brokers, its quorum, leaders, where replicas lie and move to.

One function for each API, as in `admin`, which has topics and configs. Partitions are named by (topic, index). If a
request has an outcome for each partition, so does the result: None for success, otherwise the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from penstock.client.admin import TIMEOUT_MS, refused
from penstock.client.client import Partition
from penstock.client.connection import NoAnswer
from penstock.client.limits import CLIENT_CONFIG_RESOURCES
from penstock.errors import ErrorCode, RequestError, UnreachableError
from penstock.protocol.api import ApiKey
from penstock.raft.topic import METADATA

if TYPE_CHECKING:
    from penstock.client.client import Client
    from penstock.protocol.messages.describe_quorum_response import ReplicaState

CONTROLLER_TIMEOUT_MS = 5_000
"""How long the active controller may take to tell what it knows; a broker waits much longer for there to be one."""
BROKERS = 1
"""The kind of endpoint that DescribeCluster is asked for."""
FENCED_BROKERS_FROM_VERSION = 2
MIN_INSYNC_REPLICAS = "min.insync.replicas"
TOPIC = 2
"""The resource type of a topic in DescribeConfigs."""

Outcome = dict[Partition, RequestError | None]


NO_CONTROLLER = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER, ErrorCode.BROKER_NOT_AVAILABLE)


class NoControllerError(UnreachableError):
    """A broker finds no active controller."""

    def __init__(self, asked: str) -> None:
        super().__init__(
            f"the cluster has no active controller, as {asked} sees it: more than half of the controllers must be up"
            " and reach each other"
        )


class ElectionType(IntEnum):
    """The kinds of elections, numbered as in ElectLeaders."""

    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class BrokerState:
    """A registered broker."""

    id: int
    host: str
    port: int
    rack: str | None
    fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterState:
    """The cluster's id and its brokers, sorted by id."""

    cluster_id: str
    brokers: tuple[BrokerState, ...]


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """How far one node is in the metadata log. Times are -1 where they are not known."""

    id: int
    log_end_offset: int
    last_fetch_ms: int
    last_caught_up_ms: int


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The quorum of the metadata log."""

    leader_id: int
    epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    endpoints: Mapping[int, str]
    """host:port by voter, of those that have told it."""


@dataclass(frozen=True, slots=True)
class Ongoing:
    """An unfinished reassignment: all present replicas, and which of them are being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return tuple(each for each in self.replicas if each not in self.removing)


async def describe_cluster(client: Client) -> ClusterState:
    """All brokers of the cluster, fenced ones too where the cluster tells of them (DescribeCluster 2)."""
    from penstock.protocol.messages.describe_cluster_request import DescribeClusterRequest

    version = (await client.connection(None)).version_for(ApiKey.DESCRIBE_CLUSTER)
    fenced = version >= FENCED_BROKERS_FROM_VERSION
    answer = await client.send(DescribeClusterRequest(endpoint_type=BROKERS, include_fenced_brokers=fenced))
    refused(answer.error_code, answer.error_message, "cluster")
    brokers = [
        BrokerState(each.broker_id, each.host, each.port, each.rack, each.is_fenced)
        for each in sorted(answer.brokers, key=lambda broker: broker.broker_id)
    ]
    return ClusterState(answer.cluster_id, tuple(brokers))


async def describe_quorum(client: Client) -> QuorumState:
    """Leader, voters and observers of the metadata log, as the leader knows them."""
    from penstock.protocol.messages.describe_quorum_request import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name=METADATA.name, partitions=[PartitionData(partition_index=0)])
    answer = await told_by_controller(client, DescribeQuorumRequest(topics=[topic]), "quorum")
    got = answer.topics[0].partitions[0]
    refused(got.error_code, got.error_message, "quorum")
    endpoints = {
        node.node_id: f"{node.listeners[0].host}:{node.listeners[0].port}" for node in answer.nodes if node.listeners
    }
    voters, observers = replicas(got.current_voters), replicas(got.observers)
    return QuorumState(got.leader_id, got.leader_epoch, got.high_watermark, voters, observers, endpoints)


def replicas(states: Iterable[ReplicaState]) -> tuple[QuorumReplica, ...]:
    """Replicas of the metadata log, sorted by id."""
    found = [
        QuorumReplica(each.replica_id, each.log_end_offset, each.last_fetch_timestamp, each.last_caught_up_timestamp)
        for each in states
    ]
    return tuple(sorted(found, key=lambda replica: replica.id))


async def min_insync_replicas(client: Client, topics: Sequence[str], denied: set[str] | None = None) -> dict[str, int]:
    """`min.insync.replicas` by topic. Topics that are gone meanwhile are left out; so are those whose configs this user
    may not see, if there is `denied` for their names.
    """
    from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource

    found: dict[str, int] = {}
    for first in range(0, len(topics), CLIENT_CONFIG_RESOURCES):
        some = topics[first : first + CLIENT_CONFIG_RESOURCES]
        wanted = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=[MIN_INSYNC_REPLICAS])
            for name in some
        ]
        for got in (await client.send(DescribeConfigsRequest(resources=wanted))).results:
            if got.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and denied is not None:
                denied.add(got.resource_name)
            elif got.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                refused(got.error_code, got.error_message, f"topic {got.resource_name}")
                found[got.resource_name] = int(got.configs[0].value)
    return found


async def elect_leaders(
    client: Client, election: ElectionType, partitions: Iterable[Partition] | None = None
) -> Outcome:
    """Elects leaders of partitions (None: all). Those that had the right one already are not in the outcome."""
    from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions

    wanted = None
    if partitions is not None:
        wanted = [TopicPartitions(topic=name, partitions=some) for name, some in by_topic(partitions).items()]
    request = ElectLeadersRequest(election_type=election, topic_partitions=wanted, timeout_ms=TIMEOUT_MS)
    answer = await client.send(request)
    refused(answer.error_code, None, "election")
    outcome: Outcome = {}
    for topic in answer.replica_election_results:
        for got in topic.partition_result:
            if got.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                key = (topic.topic, got.partition_id)
                outcome[key] = refusal(got.error_code, got.error_message, key)
    return outcome


async def alter_reassignments(client: Client, targets: Mapping[Partition, Sequence[int] | None]) -> Outcome:
    """Begins to move partitions to other replicas; None instead of replicas cancels what is going on."""
    from penstock.protocol.messages.alter_partition_reassignments_request import (
        AlterPartitionReassignmentsRequest,
        ReassignablePartition,
        ReassignableTopic,
    )

    topics = []
    for name, indexes in by_topic(targets).items():
        partitions = []
        for index in indexes:
            target = targets[name, index]
            wanted = None if target is None else list(target)
            partitions.append(ReassignablePartition(partition_index=index, replicas=wanted))
        topics.append(ReassignableTopic(name=name, partitions=partitions))
    answer = await client.send(AlterPartitionReassignmentsRequest(timeout_ms=TIMEOUT_MS, topics=topics))
    refused(answer.error_code, answer.error_message, "reassignment")
    return {
        (topic.name, got.partition_index): refusal(got.error_code, got.error_message, (topic.name, got.partition_index))
        for topic in answer.responses
        for got in topic.partitions
    }


async def list_reassignments(client: Client) -> dict[Partition, Ongoing]:
    """All partitions that are being moved."""
    from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest

    request = ListPartitionReassignmentsRequest(timeout_ms=CONTROLLER_TIMEOUT_MS, topics=None)
    answer = await told_by_controller(client, request, "reassignments")
    return {
        (topic.name, each.partition_index): Ongoing(
            tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
        )
        for topic in answer.topics
        for each in topic.partitions
    }


async def unregister_broker(client: Client, broker_id: int) -> None:
    """Has the cluster forget a broker. Raises RequestError."""
    from penstock.protocol.messages.unregister_broker_request import UnregisterBrokerRequest

    answer = await client.send(UnregisterBrokerRequest(broker_id=broker_id))
    refused(answer.error_code, answer.error_message, f"broker {broker_id}")


async def replica_sizes(client: Client, node_ids: Iterable[int]) -> dict[tuple[str, int, int], int]:
    """Bytes on disk by (topic, index, broker); brokers that cannot be reached are left out."""
    from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest

    sizes: dict[tuple[str, int, int], int] = {}

    async def ask(node_id: int) -> None:
        try:
            answer = await client.send(DescribeLogDirsRequest(topics=None), node_id=node_id)
        except UnreachableError:
            return
        refused(answer.error_code, None, f"log directories of broker {node_id}")
        for directory in answer.results:
            for topic in directory.topics:
                for each in topic.partitions:
                    key = (topic.name, each.partition_index, node_id)
                    sizes[key] = sizes.get(key, 0) + each.partition_size

    await asyncio.gather(*map(ask, sorted(set(node_ids))))
    return sizes


async def told_by_controller(client: Client, request: Any, what: str) -> Any:
    """The answer to a request that brokers forward to the active controller.

    Raises NoControllerError when none answers in `CONTROLLER_TIMEOUT_MS`, RequestError when it refuses.
    """
    connection = await client.connection(None)
    try:
        answer = await connection.send(request, timeout_ms=CONTROLLER_TIMEOUT_MS)
    except NoAnswer:
        raise NoControllerError(connection.address) from None
    if answer.error_code in NO_CONTROLLER:
        raise NoControllerError(connection.address)
    refused(answer.error_code, answer.error_message, what)
    return answer


def refusal(code: int, message: str | None, partition: Partition) -> RequestError | None:
    """Why a partition was refused, or None when it was not."""
    if code == ErrorCode.NONE:
        return None
    error = ErrorCode(code)
    return RequestError(error, f"{partition[0]}-{partition[1]}: {message or error.name}")


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Indexes by topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for name, index in partitions:
        grouped.setdefault(name, []).append(index)
    return grouped
