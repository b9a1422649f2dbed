"""The world of `support.replication_world` with eligible leader replicas (KIP-966), and minimums that change.

The last replica in sync may leave; who leaves below min.insync.replicas is eligible, until enough are in sync again, it
loses its power, or the minimum changes while somebody is in sync. `check` holds eligible replicas to what those in sync
are held to.
"""

from __future__ import annotations

from random import Random

from penstock.metadata.image import NO_LEADER, PartitionRegistration
from support.replication_world import ACTIONS, BROKERS, Machine, World


class EligibleWorld(World):
    """See the module's head."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.actions = (*ACTIONS, (EligibleWorld.change_minimum, 6))

    def may_leave(self, partition: PartitionRegistration) -> bool:
        return True

    def set_in_sync(self, isr: tuple[int, ...]) -> None:
        partition = self.state.partition
        elr = () if self.is_enough(isr) else tuple(sorted({*partition.elr, *partition.isr} - {*isr}))
        self.alter(isr=isr, elr=elr)

    def is_enough(self, isr: tuple[int, ...]) -> bool:
        return len(isr) >= self.min_insync_replicas

    def elect(self, *, by_force: bool = False) -> None:
        """Out of the in-sync replicas; when there is none, out of the eligible ones."""
        partition = self.state.partition
        if partition.isr:
            super().elect(by_force=by_force)
            return
        fit = [each for each in partition.elr if not self.state.brokers[each].fenced]
        leader = self.random.choice(fit) if fit else NO_LEADER
        if leader != partition.leader:
            changes = {}
            if leader != NO_LEADER:
                isr = (leader,)
                elr = () if self.is_enough(isr) else tuple(each for each in partition.elr if each != leader)
                changes = {"isr": isr, "elr": elr}
            self.alter(leader=leader, leader_epoch=partition.leader_epoch + 1, **changes)

    def lost_power(self, broker_id: int) -> None:
        self.alter(elr=tuple(each for each in self.state.partition.elr if each != broker_id))

    def change_minimum(self, machine: Machine) -> None:
        """Forgets who is eligible, unless nobody is in sync; no new partition epoch says so."""
        self.min_insync_replicas = self.random.randint(1, len(BROKERS))
        partition = self.state.partition
        self.change(partition.with_(elr=()) if partition.isr else partition)
