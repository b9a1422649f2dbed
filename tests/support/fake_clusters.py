"""Clusters that answer with messages: what Guardian's leader looks at in tests, without sockets or clocks.

world = FakeClusters()
world.add("clicks", brokers=3, topics={"a": [[1, 2], [2, 3]]})
world.run(10_000)
world.sight("clicks").topics["a"]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from penstock.errors import ErrorCode
from penstock.guardian.core.reach import ANY, CONTROLLER, Ended
from penstock.guardian.core.sampler import Sampler
from penstock.guardian.core.sight import ClusterSight, Sight
from penstock.guardian.core.state import Cluster, GuardianState
from penstock.protocol.message import Message
from penstock.protocol.messages.describe_configs_request import DescribeConfigsRequest
from penstock.protocol.messages.describe_configs_response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from penstock.protocol.messages.describe_log_dirs_request import DescribeLogDirsRequest
from penstock.protocol.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from penstock.protocol.messages.list_offsets_request import ListOffsetsRequest
from penstock.protocol.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from penstock.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from penstock.protocol.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from penstock.protocol.messages.metadata_request import MetadataRequest
from penstock.protocol.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from penstock.records.wall import WallTime

ANSWER_MS = 5
DISK_BYTES = 1_000_000
WALL_MS = 1_700_000_000_000


@dataclass
class FakeCluster:
    """What one cluster says of itself. `lies` change answers: a function of the answer, by the class of the request
    and the broker (ANY for all); one that returns None never answers."""

    kafka_id: str
    brokers: list[int]
    topics: dict[str, list[list[int]]]
    sizes: dict[tuple[str, int], int] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    changing: dict[tuple[str, int], tuple[list[int], list[int]]] = field(default_factory=dict)
    min_insync: dict[str, str] = field(default_factory=dict)
    lies: dict[tuple[type[Message], int], Callable[[Any], Message | str | None]] = field(default_factory=dict)
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    def answer(self, broker: int, request: Message, now_ms: int) -> Message | str | None:
        """The answer of a broker: a message, the reason for having none, or None for silence."""
        self.asked.append((type(request).__name__, broker, now_ms))
        if broker >= 0 and broker not in self.brokers:
            found: Message | str | None = f"broker {broker} is gone"
        else:
            found = getattr(self, f"_{type(request).__name__}")(broker, request)
        lie = self.lies.get((type(request), broker)) or self.lies.get((type(request), ANY))
        return found if lie is None else lie(found)

    def _MetadataRequest(self, broker: int, request: MetadataRequest) -> Message:  # noqa: N802
        alive = self.brokers
        return MetadataResponse(
            brokers=[
                MetadataResponseBroker(node_id=each, host=f"b{each}", port=9092, rack=f"r{each % 2}") for each in alive
            ],
            cluster_id=self.kafka_id,
            controller_id=alive[0] if alive else -1,
            topics=[
                MetadataResponseTopic(
                    name=name,
                    topic_id=UUID(int=1 + number),
                    partitions=[
                        MetadataResponsePartition(
                            partition_index=index,
                            leader_id=next((each for each in replicas if each in alive), -1),
                            leader_epoch=1,
                            replica_nodes=list(replicas),
                            isr_nodes=[each for each in replicas if each in alive],
                            offline_replicas=[],
                        )
                        for index, replicas in enumerate(partitions)
                    ],
                )
                for number, (name, partitions) in enumerate(self.topics.items())
            ],
        )

    def _ListPartitionReassignmentsRequest(  # noqa: N802
        self, broker: int, request: ListPartitionReassignmentsRequest
    ) -> Message:
        return ListPartitionReassignmentsResponse(
            topics=[
                OngoingTopicReassignment(
                    name=name,
                    partitions=[
                        OngoingPartitionReassignment(
                            partition_index=index, replicas=[], adding_replicas=adding, removing_replicas=removing
                        )
                    ],
                )
                for (name, index), (adding, removing) in self.changing.items()
            ]
        )

    def _DescribeLogDirsRequest(self, broker: int, request: DescribeLogDirsRequest) -> Message:  # noqa: N802
        here: dict[str, list[int]] = {}
        for name, partitions in self.topics.items():
            for index, replicas in enumerate(partitions):
                if broker in replicas:
                    here.setdefault(name, []).append(index)
        topics = [
            DescribeLogDirsTopic(
                name=name,
                partitions=[
                    DescribeLogDirsPartition(partition_index=index, partition_size=self.sizes.get((name, index), 100))
                    for index in indexes
                ],
            )
            for name, indexes in here.items()
        ]
        directory = DescribeLogDirsResult(
            log_dir="/data/0", topics=topics, total_bytes=DISK_BYTES, usable_bytes=DISK_BYTES // 2
        )
        return DescribeLogDirsResponse(results=[directory])

    def _ListOffsetsRequest(self, broker: int, request: ListOffsetsRequest) -> Message:  # noqa: N802
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=self.ends.get((topic.name, each.partition_index), 0),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _DescribeConfigsRequest(self, broker: int, request: DescribeConfigsRequest) -> Message:  # noqa: N802
        return DescribeConfigsResponse(
            results=[
                DescribeConfigsResult(
                    error_code=0 if each.resource_name in self.topics else int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    configs=[
                        DescribeConfigsResourceResult(
                            name="min.insync.replicas", value=self.min_insync.get(each.resource_name, "1")
                        )
                    ],
                )
                for each in request.resources
            ]
        )


class FakeClusters:
    """Some registered clusters, and the sampler of a leader that looks at them. `leads`, `lease`: whether it does."""

    def __init__(self, interval_ms: int = 10_000) -> None:
        self.now_ms = 0
        self.leads = True
        self.lease = True
        self.seen = Sight()
        self.clusters: dict[UUID, FakeCluster] = {}
        self.names: dict[str, UUID] = {}
        self.state = GuardianState()
        self.under_way = 0
        self.most_under_way = 0
        self.steps = 0
        self._due: list[tuple[int, Callable[[int], None]]] = []
        self.sampler = Sampler(
            self.seen,
            self,  # type: ignore[arg-type]
            WallTime(WALL_MS),
            state=lambda: self.state,
            leads=lambda: self.leads,
            may_act=lambda now_ms: self.leads and self.lease,
            do=self._do,
            interval_ms=interval_ms,
        )

    def add(self, name: str, brokers: int = 3, topics: dict[str, list[list[int]]] | None = None, **more: Any) -> Any:
        """Registers a cluster; it is made up of brokers 1, 2, ... and topics: the replicas of each partition."""
        more.setdefault("kafka_id", f"id-{name}")
        found = FakeCluster(brokers=list(range(1, brokers + 1)), topics=dict(topics or {}), **more)
        number = self.names[name] = UUID(int=100 + len(self.names))
        self.clusters[number] = found
        registered = Cluster(number, name, "kafka", (f"{name}:9092",))
        self.state = replace(self.state, clusters=MappingProxyType({**self.state.clusters, number: registered}))
        return found

    def remove(self, name: str) -> None:
        left = {number: each for number, each in self.state.clusters.items() if each.name != name}
        self.state = replace(self.state, clusters=MappingProxyType(left))

    def sight(self, name: str) -> ClusterSight:
        return self.seen.clusters[self.names[name]]

    def run(self, milliseconds: int) -> None:
        """Lets time pass."""
        until_ms = self.now_ms + milliseconds
        while True:
            due_ms = self.sampler.next_deadline_ms()
            times = [each[0] for each in self._due] + ([] if due_ms is None else [max(due_ms, self.now_ms)])
            at_ms = min(times, default=until_ms + 1)
            if at_ms > until_ms:
                self.now_ms = until_ms
                return
            self.now_ms = at_ms
            ready = [each for each in self._due if each[0] <= at_ms]
            self._due = [each for each in self._due if each[0] > at_ms]
            for _, then in ready:
                then(at_ms)
            self.sampler.tick(at_ms)

    def _do(self, work: Iterator[None]) -> None:
        for _ in work:
            self.steps += 1

    def ask(
        self,
        cluster: Cluster,
        broker: int,
        message: Message,
        ended: Ended,
        now_ms: int,
        *,
        timeout_ms: int = 10_000,
        channel: str = "",
    ) -> None:
        """As `Reach.ask`."""
        fake = self.clusters[cluster.id]
        if broker == CONTROLLER:
            broker = ANY
        answer = fake.answer(broker, message, now_ms)
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)

        def over(at_ms: int) -> None:
            self.under_way -= 1
            if isinstance(answer, Message):
                ended(answer, None, at_ms)
            else:
                ended(None, answer or f"no answer within {timeout_ms} ms", at_ms)

        self._due.append((now_ms + (timeout_ms if answer is None else ANSWER_MS), over))
