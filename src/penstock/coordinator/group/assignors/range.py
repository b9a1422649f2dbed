"""The range assignor: each topic is cut into as many ranges as it has subscribers, the first ones longer by one.

Members are served in the order of their instance ids, static ones first, then of their member ids. So where all members
subscribe to topics of the same size, a member has the same partition numbers of each: topics can be joined locally.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from penstock.coordinator.group.assignors.spec import GroupSpec, MemberSpec, Pace, Partitions, Steps


def assign_ranges(spec: GroupSpec, pace: Pace) -> Steps[Mapping[str, Partitions]]:
    """Computes the assignment of each member; see the module's head."""
    subscribers: dict[UUID, int] = {}
    turns: dict[str, tuple[bool, bytes]] = {}
    for member_id, member in spec.members.items():
        turns[member_id] = serving_order(member_id, member)
        for topic in member.topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
        if pace.is_over(1 + len(member.topics)):
            yield
    served = dict.fromkeys(subscribers, 0)
    result: dict[str, Partitions] = {}
    for member_id in sorted(spec.members, key=turns.__getitem__):
        member = spec.members[member_id]
        assignment = result[member_id] = {}
        for topic in member.topics:
            index = served[topic]
            served[topic] = index + 1
            numbers = nth_range(spec.partition_counts[topic], subscribers[topic], index)
            if numbers:
                assignment[topic] = tuple(numbers)
        if pace.is_over(1 + len(member.topics)):
            yield
    return result


def nth_range(partition_count: int, subscriber_count: int, index: int) -> range:
    """The partitions of the subscriber with this index."""
    length, longer = divmod(partition_count, subscriber_count)
    start = index * length + min(index, longer)
    return range(start, start + length + (index < longer))


def serving_order(member_id: str, member: MemberSpec) -> tuple[bool, bytes]:
    """Static members come first. Texts are compared as Java does, by their UTF-16 units."""
    name = member_id if member.instance_id is None else member.instance_id
    return member.instance_id is None, name.encode("utf-16-be", "surrogatepass")
