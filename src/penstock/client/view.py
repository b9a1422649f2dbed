"""What a cluster looks like now: its brokers and the state of every partition, in one object.

The words are those of kafka-topics: a partition is under-replicated when a replica is not in sync, at or under min ISR
as `min.insync.replicas` says, unavailable when nobody leads it. Replicas that a reassignment adds do not count until
they are in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.client.client import Client, Partition
    from penstock.client.cluster import BrokerState, ClusterState, Ongoing


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition, as the cluster describes it."""

    topic: str
    index: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    adding: tuple[int, ...] = ()
    min_insync_replicas: int = 1

    @property
    def key(self) -> Partition:
        """Topic and index."""
        return self.topic, self.index

    @property
    def wanted(self) -> int:
        """The number of replicas that should be in sync."""
        return len(self.replicas) - len(self.adding)

    @property
    def under_replicated(self) -> bool:
        return len(self.in_sync) < self.wanted

    @property
    def at_min_isr(self) -> bool:
        return len(self.in_sync) == self.min_insync_replicas

    @property
    def under_min_isr(self) -> bool:
        return len(self.in_sync) < self.min_insync_replicas

    @property
    def unavailable(self) -> bool:
        return self.leader < 0

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"


PROBLEMS: dict[str, Callable[[PartitionView], bool]] = {
    "under_replicated": lambda partition: partition.under_replicated,
    "at_min_isr": lambda partition: partition.at_min_isr,
    "under_min_isr": lambda partition: partition.under_min_isr,
    "offline": lambda partition: partition.unavailable,
}
"""What can be wrong with a partition. At min ISR alone is none where the topic has as few replicas."""


@dataclass(frozen=True, slots=True)
class View:
    """The cluster as one broker of it tells."""

    cluster: ClusterState
    partitions: tuple[PartitionView, ...]
    topics: int
    moving: Mapping[Partition, Ongoing]
    without_minimum: frozenset[str] = frozenset()
    """Topics whose `min.insync.replicas` this user may not see; it counts as 1."""

    @property
    def brokers(self) -> tuple[BrokerState, ...]:
        """All brokers, sorted by id."""
        return self.cluster.brokers

    @property
    def live(self) -> tuple[int, ...]:
        """The ids of the brokers that are not fenced."""
        return tuple(broker.id for broker in self.brokers if not broker.fenced)

    @property
    def racks(self) -> dict[int, str | None]:
        """Racks by broker."""
        return {broker.id: broker.rack for broker in self.brokers}

    @property
    def replicas(self) -> dict[Partition, tuple[int, ...]]:
        """Replicas by partition; of one that is being moved, those that it will have."""
        return {
            each.key: self.moving[each.key].target if each.key in self.moving else each.replicas
            for each in self.partitions
        }

    def with_problem(self, name: str) -> list[PartitionView]:
        """Partitions that have a problem."""
        has = PROBLEMS[name]
        return [partition for partition in self.partitions if has(partition)]

    def shares(self) -> dict[int, Share]:
        """The share of each broker, including brokers that are no longer registered."""
        found = {broker.id: Share() for broker in self.brokers}
        for partition in self.partitions:
            for broker_id in partition.replicas:
                share = found.setdefault(broker_id, Share())
                share.replicas += 1
                share.out_of_sync += broker_id not in partition.in_sync
            if partition.replicas:
                found[partition.replicas[0]].preferred += 1
            if partition.leader >= 0:
                found.setdefault(partition.leader, Share()).leaders += 1
        return found

    def broker(self, broker_id: int) -> BrokerState:
        """A broker by id. Raises UsageError naming those that there are."""
        for broker in self.brokers:
            if broker.id == broker_id:
                return broker
        known = ",".join(str(broker.id) for broker in self.brokers) or "none"
        raise UsageError(f"there is no broker {broker_id}: the cluster has {known}")


@dataclass(slots=True)
class Share:
    """One broker's share: partitions that it leads or should lead, its replicas, and those that are out of sync."""

    leaders: int = 0
    preferred: int = 0
    replicas: int = 0
    out_of_sync: int = 0


async def look(
    client: Client, topics: Sequence[str] | None = None, *, moves: bool = True, partly: bool = False
) -> View:
    """The cluster now, with all topics or some.

    `moves` asks the controller also what is being moved; `partly` is content with what this user may see. Raises
    RequestError for a topic that is unknown, NoControllerError where there is none to ask.
    """
    from penstock.client.admin import describe_topics
    from penstock.client.cluster import describe_cluster, list_reassignments, min_insync_replicas

    cluster = await describe_cluster(client)
    found = await describe_topics(client, topics)
    moving = await list_reassignments(client) if moves else {}
    denied: set[str] | None = set() if partly else None
    minima = await min_insync_replicas(client, [topic.name for topic in found if topic.name is not None], denied)
    partitions = [
        PartitionView(
            topic.name,
            each.partition_index,
            each.leader_id,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            moving[topic.name, each.partition_index].adding if (topic.name, each.partition_index) in moving else (),
            minima.get(topic.name, 1),
        )
        for topic in found
        if topic.name is not None
        for each in topic.partitions
    ]
    return View(cluster, tuple(partitions), len(found), moving, frozenset(denied or ()))
