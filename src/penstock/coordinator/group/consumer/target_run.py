"""A target assignment that is computed and written in steps, for a group that is too large to do it at once.

It is made for the members and the group epoch of its beginning. What changes meanwhile raises the group epoch, and is
for the next one: the assignment epoch may lag behind (KIP-848). So a group whose members never cease to come and go is
assigned all the same. Who has left gets nothing, and who has taken a static member's place gets what that should have.

The records are written in parts, of which any may be the last one that a coordinator writes. So members first lose what
they should not have any more, all of them; then they gain. Wherever the log ends, no partition is in the targets of two
members: the next assignment, ours or that of Apache Kafka, starts from a sound one. The record of the assignment epoch
comes last; until then the targets of before hold (`Withheld`).

Apache Kafka 4.3 does it all at once, and cannot if the records do not fit into a batch. After that release it computes
in the background (KIP-1263), but still writes at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import TypeVar
from uuid import UUID

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors import ASSIGNORS
from penstock.coordinator.group.assignors.spec import NO_PARTITIONS, GroupSpec, MemberSpec, Pace, Partitions, Steps
from penstock.coordinator.group.consumer.group import ConsumerGroup, is_homogeneous
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.group.consumer.run import Part, TargetRun
from penstock.coordinator.group.consumer.topics import topic_ids
from penstock.coordinator.group.consumer.withheld import Withheld
from penstock.coordinator.limits import GROUP_PARTITIONS_PER_MEMBER, GROUP_TARGET_WORK
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.metadata.image import MetadataImage

R = TypeVar("R")
Assigned = tuple[GroupSpec, Mapping[str, Partitions]]

NOTHING_YET: Part = ()


def begin(group: ConsumerGroup, image: MetadataImage, assignor: str, per_step: int) -> TargetRun:
    """A run for the group as it is now. Nothing is computed yet."""
    epoch = group.epoch()
    members = group.members.copy()
    homogeneous = is_homogeneous(group.regex_members.copy(), group.topics.copy(), len(members))
    pace = Pace(per_step)
    result = compute(group, members, image, pace, assignor=assignor, homogeneous=homogeneous)
    steps = in_steps(group, result, pace, epoch.assignment)
    return TargetRun(epoch.group, epoch.assignment, assignor, len(members), steps)


def is_outdated(run: TargetRun, group: ConsumerGroup) -> bool:
    """Whether the run is pointless: its group epoch was reverted, another assignment was made, or no member is left."""
    epoch = group.epoch()
    return epoch.group < run.group_epoch or epoch.assignment != run.last_epoch or group.is_empty


def compute(
    group: ConsumerGroup,
    members: Mapping[str, ConsumerMember],
    image: MetadataImage,
    pace: Pace,
    *,
    assignor: str,
    homogeneous: bool,
) -> Steps[Assigned]:
    spec = yield from specify(group, members, image, pace, homogeneous=homogeneous)
    return spec, (yield from ASSIGNORS[assignor](spec, pace))


def in_steps(group: ConsumerGroup, computed: Steps[Assigned], pace: Pace, last_epoch: int) -> Iterator[Part | None]:
    """The steps of a run: first nothing is written, then what members lose, then what they gain."""
    assigned = yield from without_records(computed)
    if group.withheld is None or group.withheld.assignment_epoch != last_epoch:
        group.withheld = Withheld(last_epoch)
    yield from write(group, assigned, pace, gain=False)
    yield from write(group, assigned, pace, gain=True)
    yield None


def write(group: ConsumerGroup, assigned: Assigned, pace: Pace, *, gain: bool) -> Iterator[Part]:
    """The records of what members lose, or of all that they should have."""
    (spec, result), withheld = assigned, group.withheld
    assert withheld is not None
    part: list[CoordinatorRecord] = []
    for member_id, member_spec in spec.members.items():
        # Who is by now the member that there was at the beginning.
        member = group.members.get(member_id) or group.static_member(member_spec.instance_id)
        if member is None:
            continue
        last = group.targets.get(member.member_id)
        wanted = result.get(member_id, NO_PARTITIONS)
        target = wanted if gain else common(last or NO_PARTITIONS, wanted)
        work = 1
        if target != (last if gain else last or NO_PARTITIONS):
            withheld.keep(member, last or NO_PARTITIONS)
            part.append(records.target_assignment(group.group_id, member.member_id, target))
            partitions = sum(map(len, target.values()))
            work = GROUP_TARGET_WORK + partitions // GROUP_PARTITIONS_PER_MEMBER
        if pace.is_over(work):
            yield part
            part = []
    yield part


def without_records(steps: Steps[R]) -> Generator[Part, None, R]:
    """Steps in which nothing is written."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: R = end.value
            return result
        yield NOTHING_YET


def common(one: Partitions, other: Partitions) -> Partitions:
    """The partitions that are in both."""
    result: dict[UUID, tuple[int, ...]] = {}
    for topic, numbers in one.items():
        both = frozenset(other.get(topic, ())).intersection(numbers)
        if both:
            result[topic] = numbers if len(both) == len(numbers) else tuple(sorted(both))
    return result


def specify(
    group: ConsumerGroup, members: Mapping[str, ConsumerMember], image: MetadataImage, pace: Pace, *, homogeneous: bool
) -> Steps[GroupSpec]:
    """The group with these members as the assignor sees it."""
    ids: dict[tuple[frozenset[str], str], tuple[UUID, ...]] = {}
    specs: dict[str, MemberSpec] = {}
    for member_id in sorted(members):
        member = members[member_id]
        key = member.subscribed_topic_names, member.subscribed_topic_regex
        if key not in ids:
            ids[key] = topic_ids(group.subscription(member), image)
        specs[member_id] = MemberSpec(ids[key], group.target(member), member.instance_id)
        if pace.is_over():
            yield
    counts = {topic: len(image.topics_by_id[topic].partitions) for topics in ids.values() for topic in topics}
    return GroupSpec(specs, homogeneous, counts)
