"""Rules for what the controller decides, each looked at in the change that it makes to a partition.

What breaks one of them may lose nothing in this run: a second fault would have to come at the right moment. So the
decision itself is looked at, with a view of all nodes at once:

- who joins the in-sync replicas has reached the start of its leader's epoch;
- a reassignment is complete when all who were added are in sync;
- nobody is fenced for standing still who has moved within FROZEN_MS, whatever the network does;
- nobody is elected who was dead before the controller came to office, while somebody else could lead that it has heard.

A change is judged if the newest image has it alone: of several at once nobody knows what was decided upon. Nor is one
that comes with the first record of a new controller: its predecessor may have decided it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from penstock.metadata.image import EMPTY_IMAGE, MetadataImage, PartitionRegistration, TopicImage
from simulator.world.checks import check
from simulator.world.machine import Machine

JOINS = "who joins the in-sync replicas has reached the start of the leader's epoch"
REASSIGNED = "a reassignment is complete when all who were added are in sync"
FROZEN = "nobody who lives is taken for frozen"
FROZEN_MS = 1_000
"""A process that did nothing for so long may be fenced before its session ends."""
HEARD = "nobody is elected whom the controller never heard, while others can lead"


class DecisionChecker:
    """See the module's head. `check` is called after each event of a machine, `ended` when its process is gone."""

    def __init__(self, machines: Sequence[Machine], now_ms: Callable[[], int]) -> None:
        self.machines: Mapping[int, Machine] = {machine.settings.node_id: machine for machine in machines}
        self.judged = 0
        self._now_ms = now_ms
        self._image: MetadataImage = EMPTY_IMAGE
        self._terms: dict[int, tuple[int, int]] = {}
        self._unheard: dict[int, list[tuple[int, frozenset[int]]]] = {}
        self._ended_ms: dict[int, int] = {}
        self._found: dict[int, tuple[int, int]] = {}
        self.frozen = 0

    def ended(self, machine: Machine) -> None:
        """A process is gone: it has died, or a clean stop is over."""
        self._ended_ms[machine.settings.node_id] = self._now_ms()

    def check(self, machine: Machine) -> None:
        """Looks at what a node knows after one of its events."""
        self._check_frozen(machine)
        quorum = machine.broker.quorum
        if quorum.leads and quorum.epoch not in self._terms:
            self._terms[quorum.epoch] = (machine.settings.node_id, self._now_ms())
        if machine.broker.controller.active:
            self._note_unheard(machine)
        image = quorum.image
        if image.offset <= self._image.offset:
            return
        before, self._image = self._image, image
        if before.topics_by_id is image.topics_by_id or before.epoch != image.epoch:
            return
        for topic in image.topics_by_id.values():
            earlier = before.topics_by_id.get(topic.id)
            if earlier is not None and earlier is not topic:
                self._look_at(earlier, topic)

    def _note_unheard(self, machine: Machine) -> None:
        """Keeps whom a controller has not heard, with where its log ended when that changed."""
        quorum = machine.broker.quorum
        unheard = frozenset(machine.broker.controller.state.unheard)
        noted = self._unheard.setdefault(quorum.epoch, [])
        if not noted or noted[-1][1] != unheard:
            noted.append((quorum.next_offset, unheard))

    def _unheard_when_decided(self) -> frozenset[int] | None:
        """Whom the controller had not heard before the event in which it wrote the newest record, if that is known.

        A record is looked at when somebody has applied it, a while after it was decided.
        """
        before = [unheard for end, unheard in self._unheard[self._image.epoch] if end <= self._image.offset]
        return before[-1] if before else None

    def _check_frozen(self, machine: Machine) -> None:
        """A controller takes a broker for frozen: its process has done nothing for a while."""
        incarnation, found = machine.incarnation, machine.broker.calls.frozen.found
        if (incarnation, found) == self._found.setdefault(machine.settings.node_id, (incarnation, 0)) or not found:
            return
        self._found[machine.settings.node_id] = (incarnation, found)
        self.frozen += 1
        accused = self.machines[machine.broker.calls.frozen.last_found]
        idle_ms = (accused.simulation.now_us - accused.moved_us) // 1_000
        check(idle_ms >= FROZEN_MS or not accused.running, FROZEN, f"{accused.host} moved {idle_ms} ms ago")

    def _look_at(self, before: TopicImage, after: TopicImage) -> None:
        for index, (old, new) in enumerate(zip(before.partitions, after.partitions, strict=False)):
            if new is not old and new.partition_epoch == old.partition_epoch + 1:
                self.judged += 1
                where = f"{after.name}-{index}"
                self._check_joining(after.name, index, old, new, where)
                self._check_reassigned(old, new, where)
                self._check_elected(old, new, where)

    def _check_joining(
        self, topic: str, index: int, old: PartitionRegistration, new: PartitionRegistration, where: str
    ) -> None:
        leader = self._living(new.leader)
        if leader is None or new.leader_epoch != old.leader_epoch:
            return
        leading = next(
            (each for each in leader.broker.replicas.leading() if (each.topic, each.index) == (topic, index)), None
        )
        if leading is None or leading.leader_epoch != new.leader_epoch:
            return
        for broker_id in set(new.isr) - set(old.isr):
            machine = self._living(broker_id)
            log = None if machine is None else machine.broker.logs.open_log(topic, index)
            if log is not None:
                end, start = log.log_end_offset, leading.isr.epoch_start_offset
                detail = f"{where}: {broker_id} ends at {end}, epoch {new.leader_epoch} began at {start}"
                check(end >= start, JOINS, detail)

    def _check_reassigned(self, old: PartitionRegistration, new: PartitionRegistration, where: str) -> None:
        staying = {each for each in old.replicas if each not in old.removing_replicas}
        is_complete = (
            (old.adding_replicas or old.removing_replicas)
            and not (new.adding_replicas or new.removing_replicas)
            and set(new.replicas) == staying
        )
        missing = set(old.adding_replicas) - set(old.removing_replicas) - set(new.isr)
        check(not (is_complete and missing), REASSIGNED, f"{where}: {sorted(missing)} of {new.replicas} are not")

    def _check_elected(self, old: PartitionRegistration, new: PartitionRegistration, where: str) -> None:
        if new.leader < 0 or new.leader == old.leader or self._image.epoch not in self._terms:
            return
        controller_id, since_ms = self._terms[self._image.epoch]
        elected = self.machines[new.leader]
        if elected.running or self._ended_ms.get(new.leader, since_ms) >= since_ms:
            return
        controller = self.machines[controller_id]
        if not controller.running or not controller.broker.controller.active:
            return
        unheard, state = self._unheard_when_decided(), controller.broker.controller.state
        if unheard is None:
            return
        others = [
            each
            for each in old.isr
            if each != new.leader
            and each not in unheard
            and self._could_lead(each)
            and state.has_online_directory(each, old.directory(each))
        ]
        check(not others, HEARD, f"{where}: {new.leader} leads, {others} could")

    def _living(self, broker_id: int) -> Machine | None:
        """The machine of a broker whose process is the one that is registered."""
        machine, registered = self.machines.get(broker_id), self._image.brokers.get(broker_id)
        if machine is None or registered is None or not machine.running:
            return None
        return machine if machine.broker.state.broker_epoch == registered.epoch else None

    def _could_lead(self, broker_id: int) -> bool:
        registered = self._image.brokers.get(broker_id)
        return registered is not None and registered.active and self._living(broker_id) is not None
