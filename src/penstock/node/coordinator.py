"""What all coordinators of a node have in common: a topic, and a state machine for each of its partitions led here.

The hash of a key (the id of a group, ...) determines its partition, and the leader of that partition coordinates the
key. When the image makes this node the leader, the partition's log is opened and replayed, and then its keys are served
(`penstock.coordinator.runtime`). What distinguishes one kind of coordinator from another is its `Service`; the kinds
that a node has are listed in `coordinator_list`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.coordinator.runtime.runtime import Runtime
from penstock.coordinator.runtime.shard import Machine, Shard, ShardState
from penstock.coordinator.runtime.timers import ShardTimers
from penstock.errors import ErrorCode
from penstock.log.manager import NotOpen
from penstock.node.coordinated import LedPartition
from penstock.node.coordinator_host import CoordinatorHost
from penstock.node.coordinator_topic import CoordinatorTopic, TopicSpec
from penstock.node.limits import DUTY_PAUSE_MS
from penstock.node.metrics import Sample
from penstock.replication.partition import Partition
from penstock.security.rights import Right

if TYPE_CHECKING:
    from penstock.metadata.delta import MetadataDelta, TopicDelta
    from penstock.protocol.message import Message

LEAD_RETRY_MS = 20

M = TypeVar("M", bound=Machine)


class KeyType(IntEnum):
    """The types of keys in FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class Service(Protocol[M]):
    """What distinguishes one kind of coordinator from another.

    Attributes:
        name: for messages, and the place at which its bugs are counted.
        key_type: the type of its keys in FindCoordinator; None if clients never look for this coordinator.
        right: on a key, which a requester needs to find the key's coordinator.
        package: of its records in the schema. spec: of its topic. write_timeout_ms, linger_ms: see `Runtime`.
    """

    name: str
    key_type: KeyType | None
    right: Right | None
    package: str
    spec: TopicSpec
    write_timeout_ms: int
    linger_ms: int

    def machine(self, index: int, timers: ShardTimers) -> M:
        """A new state machine for a partition, whose log will be replayed into it."""
        ...

    def loaded(self, coordinator: Coordinator[M], shard: Shard[M], now_ms: int) -> None:
        """A partition has been loaded and is served from now on. This may write."""
        ...

    def published(self, coordinator: Coordinator[M], shard: Shard[M], delta: MetadataDelta, now_ms: int) -> None:
        """The node has new metadata; the shard is served or being loaded. This may write to a shard that is served."""
        ...

    def samples(self, coordinator: Coordinator[M]) -> Iterator[Sample | None]:
        """Metrics of this coordinator, in steps: see `penstock.node.samples`."""
        ...


class Coordinator(Generic[M]):
    """See the module's head. Operations go to the `runtime`, for the partition that `topic` gives."""

    def __init__(self, host: CoordinatorHost, service: Service[M]) -> None:
        self.name = service.name
        self.key_type = service.key_type
        self.right = service.right
        self.topic = CoordinatorTopic(host, service.name, service.spec)
        self._host = host
        self._service = service
        scheduler = host.scheduler
        self.runtime: Runtime[M] = Runtime(
            self.topic.name,
            service.package,
            service.machine,
            do=scheduler.do,
            now=lambda: scheduler.now_ms,
            write_timeout_ms=service.write_timeout_ms,
            linger_ms=service.linger_ms,
            bug=scheduler.bugs.add(service.name, f"a coordinator did something for a {service.name}"),
            wall=scheduler.wall,
            wake_by=scheduler.wake_by,
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
        """Asks a broker, this one or another; calls `done(answer, now_ms)` later, with None if no answer came in time.

        Returns False, and asks nothing, if the broker's address is not known.
        """
        peer = self._host.state.peer(broker_id)
        if peer is not None:
            self._host.outgoing.call(
                peer,
                request,
                timeout_ms=timeout_ms,
                done=lambda answer, reason, at_ms: done(answer, at_ms),
                now_ms=now_ms,
                channel=f"{self.name} coordinator",
            )
        return peer is not None

    def published(self, delta: MetadataDelta, now_ms: int) -> None:
        """Follows a new metadata image, which the replicas have already applied."""
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
                self._host.scheduler.guarded(self.name, what, self._service.published, self, shard, delta, now_ms)

    def samples(self) -> Iterator[Sample | None]:
        """The metrics of this coordinator, in steps."""
        return self._service.samples(self)

    def _partitions_changed(self, changed: TopicDelta, now_ms: int) -> None:
        for index, registration in changed.partitions.items():
            if registration.leader != self._host.state.node_id:
                self.runtime.resigned(index, now_ms)
            else:
                self._lead(index, now_ms)

    def _lead(self, index: int, now_ms: int) -> None:
        """Becomes the coordinator of a partition; tries again after a bug."""
        try:
            self._lead_if_open(index, now_ms)
        except Exception as error:
            self._host.scheduler.timers.at(now_ms + DUTY_PAUSE_MS, lambda at_ms: self._lead(index, at_ms))
            self._host.scheduler.bug(self.name, f"the lead of {self.topic.name}-{index}", error)

    def _lead_if_open(self, index: int, now_ms: int) -> None:
        """Becomes the coordinator of a partition as soon as its log is open.

        A shard whose partition is led on in a new epoch is kept, unless it has failed: then it is loaded again.
        """
        host = self._host
        registration = host.state.image.partition(self.topic.name, index)
        if registration is None or registration.leader != host.state.node_id or host.state.stopping:
            return
        try:
            partition = host.replicas.leader(self.topic.name, index, now_ms, patient=True)
        except NotOpen as missing:
            host.scheduler.when_open(missing, lambda at_ms: self._lead(index, at_ms))
            return
        if not isinstance(partition, Partition):
            if partition is ErrorCode.NOT_LEADER_OR_FOLLOWER:  # its log is still being cut
                host.scheduler.timers.at(now_ms + LEAD_RETRY_MS, lambda at_ms: self._lead(index, at_ms), duty=True)
            return
        shard = self.runtime.shards.get(index)
        if shard is not None and isinstance(shard.log, LedPartition) and shard.log.partition is partition:
            in_new_epoch = shard.leader_epoch != partition.leader_epoch
            shard.leader_epoch = partition.leader_epoch
            if shard.state is not ShardState.FAILED or not in_new_epoch:
                return
        lost = partial(self._lost, index, partition)
        self.runtime.elected(index, LedPartition(host, self.name, partition, lost), now_ms)

    def _lost(self, index: int, partition: Partition, now_ms: int) -> None:
        """The leadership is lost; or, since the disk was full, what was appended last: then the log is read again."""
        self.runtime.resigned(index, now_ms)
        if self._host.replicas.in_use(self.topic.name, index) is partition:
            self._host.scheduler.timers.at(now_ms + LEAD_RETRY_MS, lambda at_ms: self._lead(index, at_ms), duty=True)
