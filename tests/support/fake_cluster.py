"""A cluster for tests of Guardian's executor: it answers the requests that the executor makes, copies for a while, and
can be slow, lose answers, lose brokers, refuse. What was done to it is counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.guardian.core.sight import ClusterSight, SeenBroker, SeenDisk, SeenPartition, SeenReplica, SeenTopic
from penstock.protocol.message import Message
from penstock.protocol.messages import alter_partition_reassignments_response as reassigned_messages
from penstock.protocol.messages import alter_replica_log_dirs_response as directed_messages
from penstock.protocol.messages import describe_configs_response as described_messages
from penstock.protocol.messages import describe_log_dirs_response as directory_messages
from penstock.protocol.messages import elect_leaders_response as elected_messages
from penstock.protocol.messages import incremental_alter_configs_response as altered_messages
from penstock.protocol.messages import list_partition_reassignments_response as listed_messages
from penstock.protocol.messages import metadata_response as metadata_messages
from penstock.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from penstock.protocol.messages.alter_replica_log_dirs_request import AlterReplicaLogDirsRequest
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.elect_leaders_request import ElectLeadersRequest
from penstock.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.metadata_request import MetadataRequest

KAFKA_ID = "fake"
TOPIC, BROKER = 2, 4
LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
DIRECTORIES = ("/a", "/b")


@dataclass
class Part:
    """A partition of the cluster."""

    replicas: list[int]
    in_sync: list[int]
    leader: int
    target: list[int] | None = None
    done_ms: int = 0
    full_ms: int = 0
    hurt: bool = False
    directories: dict[int, str] = field(default_factory=dict)
    futures: dict[int, tuple[str, int]] = field(default_factory=dict)

    @property
    def adding(self) -> list[int]:
        return [each for each in self.target or () if each not in self.replicas]


class FakeCluster:
    """See the module's head.

    Attributes:
        alive: brokers. configs: by resource type, name and config. begun: by partition, how many reassignments and
            copies between directories have begun. elections: likewise. copies_ms: how long a copy takes.
        most: of moves at once, in all and to each broker. thin_ms: for how long at most replicas had not been in sync
            when a reassignment began.
    """

    def __init__(self, brokers: int = 4, *, copies_ms: int = 3_000, min_isr: int = 1) -> None:
        self.now_ms = 0
        self.alive = set(range(1, brokers + 1))
        self.brokers = brokers
        self.copies_ms = copies_ms
        self.min_isr = min_isr
        self.topics: dict[str, tuple[UUID, list[Part]]] = {}
        self.configs: dict[tuple[int, str, str], str] = {}
        self.hints: dict[tuple[str, int, int], str] = {}
        self.begun: Counter[tuple[str, int]] = Counter()
        self.elections: Counter[tuple[str, int]] = Counter()
        self.refuse: dict[tuple[str, int], ErrorCode] = {}
        self.most: Counter[str | int] = Counter()
        self.thin_ms = 0
        self.asked: Counter[str] = Counter()

    def add(self, name: str, *replicas: list[int]) -> None:
        """A topic, with the replicas of each partition."""
        parts = [Part(list(each), list(each), each[0], directories=dict.fromkeys(each, "/a")) for each in replicas]
        self.topics[name] = UUID(int=1000 + len(self.topics)), parts

    def part(self, topic: str, index: int) -> Part:
        return self.topics[topic][1][index]

    def sight(self) -> ClusterSight:
        """The cluster as a sampler has it."""
        seen = ClusterSight(KAFKA_ID, 1)
        for broker in self.alive:
            seen.brokers[broker] = SeenBroker(broker, f"b{broker}", 9092, f"rack{broker}")
            for path in DIRECTORIES:
                seen.disks[broker, path] = SeenDisk(broker, path)
        for name, (topic_id, parts) in self.topics.items():
            partitions = tuple(
                SeenPartition(name, at, part.leader, 0, tuple(part.replicas), tuple(part.in_sync), tuple(part.adding))
                for at, part in enumerate(parts)
            )
            seen.topics[name] = SeenTopic(name, topic_id, partitions, min_insync_replicas=self.min_isr)
            for at, part in enumerate(parts):
                for broker, path in part.directories.items():
                    seen.replicas[name, at, broker] = SeenReplica(path, 1_000)
        return seen

    # Time

    def at(self, now_ms: int) -> None:
        """Goes on to a time: copies end, replicas catch up, leaders of dead brokers change."""
        self.now_ms = now_ms
        for name, (_, parts) in self.topics.items():
            for index, part in enumerate(parts):
                self._go_on(name, index, part)

    def _go_on(self, name: str, index: int, part: Part) -> None:
        part.in_sync = [each for each in part.in_sync if each in self.alive] or part.in_sync
        if part.target is None:
            for each in part.replicas:
                if each in self.alive and each not in part.in_sync:
                    part.in_sync.append(each)
        elif self.now_ms >= part.done_ms and all(each in self.alive for each in part.target):
            for broker in part.adding:
                part.directories[broker] = self.hints.pop((name, index, broker), "/a")
            part.directories = {each: part.directories[each] for each in part.target}
            part.replicas, part.in_sync, part.target = list(part.target), list(part.target), None
        if part.hurt:
            part.in_sync = part.in_sync[:1]
        if len(part.in_sync) == len(part.replicas):
            part.full_ms = self.now_ms
        self._lead(part)
        for broker, (path, done_ms) in list(part.futures.items()):
            if self.now_ms >= done_ms and broker in self.alive:
                part.directories[broker] = path
                del part.futures[broker]

    def _lead(self, part: Part) -> None:
        """Somebody leads who is in sync and alive."""
        if part.leader not in part.in_sync or part.leader not in part.replicas or part.leader not in self.alive:
            alive = [each for each in part.replicas if each in part.in_sync and each in self.alive]
            part.leader = alive[0] if alive else -1

    def _count(self) -> None:
        moving = [part for _, parts in self.topics.values() for part in parts if part.target is not None]
        self.most["all"] = max(self.most["all"], len(moving))
        for broker in range(1, self.brokers + 1):
            coming = sum(broker in part.adding for part in moving)
            self.most[broker] = max(self.most[broker], coming)

    # Answers

    def answer(self, broker: int, message: Message) -> Message | None:
        """The answer of a broker, the controller (-2) or any (-1); None: it is dead."""
        if broker >= 0 and broker not in self.alive:
            return None
        self.asked[type(message).__name__] += 1
        found = getattr(self, f"_{type(message).__name__.removesuffix('Request')}")(broker, message)
        self._count()
        return found  # type: ignore[no-any-return]

    def _Metadata(self, broker: int, request: MetadataRequest) -> Message:  # noqa: N802 - by the request's name
        topics = []
        for asked in request.topics or ():
            if asked.name not in self.topics:
                topics.append(metadata_messages.MetadataResponseTopic(error_code=3, name=asked.name))
                continue
            topic_id, parts = self.topics[asked.name]
            partitions = [
                metadata_messages.MetadataResponsePartition(
                    partition_index=at,
                    leader_id=part.leader,
                    replica_nodes=[*(part.target or part.replicas), *self._leaving(part)],
                    isr_nodes=list(part.in_sync),
                )
                for at, part in enumerate(parts)
            ]
            topics.append(
                metadata_messages.MetadataResponseTopic(name=asked.name, topic_id=topic_id, partitions=partitions)
            )
        brokers = [metadata_messages.MetadataResponseBroker(node_id=each, host=f"b{each}") for each in self.alive]
        return metadata_messages.MetadataResponse(cluster_id=KAFKA_ID, brokers=brokers, controller_id=1, topics=topics)

    def _leaving(self, part: Part) -> list[int]:
        return [each for each in part.replicas if part.target is not None and each not in part.target]

    def _ListPartitionReassignments(self, broker: int, request: ListPartitionReassignmentsRequest) -> Message:  # noqa: N802
        topics = []
        for name, (_, parts) in self.topics.items():
            found = [
                listed_messages.OngoingPartitionReassignment(
                    partition_index=at,
                    replicas=[*part.target, *self._leaving(part)],
                    adding_replicas=part.adding,
                    removing_replicas=self._leaving(part),
                )
                for at, part in enumerate(parts)
                if part.target is not None
            ]
            if found:
                topics.append(listed_messages.OngoingTopicReassignment(name=name, partitions=found))
        return listed_messages.ListPartitionReassignmentsResponse(topics=topics)

    def _AlterPartitionReassignments(self, broker: int, request: AlterPartitionReassignmentsRequest) -> Message:  # noqa: N802
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                code = self._reassign(topic.name, each.partition_index, each.replicas)
                partitions.append(
                    reassigned_messages.ReassignablePartitionResponse(
                        partition_index=each.partition_index, error_code=code
                    )
                )
            topics.append(reassigned_messages.ReassignableTopicResponse(name=topic.name, partitions=partitions))
        return reassigned_messages.AlterPartitionReassignmentsResponse(responses=topics)

    def _reassign(self, topic: str, index: int, replicas: list[int] | None) -> int:
        if topic not in self.topics:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if (topic, index) in self.refuse:
            return self.refuse[topic, index]
        part = self.part(topic, index)
        if replicas is None:
            if part.target is None:
                return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            part.target = None
            return ErrorCode.NONE
        if part.target == replicas or (part.target is None and part.replicas == replicas):
            return ErrorCode.NONE
        if sorted(replicas) == sorted(part.replicas):
            part.replicas, part.target = list(replicas), None
            return ErrorCode.NONE
        self.thin_ms = max(self.thin_ms, self.now_ms - part.full_ms)
        part.target, part.done_ms = list(replicas), self.now_ms + self.copies_ms
        self.begun[topic, index] += 1
        return ErrorCode.NONE

    def _ElectLeaders(self, broker: int, request: ElectLeadersRequest) -> Message:  # noqa: N802
        for topic in request.topic_partitions or ():
            for index in topic.partitions:
                part = self.part(topic.topic, index)
                if part.leader != part.replicas[0] and part.replicas[0] in part.in_sync:
                    part.leader = part.replicas[0]
                    self.elections[topic.topic, index] += 1
        return elected_messages.ElectLeadersResponse()

    def _AlterReplicaLogDirs(self, broker: int, request: AlterReplicaLogDirsRequest) -> Message:  # noqa: N802
        results = []
        for directory in request.dirs:
            for topic in directory.topics:
                for index in topic.partitions:
                    code = self._direct(broker, topic.name, index, directory.path)
                    result = directed_messages.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    results.append(
                        directed_messages.AlterReplicaLogDirTopicResult(topic_name=topic.name, partitions=[result])
                    )
        return directed_messages.AlterReplicaLogDirsResponse(results=results)

    def _direct(self, broker: int, topic: str, index: int, path: str) -> int:
        if path not in DIRECTORIES:
            return ErrorCode.LOG_DIR_NOT_FOUND
        part = self.part(topic, index)
        if broker not in part.directories:
            self.hints[topic, index, broker] = path
            return ErrorCode.REPLICA_NOT_AVAILABLE
        if part.directories[broker] == path:
            part.futures.pop(broker, None)
        elif broker not in part.futures:
            part.futures[broker] = path, self.now_ms + self.copies_ms
            self.begun[topic, index] += 1
        return ErrorCode.NONE

    def _DescribeLogDirs(self, broker: int, request: DescribeLogDirsRequest) -> Message:  # noqa: N802
        results = []
        for path in DIRECTORIES:
            topics = []
            for asked in request.topics or ():
                for index in asked.partitions if asked.topic in self.topics else ():
                    part = self.part(asked.topic, index)
                    found = [False] * (part.directories.get(broker) == path)
                    found += [True] * (part.futures.get(broker, ("",))[0] == path)
                    partitions = [
                        directory_messages.DescribeLogDirsPartition(partition_index=index, is_future_key=future)
                        for future in found
                    ]
                    topics.append(directory_messages.DescribeLogDirsTopic(name=asked.topic, partitions=partitions))
            results.append(directory_messages.DescribeLogDirsResult(log_dir=path, topics=topics))
        return directory_messages.DescribeLogDirsResponse(results=results)

    def _DescribeConfigs(self, broker: int, request: DescribeConfigsRequest) -> Message:  # noqa: N802
        results = []
        for each in request.resources:
            result: Any = described_messages.DescribeConfigsResult(
                resource_type=each.resource_type, resource_name=each.resource_name
            )
            if each.resource_type == TOPIC and each.resource_name not in self.topics:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            for name in each.configuration_keys or () if not result.error_code else ():
                value = self.configs.get((each.resource_type, each.resource_name, name))
                own = 1 if each.resource_type == TOPIC else 2
                source = 5 if value is None else own
                if name == "min.insync.replicas":
                    value = str(self.min_isr)
                result.configs.append(
                    described_messages.DescribeConfigsResourceResult(name=name, value=value, config_source=source)
                )
            results.append(result)
        return described_messages.DescribeConfigsResponse(results=results)

    def _IncrementalAlterConfigs(self, broker: int, request: IncrementalAlterConfigsRequest) -> Message:  # noqa: N802
        responses = []
        for each in request.resources:
            for config in each.configs:
                key = each.resource_type, each.resource_name, config.name
                self._alter(key, config.config_operation, config.value)
            responses.append(
                altered_messages.AlterConfigsResourceResponse(
                    resource_type=each.resource_type, resource_name=each.resource_name
                )
            )
        return altered_messages.IncrementalAlterConfigsResponse(responses=responses)

    def _alter(self, key: tuple[int, str, str], operation: int, value: str | None) -> None:
        there = [each for each in self.configs.get(key, "").split(",") if each]
        if operation == 1:
            self.configs.pop(key, None)
        elif operation == 0:
            self.configs[key] = value or ""
        else:
            assert key[2] in LISTS
            named = (value or "").split(",")
            more = [each for each in named if each not in there]
            kept = [*there, *more] if operation == 2 else [each for each in there if each not in named]
            self.configs[key] = ",".join(kept)
