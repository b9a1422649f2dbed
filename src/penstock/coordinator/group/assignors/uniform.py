"""The uniform assignor: members have equally many partitions, give or take one, and as few as possible move.

Where all members subscribe to the same topics it is simple: each has a quota, gives away what exceeds it, and those
below it are filled up. Otherwise `heterogeneous` does the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from penstock.coordinator.group.assignors.heterogeneous import assign_heterogeneous
from penstock.coordinator.group.assignors.spec import GroupSpec, MemberSpec, Pace, Partitions, Steps, in_order
from penstock.coordinator.limits import GROUP_PARTITIONS_PER_MEMBER


def assign_uniformly(spec: GroupSpec, pace: Pace) -> Steps[Mapping[str, Partitions]]:
    """Computes the assignment of each member; see the module's head."""
    if not spec.members:
        return {}
    return (yield from (assign_homogeneous if spec.homogeneous else assign_heterogeneous)(spec, pace))


def assign_homogeneous(spec: GroupSpec, pace: Pace) -> Steps[Mapping[str, Partitions]]:
    """The case in which all members subscribe to the same topics."""
    topics = next(iter(spec.members.values())).topics
    if not topics:
        return {}
    return (yield from Quotas(spec, topics, pace).assign())


class Quotas:
    """Keeps what members have up to their quota, and fills them up to it.

    Attributes:
        free: partitions to give out, in this order.
        least: the least number of partitions that a member has. extra: how many members have one more.
        below: the members that have less than their quota, and by how much.
    """

    def __init__(self, spec: GroupSpec, topics: tuple[UUID, ...], pace: Pace) -> None:
        self.members = spec.members
        self.partition_counts = spec.partition_counts
        self.topics = dict.fromkeys(topics)
        self.pace = pace
        self.free: list[tuple[UUID, int]] = []
        total = sum(spec.partition_counts[topic] for topic in topics)
        self.least, self.extra = divmod(total, len(spec.members))
        self.below: list[tuple[str, int]] = []

    def assign(self) -> Steps[Mapping[str, Partitions]]:
        """The assignment: what members keep, and what they get of what is free."""
        yield from self.find_free()
        result: dict[str, Partitions] = {}
        for index, (member_id, member) in enumerate(self.members.items()):
            result[member_id] = self.keep(member_id, member, len(self.members) - index)
            if self.pace.is_over():
                yield
        position = 0
        for member_id, missing in self.below:
            given = self.free[position : position + missing]
            position += len(given)
            if given:
                filled = {topic: list(numbers) for topic, numbers in result[member_id].items()}
                for topic, number in given:
                    filled.setdefault(topic, []).append(number)
                result[member_id] = in_order(filled)
            if self.pace.is_over(1 + len(given) // GROUP_PARTITIONS_PER_MEMBER):
                yield
        assert position == len(self.free), "all partitions are given out"
        return result

    def find_free(self) -> Steps[None]:
        """The partitions that nobody has."""
        owned: dict[UUID, set[int]] = {topic: set() for topic in self.topics}
        for member in self.members.values():
            for topic, numbers in member.assigned.items():
                if topic in owned:
                    owned[topic].update(numbers)
            if self.pace.is_over():
                yield
        for topic in self.topics:
            for number in range(self.partition_counts[topic]):
                if number not in owned[topic]:
                    self.free.append((topic, number))
                if not number % GROUP_PARTITIONS_PER_MEMBER and self.pace.is_over():
                    yield

    def keep(self, member_id: str, member: MemberSpec, members_left: int) -> Partitions:
        """The partitions that the member keeps. A member that has the extra partition keeps it, if there are enough of
        them.
        """
        takes_extra = self.extra > 0
        quota = self.least + takes_extra
        kept: dict[UUID, tuple[int, ...]] = {}
        for topic, numbers in member.assigned.items():
            if topic not in self.topics:
                continue
            if numbers[:quota]:
                kept[topic] = numbers[:quota]
            self.free.extend((topic, number) for number in numbers[quota:])
            quota -= min(quota, len(numbers))
        if quota > 0 and takes_extra and members_left > self.extra:
            quota -= 1  # somebody after this one may have it already
            takes_extra = False
        if quota > 0:
            self.below.append((member_id, quota))
        self.extra -= takes_extra
        return member.assigned if kept == member.assigned else kept
