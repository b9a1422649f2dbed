"""Rules that a cluster keeps at every step, checked from outside, with a view of all nodes at once.

`ClusterChecker.check(machine)` runs after each event of a machine's loop and looks at that node only, as far as it has
changed:

- one leader an epoch: of a partition, and of the metadata quorum; a leader's high watermark never goes back;
- no leader's high watermark, of whichever epoch, is beyond the log end of any in-sync replica, as the newest committed
  metadata has them: so it is waited for who is being added, and nobody is elected who lacks anything;
- committed metadata has one epoch and one content at each offset, on every node.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage
from penstock.node.broker import Broker
from penstock.replication.partition import Partition
from penstock.testing.simulator.machine import Machine
from penstock.testing.simulator.timeline import check

ONE_LEADER = "one leader an epoch"
WATERMARK = "the high watermark is not beyond an in-sync replica"

PartitionEpoch = tuple[UUID, int, int]


class ClusterChecker:
    """See the module's head.

    Attributes:
        image: the newest committed metadata that any node has.
        elections: leader epochs of partitions in which somebody led.
    """

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = {machine.settings.node_id: machine for machine in machines}
        self.image: MetadataImage = EMPTY_IMAGE
        self.elections = 0
        self._leaders: dict[PartitionEpoch, int] = {}
        self._watermarks: dict[tuple[int, int, PartitionEpoch], int] = {}
        self._highest: dict[tuple[UUID, int], int] = {}
        self._quorum_leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._contents: dict[int, list[object]] = {}
        self._seen_images: dict[int, MetadataImage] = {}
        self._seen_partitions: dict[Partition, tuple[int, int]] = {}

    def check(self, machine: Machine) -> None:
        """Looks at a node after one of its events."""
        broker = machine.broker
        self._check_quorum(broker)
        for partition in broker.replicas.leading():
            state = partition.leader_epoch, partition.high_watermark
            if self._seen_partitions.get(partition) != state:
                self._seen_partitions[partition] = state
                self._check_partition(machine, partition)

    def _check_quorum(self, broker: Broker) -> None:
        node_id, quorum = broker.node_id, broker.quorum
        if quorum.leads:
            leader = self._quorum_leaders.setdefault(quorum.epoch, node_id)
            check(leader == node_id, ONE_LEADER, f"controllers {leader} and {node_id} of epoch {quorum.epoch}")
        image = quorum.image
        if self._seen_images.get(node_id) is image or image.offset < 0:
            return
        self._seen_images[node_id] = image
        epoch = self._epochs.setdefault(image.offset, image.epoch)
        rule = "committed metadata never changes"
        check(epoch == image.epoch, rule, f"offset {image.offset} is of epoch {epoch}, on {node_id} of {image.epoch}")
        content: list[object] = [(topic.name, topic.id, topic.partitions) for topic in image.topics_by_id.values()]
        same = self._contents.setdefault(image.offset, content) == content
        check(same, rule, f"{node_id} has other topics at offset {image.offset} than others had")
        if image.offset > self.image.offset:
            before, self.image = self.image, image
            if before.topics_by_id is not image.topics_by_id:
                self._check_all_in_sync()

    def _check_partition(self, machine: Machine, partition: Partition) -> None:
        node_id = machine.settings.node_id
        epoch = (partition.topic_id, partition.index, partition.leader_epoch)
        leader = self._leaders.get(epoch)
        if leader is None:
            self._leaders[epoch] = leader = node_id
            self.elections += 1
        name = f"{partition.topic}-{partition.index}"
        check(leader == node_id, ONE_LEADER, f"{leader} and {node_id} lead {name} in epoch {partition.leader_epoch}")
        key = (node_id, machine.incarnation, epoch)
        before, watermark = self._watermarks.get(key, 0), partition.high_watermark
        if watermark != before:
            where = f"{name} on {node_id} in epoch {partition.leader_epoch}"
            check(watermark > before, "the high watermark never goes back", f"{where}: {before} to {watermark}")
            check(watermark <= partition.log_end_offset, WATERMARK, f"{where}: {watermark}, its own end is before")
            self._watermarks[key] = watermark
            place = (partition.topic_id, partition.index)
            self._highest[place] = max(self._highest.get(place, 0), watermark)
            self._check_in_sync(partition.topic_id, partition.index, where)

    def _check_in_sync(self, topic_id: UUID, index: int, where: str) -> None:
        """Everybody in sync has everything that any leader took for committed."""
        highest = self._highest.get((topic_id, index), 0)
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None or index >= len(topic.partitions):
            return
        for broker_id in topic.partitions[index].isr:
            end = self._end_offset(broker_id, topic.name, index)
            detail = f"{where}: {highest}, in-sync {broker_id} ends at {end}"
            check(end is None or highest <= end, WATERMARK, detail)

    def _check_all_in_sync(self) -> None:
        for topic_id, index in self._highest:
            self._check_in_sync(topic_id, index, f"partition {index} of {topic_id} with metadata {self.image.offset}")

    def _end_offset(self, broker_id: int, topic: str, index: int) -> int | None:
        """Where a replica's log ends, or ended when its process died; None while it is not open."""
        machine = self.machines[broker_id]
        if machine.incarnation == 0:
            return None
        log = machine.broker.logs.open_log(topic, index)
        return None if log is None else log.log_end_offset


def replica_bytes(machine: Machine, topic: str, index: int) -> bytes:
    """All batches of a replica, as they lie on its disks."""
    found = []
    for disk in machine.disks:
        for path in sorted(disk.paths()):
            folder, _, file = path.rpartition("/")
            if folder == f"{topic}-{index}" and file.endswith(".log"):
                found.append(disk.read(path, 0, disk.size(path)))
    return b"".join(found)
