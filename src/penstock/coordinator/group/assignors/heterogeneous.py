"""The uniform assignor where members subscribe to different topics: balance as far as the subscriptions allow.

1. Everybody keeps what it has, of the topics that it still subscribes to.
2. The free partitions go, topic by topic, to the subscriber with the fewest partitions. Topics with many partitions a
   subscriber come first.
3. Topic by topic, partitions move from the subscribers with the most to those with the fewest, again and again until a
   whole round changes nothing, or ROUNDS_MAX is reached.

`Levels` makes 2 and 3 cheap: it holds the subscribers of one topic in the order of how much they have, and walks from
both ends, level by level, without ever sorting again.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from penstock.coordinator.group.assignors.spec import GroupSpec, Pace, Partitions, Steps, in_order, topic_order
from penstock.coordinator.limits import GROUP_PARTITIONS_PER_MEMBER

ROUNDS_MAX = 16
"""Rounds of balancing. Each about halves the imbalance where subscriptions overlap; Kafka has the same limit."""

NOBODY = -1


def assign_heterogeneous(spec: GroupSpec, pace: Pace) -> Steps[Mapping[str, Partitions]]:
    """Computes the assignment of each member; see the module's head."""
    if not any(member.topics for member in spec.members.values()):
        return {}
    balance = Balance(spec, pace)
    yield from balance.keep_all()
    yield from balance.give_out()
    yield from balance.even_out()
    return (yield from balance.result())


class Levels:
    """The subscribers of a topic, by index, from the one with the fewest partitions to the one with the most.

    From the left grows the range of those that have least: all have had `low` partitions when it was entered, and when
    each was served once, the level rises by one and takes in who is on it. From the right it is the same downwards,
    except that members without partitions of this topic are put aside.
    """

    def __init__(self, members: list[int], sizes: list[int]) -> None:
        self.sizes = sizes
        self.order = sorted(members, key=sizes.__getitem__)  # the members are in order, and so are equals
        last = len(self.order)
        self.low = sizes[self.order[0]] - 1
        self.low_end = self.low_next = 0
        self.high = sizes[self.order[-1]] + 1
        self.high_start = self.high_end = last
        self.high_next = last - 1

    @property
    def imbalance(self) -> int:
        """How many partitions the fullest has more than the emptiest; asked before anything moves."""
        return self.sizes[self.order[-1]] - self.sizes[self.order[0]]

    def is_balanced(self) -> bool:
        """Whether the two ranges have met."""
        return self.high - self.low <= 1

    def emptiest(self) -> int:
        """The member to serve next."""
        if self.low_next >= self.low_end:
            self.low += 1
            while self.low_end < len(self.order) and self.sizes[self.order[self.low_end]] == self.low:
                self.low_end += 1
            self.low_next = 0
        self.low_next += 1
        return self.order[self.low_next - 1]

    def fullest(self) -> int:
        """The member to take from next; NOBODY when all are put aside."""
        if self.high_next < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:
                self.high = self.sizes[self.order[self.high_start - 1]]  # the whole range was put aside
            else:
                self.high -= 1
            while self.high_start > 0 and self.sizes[self.order[self.high_start - 1]] == self.high:
                self.high_start -= 1
            self.high_next = self.high_end - 1
        if self.high_next < 0:
            return NOBODY
        self.high_next -= 1
        return self.order[self.high_next + 1]

    def put_aside(self) -> None:
        """The member that `fullest` gave last has nothing to give."""
        here, end = self.high_next + 1, self.high_end - 1
        self.order[here], self.order[end] = self.order[end], self.order[here]
        self.high_end = end


