"""What every coordinator of a node has: a topic, and for each partition of it that this node leads a state machine.

A key (the id of a group, ...) belongs to the partition that its hash says, and so to the broker that leads that
partition. This node is the coordinator of a partition from the moment that its image says so: the partition's log is
opened and replayed, then its keys are served (`penstock.coordinator.runtime`). What one kind of coordinator has of its
own is its `Service`; those that a node has are listed in `coordinator_list`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Machine, Shard, ShardState
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.errors import ErrorCode
from penstock.log.manager import NotOpen
from penstock.node.coordinated import LedPartition
from penstock.node.coordinator_topic import CoordinatorTopic, TopicSpec
from penstock.node.limits import DUTY_PAUSE_MS
from penstock.replication.partition import Partition

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta, TopicDelta
    from penstock.node.broker import Broker
    from penstock.protocol.message import Message

LEAD_RETRY_MS = 20

M = TypeVar("M", bound=Machine)


class Service(Protocol[M]):
    """What a kind of coordinator has of its own.

    Attributes:
        name: for messages, and where its bugs are counted: a line of `penstock.node.bugs.PLACES`.
        package: of its records in the schema. spec: of its topic. write_timeout_ms, linger_ms: see `Runtime`.
    """

    name: str
    package: str
    spec: TopicSpec
    write_timeout_ms: int
    linger_ms: int

    def machine(self, index: int, timers: ShardTimers) -> M:
        """A new state machine for a partition, whose log is going to be replayed."""
        ...

    def loaded(self, coordinator: Coordinator[M], shard: Shard[M], now_ms: int) -> None:
        """A partition is served from now on. This may write."""
        ...

    def published(self, coordinator: Coordinator[M], shard: Shard[M], delta: MetadataDelta, now_ms: int) -> None:
        """The node has new metadata; the shard is served or being loaded. This may write where it is served."""
        ...


class Coordinator(Generic[M]):
    """See the module's head. Operations go to the `runtime`, with the partition that the `topic` says."""

    def __init__(self, node: Broker, service: Service[M]) -> None:
        self.name = service.name
        self.topic = CoordinatorTopic(node, service.name, service.spec)
        self._node = node
        self._service = service
        scheduler = node.scheduler
        self.runtime: Runtime[M] = Runtime(
            self.topic.name,
            service.package,
            service.machine,
            do=node.do,
            now=lambda: scheduler.now_ms,
            write_timeout_ms=service.write_timeout_ms,
            linger_ms=service.linger_ms,
            bug=node.bugs.of(service.name),
            wall=node.wall,
            loaded=lambda shard, now_ms: service.loaded(self, shard, now_ms),
        )

    def call(
        self,
        broker_id: int,
        request: Message,
        done: Callable[[Message | None, int], None],
        now_ms: int,
        *,
        timeout_ms: int,
    ) -> bool:
        """Asks a broker, this one or another; `done(answer, now_ms)` later, None if it did not answer in time.

        False: it is not known how to reach the broker, and nothing is asked.
        """
        node = self._node
        peer = node.state.peer(broker_id)
        if peer is not None:
            node.outgoing.call(
                peer,
                request,
                timeout_ms=timeout_ms,
                done=lambda answer, reason, at_ms: done(answer, at_ms),
                now_ms=now_ms,
                channel=f"{self.name} coordinator",
            )
        return peer is not None

    def published(self, delta: MetadataDelta, now_ms: int) -> None:
        """Follows a new metadata image, which the replicas have already been told of."""
        for gone in delta.deleted_topics.values():
            if gone.name == self.topic.name:
                for index in range(len(gone.partitions)):
                    self.runtime.resigned(index, now_ms)
        for changed in delta.topics.values():
            if changed.name == self.topic.name:
                self._partitions_changed(changed, now_ms)
        for shard in list(self.runtime.shards.values()):
            if shard.state in (ShardState.ACTIVE, ShardState.LOADING):
                what = f"the news for {shard!r}"
                self._node.guarded(self.name, what, self._service.published, self, shard, delta, now_ms)

    def _partitions_changed(self, changed: TopicDelta, now_ms: int) -> None:
        for index, registration in changed.partitions.items():
            if registration.leader != self._node.node_id:
                self.runtime.resigned(index, now_ms)
            else:
                self._lead(index, now_ms)

    def _lead(self, index: int, now_ms: int) -> None:
        """Becomes the coordinator of a partition; tries again after a bug."""
        try:
            self._lead_if_open(index, now_ms)
        except Exception as error:
            self._node.timers.at(now_ms + DUTY_PAUSE_MS, lambda at_ms: self._lead(index, at_ms))
            self._node.bug(self.name, f"the lead of {self.topic.name}-{index}", error)

    def _lead_if_open(self, index: int, now_ms: int) -> None:
        """Becomes the coordinator of a partition as soon as its log is open.

        One that is led on in a new epoch goes on as it is; if it has failed, it is loaded again.
        """
        node = self._node
        registration = node.image.partition(self.topic.name, index)
        if registration is None or registration.leader != node.node_id or node.state.stopping:
            return
        try:
            partition = node.replicas.leader(self.topic.name, index, now_ms)
        except NotOpen as missing:
            node.when_open(missing, lambda at_ms: self._lead(index, at_ms))
            return
        if not isinstance(partition, Partition):
            if partition is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # its log is still being cut
                node.timers.at(now_ms + LEAD_RETRY_MS, lambda at_ms: self._lead(index, at_ms), duty=True)
            return
        shard = self.runtime.shards.get(index)
        if shard is not None and isinstance(shard.log, LedPartition) and shard.log.partition is partition:
            in_new_epoch = shard.leader_epoch != partition.leader_epoch
            shard.leader_epoch = partition.leader_epoch
            if shard.state is not ShardState.FAILED or not in_new_epoch:
                return
        self.runtime.elected(
            index, LedPartition(node, self.name, partition, lambda at_ms: self.runtime.resigned(index, at_ms)), now_ms
        )
