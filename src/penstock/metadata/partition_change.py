"""The one place that decides how a partition changes: its leader, in-sync and eligible replicas, and reassignment.

Every reason for a change (a broker came or went, AlterPartition, an election, a reassignment, a directory) says what it
wants; the rest follows here, always in the same order, as in Kafka's PartitionChangeBuilder:

1. a reassignment whose new replicas are in sync is completed;
2. eligible leader replicas are those that left the in-sync replicas below `min.insync.replicas` (KIP-966);
3. the leader stays or is elected: from the in-sync replicas, else (none left) from the eligible ones, else the last
   known leader, else, if allowed, any live one;
4. the leader epoch rises when the leader changes or replicas are removed.

The in-sync replicas are never emptied unless eligible leader replicas are on: then the last one that leaves becomes
eligible instead.

Unlike Kafka's, a controller that has just taken over does not leave a partition only to brokers that it has not heard
from yet (`Controller.unheard`), and does not prefer one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from penstock.metadata.image import NO_LEADER, NO_LEADER_CHANGE, PartitionRegistration, TopicImage
from penstock.metadata.partitions import default_directory
from penstock.protocol.messages.metadata.partition_change_record import PartitionChangeRecord

if TYPE_CHECKING:
    from penstock.metadata.controller import Controller

RECOVERED, RECOVERING = 0, 1

Acceptable = Callable[[int], bool]


def changed_partition(
    controller: Controller,
    topic: TopicImage,
    index: int,
    *,
    acceptable: Acceptable | None = None,
    isr: Sequence[int] | None = None,
    replicas: tuple[int, ...] | None = None,
    removing: tuple[int, ...] | None = None,
    adding: tuple[int, ...] | None = None,
    directory: tuple[int, UUID] | None = None,
    recovery_state: int | None = None,
    unclean_shutdown: int | None = None,
    preferred: bool = False,
    unclean: bool = False,
    may_wait: bool = False,
) -> PartitionChangeRecord | None:
    """The change of one partition, or None when nothing changes. What is not given stays as it is.

    Args:
        acceptable: which brokers may lead; by default those that are active.
        isr, replicas, removing, adding: the wanted lists.
        directory: a broker and the log directory that it keeps its replica in.
        recovery_state: RECOVERED or RECOVERING.
        unclean_shutdown: a broker that may have lost records, so it is not eligible.
        preferred: the first replica is elected if it is in sync, even if another leads well.
        unclean: a replica that is not in sync may be elected when there is no other.
        may_wait: nothing changes while the partition would fall to brokers that have not been heard of.
    """
    change = _Change(controller, topic, index, acceptable, unclean_shutdown)
    if isr is not None:
        change.isr = tuple(isr)
    if replicas is not None:
        change.replicas = replicas
    if removing is not None:
        change.removing = removing
    if adding is not None:
        change.adding = adding
    if directory is not None:
        change.directory = directory
    if recovery_state is not None:
        change.recovery_state = recovery_state
    return change.build(preferred=preferred, unclean=unclean, may_wait=may_wait)


class _Change:
    """A partition before and after a change."""

    __slots__ = (
        "acceptable", "adding", "controller", "directory", "elr", "elr_enabled", "index", "isr", "partition",
        "recovery_state", "removing", "replicas", "topic", "unclean_shutdown", "unheard",
    )  # fmt: skip

    def __init__(
        self,
        controller: Controller,
        topic: TopicImage,
        index: int,
        acceptable: Acceptable | None,
        unclean_shutdown: int | None,
    ) -> None:
        partition = topic.partitions[index]
        self.controller = controller
        self.topic = topic
        self.index = index
        self.partition: PartitionRegistration = partition
        self.acceptable: Acceptable = acceptable or controller.is_active
        self.unclean_shutdown = unclean_shutdown
        self.isr = partition.isr
        self.elr = partition.elr
        self.replicas = partition.replicas
        self.removing = partition.removing_replicas
        self.adding = partition.adding_replicas
        self.directory: tuple[int, UUID] | None = None
        self.recovery_state = partition.leader_recovery_state
        self.elr_enabled = controller.elr_enabled
        self.unheard = controller.unheard

    def build(self, *, preferred: bool, unclean: bool, may_wait: bool) -> PartitionChangeRecord | None:
        before = self.partition
        record = PartitionChangeRecord(partition_id=self.index, topic_id=self.topic.id)
        self._complete_reassignment()
        self._find_eligible()
        if may_wait and self._awaits_unheard():
            return None
        leader, recovers = self._elect(preferred=preferred, unclean=unclean)
        if leader != before.leader:
            self._take_over(record, leader, recovers)
        elif self.replicas is not before.replicas and not set(before.replicas) <= set(self.replicas):
            record.leader = leader
        self._set_replicas_in_sync(record)
        self._set_assignment(record)
        if self.recovery_state != before.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if is_nothing(record) else record

    def _complete_reassignment(self) -> None:
        """Drops the replicas that go once those that come are in sync; if fewer come than go, once all that stay."""
        if not self.removing and not self.adding:
            return
        isr = tuple(each for each in self.isr if each not in self.removing)
        replicas = tuple(each for each in self.replicas if each not in self.removing)
        awaited = {each for each in self.adding if each not in self.removing}
        if len(self.adding) < len(self.removing):
            awaited |= set(replicas)
        if isr and replicas and awaited <= set(isr) and not self.unheard.issuperset(isr):
            self.isr, self.replicas = isr, replicas
            self.removing = self.adding = ()

    def _find_eligible(self) -> None:
        """The replicas not in sync that still have everything committed: those that left below the minimum."""
        if not self.elr_enabled:
            self.elr = ()
            return
        if self._enough_in_sync():
            self.elr = ()
        else:
            candidates = {*self.elr, *self.partition.isr} - {*self.isr} - {self.unclean_shutdown}
            self.elr = tuple(sorted(each for each in candidates if each is not None and each in self.replicas))

    def _enough_in_sync(self) -> bool:
        """Whether the high watermark advances: then replicas that are not in sync will soon lack records."""
        minimum = min(self.controller.min_insync_replicas(self.topic.name), len(self.topic.partitions[0].replicas))
        return len(self.isr) >= minimum

    def _elect(self, *, preferred: bool, unclean: bool) -> tuple[int, bool]:
        """The new or continuing leader, and whether it has to recover because it may lack records."""
        current = self.partition.leader
        order: tuple[int, ...] = (current, *self.replicas)
        if preferred and self.replicas[0] not in self.unheard:
            order = (self.replicas[0], *order)
        candidates = [broker_id for broker_id in order if self._may_lead(broker_id)]
        for broker_id in candidates:
            if broker_id == current or broker_id not in self.unheard:
                return broker_id, False
        if candidates:
            return candidates[0], False
        last_known = self._last_known_leader()
        if last_known is not None:
            return last_known, True
        if unclean:
            for broker_id in self.replicas:
                if self._acceptable(broker_id):
                    return broker_id, True
        return NO_LEADER, False

    def _awaits_unheard(self) -> bool:
        """Whether a broker has to be heard of before it is decided who leads: no other is left that could, or it comes
        first and has had no time yet."""
        if not self.unheard:
            return False
        current = self.partition.leader
        candidates = [broker_id for broker_id in (current, *self.replicas) if self._may_lead(broker_id)]
        if not candidates or self.unheard.issuperset(candidates):
            return bool(candidates)
        first = candidates[0]
        return self.controller.patient and first != current and first in self.unheard

    def _may_lead(self, broker_id: int) -> bool:
        complete = self.isr or self.elr
        return broker_id in complete and self._acceptable(broker_id)

    def _acceptable(self, broker_id: int) -> bool:
        """Whether a broker may lead and the directory of its replica is online."""
        if broker_id < 0 or not self.acceptable(broker_id):
            return False
        told = self.directory
        directory = self.partition.directory(broker_id) if told is None or told[0] != broker_id else told[1]
        return self.controller.has_online_directory(broker_id, directory)

    def _last_known_leader(self) -> int | None:
        """The last known leader, if neither an in-sync nor an eligible replica is left."""
        known = self.partition.last_known_elr
        if not self.elr_enabled or self.isr or self.elr or len(known) != 1:
            return None
        return known[0] if known[0] in self.replicas and self._acceptable(known[0]) else None

    def _take_over(self, record: PartitionChangeRecord, leader: int, recovers: bool) -> None:
        record.leader = leader
        if leader in self.elr:
            self.isr = (leader,)
            self.elr = () if self._enough_in_sync() else tuple(each for each in self.elr if each != leader)
        if recovers:
            self.isr, self.elr = (leader,), ()
            self.recovery_state = RECOVERING

    def _set_replicas_in_sync(self, record: PartitionChangeRecord) -> None:
        before = self.partition
        if not self.isr and not self.elr_enabled:
            self.isr = before.isr
        if self.isr != before.isr:
            record.isr = list(self.isr)
        if self.elr != before.elr:
            record.eligible_leader_replicas = list(self.elr)
        if not self.elr_enabled:
            return
        if record.leader == NO_LEADER != before.leader and not before.last_known_elr:
            record.last_known_elr = [before.leader]
        elif before.leader == NO_LEADER and self._is_the_last_lost():
            record.last_known_elr = list(before.isr or before.elr)
        elif record.leader >= 0 and before.last_known_elr:
            record.last_known_elr = []

    def _is_the_last_lost(self) -> bool:
        """Whether nobody is left who has everything, and nothing tells yet who had it last: the feature was off when
        the leader was lost, and that is forgotten with it."""
        before = self.partition
        return not self.isr and not self.elr and not before.last_known_elr and len(before.isr or before.elr) == 1

    def _set_assignment(self, record: PartitionChangeRecord) -> None:
        before = self.partition
        if self.replicas != before.replicas:
            record.replicas = list(self.replicas)
        if self.replicas != before.replicas or self.directory is not None:
            directories = [self._directory(each) for each in self.replicas]
            if tuple(directories) != before.directories:
                record.directories = directories
        if self.removing != before.removing_replicas:
            record.removing_replicas = list(self.removing)
        if self.adding != before.adding_replicas:
            record.adding_replicas = list(self.adding)

    def _directory(self, broker_id: int) -> UUID:
        if self.directory is not None and self.directory[0] == broker_id:
            return self.directory[1]
        kept = self.partition.directory(broker_id)
        return default_directory(self.controller.image.brokers.get(broker_id)) if kept is None else kept


def is_nothing(record: PartitionChangeRecord) -> bool:
    """Whether a change changes nothing."""
    return (
        record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state == -1
        and all(
            value is None
            for value in (
                record.isr,
                record.replicas,
                record.removing_replicas,
                record.adding_replicas,
                record.directories,
                record.eligible_leader_replicas,
                record.last_known_elr,
            )
        )
    )