class Balance:
    """The assignment while it is being made.

    Attributes:
        subscribers: the indexes of the members that subscribe to a topic, ascending.
        owners: the index of the owner of each partition, or NOBODY.
        sizes: how many partitions each member has.
    """

    def __init__(self, spec: GroupSpec, pace: Pace) -> None:
        self.spec = spec
        self.pace = pace
        self.member_ids = list(spec.members)
        self.sizes = [0] * len(self.member_ids)
        self.subscribers: dict[UUID, list[int]] = {}
        self.owners: dict[UUID, list[int]] = {}
        self.topics: list[UUID] = []
        self.changed: set[int] = set()

    def keep_all(self) -> Steps[None]:
        """Step 1 of the module's head."""
        for index, member in enumerate(self.spec.members.values()):
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(index)
            if self.pace.is_over(len(member.topics)):
                yield
        self.owners = {topic: [NOBODY] * self.spec.partition_counts[topic] for topic in self.subscribers}
        self.topics = sorted(self.subscribers, key=self.importance)
        for index, member in enumerate(self.spec.members.values()):
            self.keep(index, frozenset(member.topics), member.assigned)
            if self.pace.is_over(len(member.topics)):
                yield

    def importance(self, topic: UUID) -> tuple[float, int, int]:
        """The sort key of topics: many partitions a subscriber first, then few subscribers, then the id."""
        subscribers = len(self.subscribers[topic])
        return -self.spec.partition_counts[topic] / subscribers, subscribers, topic_order(topic)

    def keep(self, index: int, topics: frozenset[UUID], assigned: Partitions) -> None:
        for topic, numbers in assigned.items():
            if topic not in topics:
                self.changed.add(index)
                continue
            self.sizes[index] += len(numbers)
            for number in numbers:
                self.owners[topic][number] = index

    def give(self, topic: UUID, number: int, index: int) -> None:
        owners = self.owners[topic]
        before = owners[number]
        if before != NOBODY:
            self.sizes[before] -= 1
            self.changed.add(before)
        owners[number] = index
        self.sizes[index] += 1
        self.changed.add(index)

    def give_out(self) -> Steps[None]:
        """Step 2: gives out the partitions that nobody has."""
        for topic in self.topics:
            free = [number for number, owner in enumerate(self.owners[topic]) if owner == NOBODY]
            if free:
                levels = Levels(self.subscribers[topic], self.sizes)
                for number in free:
                    self.give(topic, number, levels.emptiest())
                    if self.pace.is_over():
                        yield
            if self.pace.is_over(self.cost(topic)):
                yield

    def cost(self, topic: UUID) -> int:
        """The cost of considering a topic, as part of a step."""
        return 1 + (len(self.owners[topic]) + len(self.subscribers[topic])) // GROUP_PARTITIONS_PER_MEMBER

    def even_out(self) -> Steps[None]:
        """Step 3: evens out the numbers of partitions."""
        topics = [topic for topic in self.topics if len(self.subscribers[topic]) > 1]
        last_moved: UUID | None = None
        for _ in range(ROUNDS_MAX):
            for topic in topics:
                if topic == last_moved:
                    return
                if (yield from self.even_out_topic(topic)) or last_moved is None:
                    last_moved = topic

    def even_out_topic(self, topic: UUID) -> Steps[bool]:
        """Moves partitions of one topic. Returns whether any has moved."""
        levels = Levels(self.subscribers[topic], self.sizes)
        if self.pace.is_over(self.cost(topic)):
            yield
        if levels.imbalance <= 1:
            return False
        owned: dict[int, list[int]] = {}
        for number, owner in enumerate(self.owners[topic]):
            owned.setdefault(owner, []).append(number)
        moved = False
        while not levels.is_balanced():
            if self.pace.is_over():
                yield
            giver = levels.fullest()
            while giver != NOBODY and not owned.get(giver):
                levels.put_aside()
                giver = levels.fullest()
            if giver == NOBODY:
                break
            number = owned[giver].pop()
            taker = levels.emptiest()
            if levels.is_balanced():
                break
            self.give(topic, number, taker)
            moved = True
        return moved

    def result(self) -> Steps[Mapping[str, Partitions]]:
        lists: list[dict[UUID, list[int]]] = [{} for _ in self.member_ids]
        for topic, owners in self.owners.items():
            for number, owner in enumerate(owners):
                if owner in self.changed:
                    lists[owner].setdefault(topic, []).append(number)
            if self.pace.is_over(self.cost(topic)):
                yield
        result: dict[str, Partitions] = {}
        for index, (member_id, member) in enumerate(self.spec.members.items()):
            result[member_id] = in_order(lists[index]) if index in self.changed else member.assigned
            if self.pace.is_over():
                yield
        return result
