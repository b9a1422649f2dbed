"""What the executor looks at before it acts: metadata, reassignments under way, settings and directories, just asked
for. The requests, and what their answers say. The sight (`guardian.core.sight`) may be seconds old; a look is not.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.guardian.core.sight import ClusterSight
from penstock.guardian.core.work.plans import Move
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.messages.describe_configs_response import DescribeConfigsResponse
from penstock.protocol.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from penstock.protocol.messages.describe_log_dirs_response import DescribeLogDirsResponse
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.list_partition_reassignments_response import ListPartitionReassignmentsResponse
from penstock.protocol.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from penstock.protocol.messages.metadata_response import MetadataResponse

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
MIN_ISR = "min.insync.replicas"
DIGITS_MAX = 9
"""Of a number of replicas; what has more is none."""

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Placed:
    """A partition: who has it, who is in sync, who leads it; as a metadata answer says."""

    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    leader: int


@dataclass(frozen=True, slots=True)
class Reassigned:
    """A reassignment under way: the replicas that it ends with, and those that it adds and removes."""

    target: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


@dataclass(slots=True)
class Look:
    """What was seen.

    Attributes:
        alive: brokers. topics: their ids, by name; those that are asked for and not there are in `missing`.
        partitions: by topic and index. counts: partitions of each topic. reassigned: by partition.
        min_isr: by topic. directories: by topic, index and broker, where a replica lies, and where it is copied to.
        described: brokers whose directories were told.
    """

    alive: frozenset[int] = frozenset()
    topics: dict[str, UUID] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)
    partitions: dict[Partition, Placed] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    reassigned: dict[Partition, Reassigned] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)
    directories: dict[tuple[str, int, int], tuple[str | None, str | None]] = field(default_factory=dict)
    described: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, seen: ClusterSight) -> Look:
        """What the sampler has seen, as a look."""
        found = cls(frozenset(seen.brokers))
        for name, topic in seen.topics.items():
            found.topics[name] = topic.id
            found.counts[name] = len(topic.partitions)
            if topic.min_insync_replicas is not None:
                found.min_isr[name] = topic.min_insync_replicas
            for each in topic.partitions:
                found.partitions[name, each.index] = Placed(each.replicas, each.in_sync, each.leader)
                if each.adding or each.removing:
                    target = tuple(broker for broker in each.replicas if broker not in each.removing)
                    found.reassigned[name, each.index] = Reassigned(target, each.adding, each.removing)
        return found

    # Answers

    def take_metadata(self, answer: MetadataResponse) -> None:
        """Brokers, topics and partitions."""
        self.alive = frozenset(each.node_id for each in answer.brokers)
        for topic in answer.topics:
            name = topic.name or ""
            if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                self.missing.add(name)
            elif not topic.error_code:
                self.topics[name] = topic.topic_id
                self.counts[name] = len(topic.partitions)
                for each in topic.partitions:
                    placed = Placed(tuple(each.replica_nodes), tuple(each.isr_nodes), each.leader_id)
                    self.partitions[name, each.partition_index] = placed

    def take_reassignments(self, answer: ListPartitionReassignmentsResponse) -> None:
        """What is being reassigned."""
        for topic in answer.topics:
            for each in topic.partitions:
                removing = tuple(each.removing_replicas)
                target = tuple(broker for broker in each.replicas if broker not in removing)
                found = Reassigned(target, tuple(each.adding_replicas), removing)
                self.reassigned[topic.name, each.partition_index] = found

    def take_settings(self, answer: DescribeConfigsResponse) -> None:
        """How many replicas must be in sync."""
        for result in answer.results:
            for each in result.configs:
                value = each.value or ""
                if each.name == MIN_ISR and value.isascii() and value.isdecimal() and len(value) <= DIGITS_MAX:
                    self.min_isr[result.resource_name] = int(value)

    def take_directories(self, broker: int, answer: DescribeLogDirsResponse) -> None:
        """Where replicas lie at a broker."""
        if answer.error_code:
            return
        self.described.add(broker)
        for directory in answer.results:
            for topic in directory.topics if not directory.error_code else ():
                for each in topic.partitions:
                    key = topic.name, each.partition_index, broker
                    path, future = self.directories.get(key, (None, None))
                    if each.is_future_key:
                        future = directory.log_dir
                    else:
                        path = directory.log_dir
                    self.directories[key] = path, future


# Requests


def metadata_of(topics: Iterable[str]) -> MetadataRequest:
    """Brokers, and these topics."""
    return MetadataRequest(topics=[MetadataRequestTopic(name=each) for each in topics], allow_auto_topic_creation=False)


def reassignments() -> ListPartitionReassignmentsRequest:
    """Everything that is being reassigned."""
    return ListPartitionReassignmentsRequest(topics=None)


def settings_of(kind: int, names: Iterable[str], settings: Sequence[str]) -> DescribeConfigsRequest:
    """Settings of topics or of a broker, with the layers that they come from."""
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=each, configuration_keys=list(settings))
        for each in names
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True)


def directories_of(partitions: Mapping[str, list[int]]) -> DescribeLogDirsRequest:
    """All directories of a broker, with these partitions."""
    topics = [DescribableLogDirTopic(topic=topic, partitions=indexes) for topic, indexes in partitions.items()]
    return DescribeLogDirsRequest(topics=topics)


def by_broker(moves: Iterable[Move]) -> dict[int, dict[str, list[int]]]:
    """Of moves that want directories, which partitions each broker is to be asked for."""
    found: dict[int, dict[str, list[int]]] = {}
    for move in moves:
        for broker, _ in move.wanted_directories:
            found.setdefault(broker, {}).setdefault(move.topic, []).append(move.partition)
    return found
