"""The members of simulated groups, slot by slot, and what happens to them: they leave, die, pause and come back."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from simulator.groups.classic import ClassicMember, Strategies
from simulator.groups.consumer import ConsumerMember
from simulator.groups.history import GroupHistory
from simulator.groups.load import GroupLoad
from simulator.groups.member import Member
from simulator.groups.oddities import Oddities, Oddity

CLASSIC, CONSUMER = "classic", "consumer"
ABSENCE_MS_MAX = 3_000
BIRTH_MS_MAX = 1_500
STATIC_PROBABILITY = 0.25
ONE_TOPIC_PROBABILITY = 0.3


class MemberSlot:
    """Room for one process at a time; a static member's instance id belongs to it.

    Args:
        protocols: of the process in this slot, one of these; each process another, if they are several.

    Attributes:
        member: the process. retired: earlier ones of a static member that ran on when they were replaced.
        client_id: None: the process's name. strategies: what classic members offer.
        first: the protocol of the first process, if that is not left to chance. late_ms: it comes so much later.
    """

    def __init__(
        self,
        load: GroupLoad,
        history: GroupHistory,
        name: str,
        topics: Sequence[str],
        protocols: Sequence[str],
        *,
        cooperative: bool,
    ) -> None:
        self.load = load
        self.history = history
        self.name = name
        self.topics = topics
        self.protocols = protocols
        self.cooperative = cooperative
        self.random = load.clients.simulation.random
        self.instance_id = self._usual_instance_id = name if self.random.random() < STATIC_PROBABILITY else None
        self.client_id: str | None = None
        self.strategies = Strategies.ONE
        self.first: str | None = None
        self.late_ms = 0
        self.member: Member | None = None
        self.retired: list[Member] = []
        # In a stable classic group nobody notices that a static member comes back with other topics (KIP-345).
        self._wanted = self._choose()
        self._born = 0

    def _choose(self) -> list[str]:
        return [self.random.choice(self.topics)] if self.random.random() < ONE_TOPIC_PROBABILITY else list(self.topics)

    def be_odd(self, oddities: Oddities) -> None:
        """This is the slot that the seed's oddity is about."""
        if oddities.kind is Oddity.LONG_CLIENT_ID:
            self.client_id = oddities.long(self.name)
        elif oddities.kind is Oddity.LONG_INSTANCE_ID:
            self.instance_id = oddities.long(self.name)
        elif oddities.kind is Oddity.UNREADABLE:
            self.strategies = Strategies.UNREADABLE
            self.late_ms = BIRTH_MS_MAX

    def be_usual(self) -> None:
        """Who comes next is as all others."""
        self.client_id, self.instance_id = None, self._usual_instance_id
        if self.strategies is Strategies.UNREADABLE:
            self.strategies = Strategies.TWO

    def fill(self) -> None:
        """A new process starts, unless there is one."""
        if self.load.over or (self.member is not None and self.member.alive):
            return
        if self.member is not None and self.member.unwelcome:
            self.be_usual()
        self._born += 1
        topics = self._wanted if self.instance_id is not None else self._choose()
        name = f"{self.name}-{self._born}"
        protocol = self.random.choice(self.protocols)
        if self.strategies is Strategies.UNREADABLE:
            protocol = CLASSIC
        elif self.first is not None and self._born == 1:
            protocol = self.first
        self.load.clients.simulation.trace(f"{name} starts: {protocol}, {topics}")
        if protocol == CONSUMER:
            self.member = ConsumerMember(
                self.load, self.history, name, topics, self.instance_id, client_id=self.client_id
            )
        else:
            self.member = ClassicMember(
                self.load,
                self.history,
                name,
                topics,
                self.instance_id,
                client_id=self.client_id,
                cooperative=self.cooperative and self.strategies is Strategies.ONE,
                strategies=self.strategies,
            )
        self.member.start()


