"""Consumer groups that are assigned in steps, of a member or nearly so, and what has to hold of them."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id, with_topics

from penstock.coordinator.group import records_consumer as records
from penstock.coordinator.group.assignors.spec import Partitions
from penstock.coordinator.group.consumer import target_runs
from penstock.coordinator.group.consumer.describe import describe
from penstock.coordinator.group.consumer.group import ConsumerGroup
from penstock.coordinator.group.consumer.member import ConsumerMember
from penstock.coordinator.runtime.result import Result

AT_ONCE = 1_000_000
"""More members than any group here has."""
PARTITIONS = 12


def large(partitions: int = PARTITIONS, **config: Any) -> ConsumerWorld:
    """A world in which a group with two members is large."""
    return ConsumerWorld(with_topics(t=partitions), **{"penstock_group_consumer_assignment_step": 1, **config})


def is_under_way(world: ConsumerWorld) -> bool:
    return target_runs.is_under_way(world.state, world.group())


def steps(world: ConsumerWorld) -> Iterator[int]:
    """Goes on step by step, and lets the test look between them."""
    number = 0
    while is_under_way(world):
        yield number
        world.advance(1)
        number += 1
        assert number < 10_000, "the assignment comes to no end"


def finish(world: ConsumerWorld) -> int:
    """Goes on to the end. Returns how many steps that took."""
    return sum(1 for _ in steps(world))


def rest(world: ConsumerWorld, *members: Consumer) -> None:
    """Heartbeats, and steps between them, until everybody has its share."""
    for _ in range(60):
        for member in members:
            member.beat()
            assert not member.code, member.last
        check_owners(*members)
        finish(world)
        epoch = world.group().epoch()
        if epoch.assignment == epoch.group and world.group().state_name() == "Stable":
            return
    raise AssertionError(f"members do not come to rest: {members}")


def group_of(world: ConsumerWorld, count: int, **fields: Any) -> list[Consumer]:
    """So many members, each with its share."""
    members = [Consumer(world, f"m{index}", **fields) for index in range(count)]
    for member in members:
        member.join()
    rest(world, *members)
    return members


def check_owners(*members: Consumer) -> None:
    """Nobody has what another has."""
    had = [(topic, number) for member in members for topic, numbers in member.owned.items() for number in numbers]
    assert len(had) == len(set(had)), members


def check_shares(*members: Consumer, partitions: int = PARTITIONS) -> None:
    """Everything is shared, evenly."""
    sizes = [len(member.partitions()) for member in members]
    assert sorted(number for member in members for number in member.partitions()) == list(range(partitions))
    assert max(sizes) - min(sizes) <= 1, sizes


def check_disjoint(*targets: Partitions) -> None:
    """No partition is in two of the targets."""
    wanted = [(topic, number) for target in targets for topic, numbers in target.items() for number in numbers]
    assert len(wanted) == len(set(wanted)), targets


def targets(group: ConsumerGroup) -> dict[str, Partitions]:
    """As they are in the log."""
    return {member_id: target for member_id, target in group.targets.items() if target}


def should_have(world: ConsumerWorld, member: Consumer) -> list[int]:
    """What a heartbeat of the member goes by."""
    group = world.group()
    return list(group.target(group.members[member.member_id]).get(topic_id("t"), ()))


def told(world: ConsumerWorld) -> dict[str, list[int]]:
    """What an administrator is told that each member should have."""
    described = describe(world.state, world.shard.committed_offset, "g")
    return {
        member.member_id: [number for each in member.target_assignment.topic_partitions for number in each.partitions]
        for member in described.members
    }


def crowd(world: ConsumerWorld, count: int) -> list[Consumer]:
    """A group with so many members that have nothing yet."""
    random = Random(1)
    members = [Consumer(world, str(UUID(int=random.getrandbits(128), version=4))) for _ in range(count)]

    def joined(_: object) -> Result[bool]:
        written = []
        for each in members:
            member = ConsumerMember(each.member_id, 1, client_id="c", subscribed_topic_names=frozenset(["t"]))
            written += records.member_subscription("g", member), records.current_assignment("g", member)
            each.epoch = 1
        written.append(records.group_epoch("g", 2, 0))
        return Result(True, written, atomic=False)

    world.write(joined, None)
    return members
