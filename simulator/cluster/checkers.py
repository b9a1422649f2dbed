"""Rules that a cluster keeps at every step, checked from outside, with a view of all nodes at once.

`ClusterChecker.check(machine)` runs after each event of a machine's loop and looks at that node only, as far as it has
changed:

- one leader an epoch: of a partition, and of the metadata quorum; a leader's high watermark never goes back;
- no leader's high watermark, of whichever epoch, is beyond the log end of any in-sync or eligible replica, as the
  newest committed metadata has them: so it is waited for who is being added, and nobody is elected who lacks anything,
  but for the topic in which leaders are elected uncleanly, whose new leader's high watermark counts from then on;
- a high watermark does not move while fewer are in sync than the topic asks for, as far as its leader knows, and where
  others are eligible, as the metadata said when that was decided; nor beyond what the leader's maximal ISR holds;
- nobody is elected who was neither in sync nor eligible, but for the last known leader where such are not left;
- nobody waits for what the high watermark has reached;
- committed metadata has one epoch and one content at each offset, on every node.

`simulator.cluster.replica_rules` has what is looked at now and then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from penstock.metadata.brokers import RESERVED_DIRECTORIES
from penstock.metadata.image import EMPTY_IMAGE, NO_LEADER, MetadataImage, PartitionRegistration, TopicImage
from penstock.metadata.partition_change import RECOVERING
from penstock.node.broker import Broker
from penstock.replication.partition import Partition
from simulator.cluster.chaos_admins import WILD
from simulator.cluster.replica_rules import QuorumRules, check_waiting
from simulator.world.checks import check
from simulator.world.machine import Machine

ONE_LEADER = "one leader an epoch"
WATERMARK = "the high watermark is not beyond an in-sync replica"
MINIMUM = "the high watermark stands still below the minimum"
MAXIMAL = "the high watermark is not beyond the maximal ISR"
ELECTED = "who is elected was in sync or eligible"

MIN_IN_SYNC = "min.insync.replicas"

PartitionEpoch = tuple[UUID, int, int]


class ClusterChecker:
    """See the module's head.

    Attributes:
        image: the newest committed metadata that any node has.
        elections: leader epochs of partitions in which somebody led.
        elected_uncleanly: told of partitions of the topic WILD whose leader may lack what was committed.
    """

    def __init__(self, machines: Sequence[Machine]) -> None:
        self.machines = {machine.settings.node_id: machine for machine in machines}
        self.image: MetadataImage = EMPTY_IMAGE
        self.elections = 0
        self.elected_uncleanly: Callable[[str, int], None] = lambda topic, index: None
        self._leaders: dict[PartitionEpoch, int] = {}
        self._watermarks: dict[tuple[int, int, PartitionEpoch], int] = {}
        self._highest: dict[tuple[UUID, int], int] = {}
        self._unclean_epochs: dict[tuple[UUID, int], int] = {}
        self._minimums: dict[tuple[UUID, int, int], int] = {}
        self.quorum_rules = QuorumRules(machines)
        self._quorum_leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        self._contents: dict[int, list[object]] = {}
        self._seen_images: dict[int, MetadataImage] = {}
        self._seen_partitions: dict[Partition, tuple[int, int, int]] = {}

    def highest_watermark(self, topic: str, index: int) -> int:
        """The highest that a partition's high watermark was on any of its leaders."""
        found = self.image.topics_by_name.get(topic)
        return 0 if found is None else self._highest.get((found.id, index), 0)

    def check(self, machine: Machine) -> None:
        """Looks at a node after one of its events."""
        broker = machine.broker
        same_image = self._seen_images.get(broker.node_id) is broker.quorum.image
        self._check_quorum(broker)
        for partition in broker.replicas.leading():
            state = partition.leader_epoch, partition.high_watermark, partition.isr.partition_epoch
            before = self._seen_partitions.get(partition)
            if before != state:
                self._seen_partitions[partition] = state
                isr_unchanged = same_image and before is not None and before[2] == partition.isr.partition_epoch
                self._check_partition(machine, partition, isr_unchanged=isr_unchanged)

    def _check_quorum(self, broker: Broker) -> None:
        node_id, quorum = broker.node_id, broker.quorum
        if quorum.leads:
            if quorum.epoch not in self._quorum_leaders:
                self.quorum_rules.elected(self.machines[node_id], quorum.epoch)
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
                for topic in image.topics_by_id.values():
                    self._look_at(topic, before)
                self._check_all_in_sync()

    def _look_at(self, topic: TopicImage, image_before: MetadataImage) -> None:
        """Looks at what has changed of a topic's partitions."""
        known = image_before.topics_by_id.get(topic.id)
        if known is topic:
            return
        same_config = image_before.topic_configs(topic.name) == self.image.topic_configs(topic.name)
        for index, now in enumerate(topic.partitions):
            if known is None or index >= len(known.partitions) or now is known.partitions[index]:
                continue
            before = known.partitions[index]
            if not now.elr:
                self._minimums.pop((topic.id, index, now.partition_epoch), None)
            elif same_config and now.partition_epoch != before.partition_epoch:
                self._minimums[topic.id, index, now.partition_epoch] = minimum_of(self.image, topic.name)
            if topic.name == WILD:
                self._look_at_wild(topic.id, index, before, now)
            elif (
                now.partition_epoch == before.partition_epoch + 1
                and now.leader not in (NO_LEADER, before.leader)
                and now.replicas
                == before.replicas  # else a reassignment ends, and whoever comes in sync by it may lead
            ):
                eligible = (*before.isr, *before.elr)
                if now.leader not in eligible and now.leader_recovery_state == RECOVERING:
                    # Who registers in the same change may have stopped uncleanly, and be eligible no more.
                    eligible = tuple(
                        each for each in eligible if epoch_of(each, self.image) == epoch_of(each, image_before)
                    )
                    eligible = eligible or before.last_known_elr
                detail = f"{topic.name}-{index}: {now.leader} leads epoch {now.leader_epoch} after {eligible}"
                check(now.leader in eligible, ELECTED, detail)

    def _look_at_wild(
        self, topic_id: UUID, index: int, before: PartitionRegistration, now: PartitionRegistration
    ) -> None:
        """Takes note of unclean elections: nothing of earlier leader epochs binds who leads from then on."""
        unseen = now.partition_epoch > before.partition_epoch + 1 and now.leader_epoch > before.leader_epoch
        if now.leader_recovery_state == RECOVERING or unseen:
            self._unclean_epochs[topic_id, index] = now.leader_epoch
            self._highest.pop((topic_id, index), None)
            self.elected_uncleanly(WILD, index)

    def _check_partition(self, machine: Machine, partition: Partition, *, isr_unchanged: bool) -> None:
        """Checks a partition. Where an event changes who is in sync too, the high watermark may have moved before or by
        that change, so whether it may move is checked only with `isr_unchanged`.
        """
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
            check_waiting(partition, where)
            if isr_unchanged and partition.isr.followers:
                self._check_may_move(machine, partition, where)
            place = (partition.topic_id, partition.index)
            if partition.leader_epoch < self._unclean_epochs.get(place, 0):
                return
            self._highest[place] = max(self._highest.get(place, 0), watermark)
            self._check_in_sync(partition.topic_id, partition.index, where)

    def _check_may_move(self, machine: Machine, partition: Partition, where: str) -> None:
        """A high watermark has moved: enough were in sync, and all of them, and who is about to be, have it."""
        decided = self._minimums.get((partition.topic_id, partition.index, partition.isr.partition_epoch), 0)
        minimum = max(decided, minimum_of(machine.broker.quorum.image, partition.topic))
        have, need = len(partition.isr.committed), min(minimum, len(partition.isr.replicas))
        check(have >= need, MINIMUM, f"{where}: to {partition.high_watermark}, {have} in sync of {need}")
        newest = self.image.partition(partition.topic, partition.index)
        if newest is None or newest.leader_epoch != partition.leader_epoch:
            return
        for broker_id in partition.isr.maximal:
            follower = partition.isr.followers.get(broker_id)
            member = self.machines[broker_id]
            if follower is None or member.incarnation == 0:
                continue
            if follower.broker_epoch != member.broker.state.broker_epoch:
                continue  # it has died since, and may have lost what it had: the leader cannot know that yet
            end = self._end_offset(broker_id, partition.topic, partition.index)
            detail = f"{where}: {partition.high_watermark}, {broker_id} ends at {end}"
            check(end is None or partition.high_watermark <= end, MAXIMAL, detail)

    def _check_in_sync(self, topic_id: UUID, index: int, where: str) -> None:
        """Everybody in sync or eligible has everything that any leader took for committed."""
        highest = self._highest.get((topic_id, index), 0)
        topic = self.image.topics_by_id.get(topic_id)
        if topic is None or index >= len(topic.partitions):
            return
        partition = topic.partitions[index]
        for broker_id in (*partition.isr, *(each for each in partition.elr if self._is_registered(each))):
            if self._lacks_directory(broker_id, partition):
                continue
            end = self._end_offset(broker_id, topic.name, index)
            detail = f"{where}: {highest}, in-sync or eligible {broker_id} ends at {end}"
            check(end is None or highest <= end, WATERMARK, detail)

    def _lacks_directory(self, broker_id: int, partition: PartitionRegistration) -> bool:
        """Whether the directory that holds a replica is gone from its broker: what it has made in another is empty, and
        cannot be elected."""
        registered, directory = self.image.brokers.get(broker_id), partition.directory(broker_id)
        if registered is None or directory is None or directory.int in RESERVED_DIRECTORIES:
            return False
        return directory not in registered.log_dirs

    def _is_registered(self, broker_id: int) -> bool:
        """Whether a broker's process, or its last one, is the one that is registered; another one may have lost what
        this one had, and is not eligible any more once it is registered."""
        machine, registered = self.machines[broker_id], self.image.brokers.get(broker_id)
        if machine.incarnation == 0 or registered is None:
            return False
        return machine.broker.state.broker_epoch == registered.epoch

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


def epoch_of(broker_id: int, image: MetadataImage) -> int:
    """The broker epoch that is registered."""
    broker = image.brokers.get(broker_id)
    return -1 if broker is None else broker.epoch


def minimum_of(image: MetadataImage, topic: str) -> int:
    """A topic's own min.insync.replicas."""
    return int(image.topic_configs(topic).get(MIN_IN_SYNC, "1"))