class Group:
    """One group of the load."""

    def __init__(
        self,
        load: GroupLoad,
        group_id: str,
        topics: Sequence[str],
        protocols: Sequence[str],
        size: int,
        *,
        cooperative: bool,
    ) -> None:
        self.load = load
        self.history = GroupHistory(group_id, one_protocol=len(set(protocols)) == 1)
        self.topics = topics
        self.slots = [
            MemberSlot(load, self.history, f"{group_id}-{number}", topics, protocols, cooperative=cooperative)
            for number in range(size)
        ]

    def be_odd(self, oddities: Oddities) -> None:
        """This is the group that the seed's oddity is about."""
        odd = oddities.random.choice(self.slots)
        if oddities.kind is Oddity.UNREADABLE:
            alone = oddities.random.choice([slot for slot in self.slots if slot is not odd])
            for slot in self.slots:
                slot.strategies = Strategies.TWO
                slot.first = CONSUMER if slot is alone else CLASSIC
        odd.be_odd(oddities)

    @property
    def members(self) -> list[Member]:
        """The processes that live."""
        found = [member for slot in self.slots for member in (slot.member, *slot.retired) if member is not None]
        return [member for member in found if member.alive]

    def unsettled(self, end: Callable[[str, int], int | None]) -> list[str]:
        """What is missing until each partition has one owner, who has read and committed all of it."""
        found = []
        image = self.load.image
        subscribed = {topic for member in self.members for topic in member.topics}
        for topic in sorted(subscribed):
            for index in range(len(image.topics_by_name[topic].partitions)):
                place = (topic, index)
                owners = [member for member in self.members if place in member.ownerships]
                if len(owners) != 1:
                    found.append(f"{self.history.group_id}: {place} belongs to {owners}")
                    continue
                at, last = owners[0].committed.get(place), end(topic, index)
                if last is None or at is None or max(0, at) != last:
                    found.append(f"{self.history.group_id}: {owners[0]} has committed {at} of {last} in {place}")
        return found


class Churn:
    """Has things happen to the members, from `begin` to `end`."""

    def __init__(self, load: GroupLoad, groups: Sequence[Group], interval_ms: tuple[int, int]) -> None:
        self.load = load
        self.groups = groups
        self.interval_ms = interval_ms
        self.happened: dict[str, int] = {}
        self._going_on = False
        self._simulation = load.clients.simulation
        self._random = self._simulation.random

    def begin(self) -> None:
        """All slots are filled, one after the other; then things happen."""
        self._going_on = True
        for group in self.groups:
            for slot in group.slots:
                self._simulation.after_ms(self._random.randrange(BIRTH_MS_MAX) + slot.late_ms, slot.fill)
        self._wait()

    def end(self) -> None:
        """Everybody comes back, and nothing happens any more."""
        self._going_on = False
        self.load.patient = True
        for group in self.groups:
            for slot in group.slots:
                for member in slot.retired:
                    member.die()
                if slot.strategies is Strategies.UNREADABLE and slot.member is not None:
                    slot.member.die()
                    slot.be_usual()

    def fill(self) -> None:
        """Starts the members that are not there."""
        for group in self.groups:
            for slot in group.slots:
                if slot.member is not None:
                    slot.member.leaving = False
                slot.fill()

    def _wait(self) -> None:
        self._simulation.after_ms(self._random.randint(*self.interval_ms), self._next)

    def _next(self) -> None:
        if not self._going_on:
            return
        slot = self._random.choice([slot for group in self.groups for slot in group.slots])
        kinds = [self._dies, self._leaves, self._stands_still, self._stands_still]
        kind = self._random.choice(kinds if slot.instance_id is None else [*kinds, self._is_replaced])
        member = slot.member
        if member is None or not member.alive:
            slot.fill()
        else:
            self.happened[kind.__name__] = self.happened.get(kind.__name__, 0) + 1
            kind(slot, member)
        self._wait()

    def _comes_back(self, slot: MemberSlot) -> None:
        self._simulation.after_ms(self._random.randrange(ABSENCE_MS_MAX), slot.fill)

    def _dies(self, slot: MemberSlot, member: Member) -> None:
        self._simulation.trace(f"{member.name} dies")
        member.die()
        self._comes_back(slot)

    def _leaves(self, slot: MemberSlot, member: Member) -> None:
        self._simulation.trace(f"{member.name} is to leave")
        member.leaving = True
        self._simulation.after_ms(ABSENCE_MS_MAX, lambda: self._comes_back(slot))

    def _stands_still(self, slot: MemberSlot, member: Member) -> None:
        duration_ms = self._random.randrange(2 * self.load.session_ms)
        self._simulation.trace(f"{member.name} stands still for {duration_ms} ms")
        member.pause(duration_ms)

    def _is_replaced(self, slot: MemberSlot, member: Member) -> None:
        """Somebody starts the process a second time, while the first one still runs, or stands still."""
        self._simulation.trace(f"{member.name} stands still, and is replaced")
        member.pause(self._random.randrange(2 * self.load.session_ms))
        member.replaced = True
        slot.retired.append(member)
        slot.member = None
        self._simulation.after_ms(self._random.randrange(500), slot.fill)
