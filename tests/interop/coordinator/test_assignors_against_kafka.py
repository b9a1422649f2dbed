"""Our assignors give what Kafka's give, for random groups that change again and again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from uuid import UUID

import pytest
from interop.coordinator.assignor_peer import assignments_of_kafka

from penstock.coordinator.group.assignors import GroupSpec, Partitions, assign
from penstock.coordinator.group.assignors.spec import MemberSpec, topic_order

GROUPS_PER_KIND = 60
CHANGES_PER_GROUP = 6

pytestmark = pytest.mark.java


class ChangingGroup:
    """A group whose members come and go, whose topics grow, and whose subscriptions change.

    Kafka walks through the topics of a homogeneous group in the order of their hashes. Ids that are small numbers hash
    to themselves, so there its order is ours; elsewhere it sorts them, and the ids are random.
    """

    def __init__(self, random: Random, assignor: str, *, homogeneous: bool) -> None:
        self.random = random
        self.assignor = assignor
        self.homogeneous = homogeneous
        ids = [UUID(int=n if homogeneous else random.getrandbits(128)) for n in range(1, random.randint(2, 9))]
        self.counts = {topic: random.randint(1, 40) for topic in sorted(ids, key=topic_order)}
        self.topics = self.some_topics()
        self.members: dict[str, MemberSpec] = {}
        for _ in range(random.randint(1, 8)):
            self.join()

    def some_topics(self) -> tuple[UUID, ...]:
        chosen = self.random.sample(list(self.counts), self.random.randint(1, len(self.counts)))
        return tuple(sorted(chosen, key=topic_order))

    def join(self) -> None:
        topics = self.topics if self.homogeneous else self.some_topics()
        instance_id = f"instance-{self.random.getrandbits(32)}" if self.random.random() < 0.3 else None
        self.members[f"member-{self.random.getrandbits(64):x}"] = MemberSpec(topics, {}, instance_id)

    def change(self) -> None:
        what = self.random.random()
        if what < 0.4:
            self.join()
        elif what < 0.65 and len(self.members) > 1:
            del self.members[self.random.choice(list(self.members))]
        elif what < 0.8:
            self.counts[self.random.choice(list(self.counts))] += self.random.randint(1, 10)
        else:
            self.topics = self.some_topics()
            chosen = list(self.members) if self.homogeneous else [self.random.choice(list(self.members))]
            for member_id in chosen:
                old = self.members[member_id]
                topics = self.topics if self.homogeneous else self.some_topics()
                self.members[member_id] = MemberSpec(topics, old.assigned, old.instance_id)

    def spec(self) -> GroupSpec:
        used = {topic for member in self.members.values() for topic in member.topics}
        counts = {topic: count for topic, count in self.counts.items() if topic in used}
        return GroupSpec(dict(sorted(self.members.items())), self.homogeneous, counts)

    def take(self, result: Mapping[str, Partitions]) -> None:
        for member_id, member in self.members.items():
            self.members[member_id] = MemberSpec(member.topics, result.get(member_id, {}), member.instance_id)


def cases(assignor: str, *, homogeneous: bool) -> Iterator[tuple[str, GroupSpec]]:
    for seed in range(GROUPS_PER_KIND):
        group = ChangingGroup(Random(f"{assignor} {homogeneous} {seed}"), assignor, homogeneous=homogeneous)
        for _ in range(CHANGES_PER_GROUP):
            spec = group.spec()
            yield assignor, spec
            group.take(assign(assignor, spec))
            group.change()


def test_every_assignor_gives_what_kafkas_gives() -> None:
    asked = [
        each
        for assignor in ("uniform", "range")
        for homogeneous in (True, False)
        for each in cases(assignor, homogeneous=homogeneous)
    ]
    assert len(asked) == 4 * GROUPS_PER_KIND * CHANGES_PER_GROUP
    for (assignor, spec), theirs in zip(asked, assignments_of_kafka(asked), strict=True):
        ours = {member_id: dict(partitions) for member_id, partitions in assign(assignor, spec).items()}
        assert ours == theirs, f"{assignor}: {spec}"
