"""What members of all groups share, beyond what the clients of a simulated cluster share anyway."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from penstock.metadata.image import MetadataImage
from penstock.node.coordinator_topic import partition_for
from penstock.node.groups import OFFSETS_TOPIC
from simulator.cluster.checkers import ClusterChecker
from simulator.cluster.history import PartitionHistory
from simulator.cluster.load import Load
from simulator.world.network import Address

Action = Callable[[], None]
Term = tuple[int, int, int]
"""A coordinator's time in office: who, of which leader epoch, in which life of its process."""


@dataclass
class GroupLoad:
    """See the module's head.

    Attributes:
        clients: everything that is not about groups. checker: sees all nodes.
        session_ms, rebalance_ms: what members of the classic protocol say, and how long all have to give things up.
        patient: members neither answer_now nor tarry any more: the cluster is well. over: nobody starts any more.
    """

    clients: Load
    checker: ClusterChecker
    session_ms: int
    rebalance_ms: int
    patient: bool = False
    over: bool = False

    @property
    def image(self) -> MetadataImage:
        """The metadata as any client would be told."""
        return self.checker.image

    def history(self, topic: str, index: int) -> PartitionHistory | None:
        """What is known of the records of a partition of the load."""
        return next((each for each in self.clients.partitions if (each.topic, each.index) == (topic, index)), None)

    def topic_id(self, name: str) -> UUID:
        return self.image.topics_by_name[name].id

    def term(self, address: Address | None, group_id: str) -> Term | None:
        """The term of the broker at an address, if it really is the group's coordinator and knows it.

        No client sees this. One that has been deposed and does not know answers what it can answer without its
        replicas (a heartbeat, a fetch of offsets) from what was so once; Kafka's protocol does not prevent that.
        """
        topic = self.image.topics_by_name.get(OFFSETS_TOPIC)
        if topic is None or address is None:
            return None
        index = partition_for(group_id, len(topic.partitions))
        registration = topic.partitions[index]
        machine = self.checker.machines.get(registration.leader)
        if machine is None or not machine.running or machine.host != address[0]:
            return None
        shard = machine.broker.coordinators.groups.runtime.shards.get(index)
        if shard is None or shard.leader_epoch != registration.leader_epoch:
            return None
        return registration.leader, registration.leader_epoch, machine.incarnation
