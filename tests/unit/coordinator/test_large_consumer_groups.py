"""The assignment of a large group is computed and written in steps; here a step is a member, or nearly so."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from unit.coordinator.consumers import Consumer, ConsumerWorld, topic_id, with_topics
from unit.coordinator.large_groups import (
    AT_ONCE,
    PARTITIONS,
    check_disjoint,
    check_shares,
    crowd,
    finish,
    group_of,
    is_under_way,
    large,
    rest,
    should_have,
    steps,
    targets,
    told,
)
from unit.coordinator.test_consumer_group_migration import ClassicConsumer, classic_group, everything, settle

from penstock.errors import ErrorCode

# That it is the same, in pieces that are small


def test_ten_thousand_members_are_assigned_in_batches_that_fit() -> None:
    world = ConsumerWorld(with_topics(t=20_000))
    first, *_ = crowd(world, 10_000)
    batches = len(world.log.batches)
    assert not first.join().code
    assert finish(world) > 50
    written = world.log.batches[batches:]
    assert len(written) > 20
    assert max(map(len, written)) < 64 * 1024
    group = world.group()
    assert group.epoch().assignment == group.epoch().group
    assert {sum(map(len, target.values())) for _, target in group.targets.items()} == {2}
    check_disjoint(*targets(group).values())


def test_at_once_their_records_do_not_fit_into_a_batch() -> None:
    world = ConsumerWorld(with_topics(t=20_000), penstock_group_consumer_assignment_step=AT_ONCE)
    first, *_ = crowd(world, 10_000)
    assert first.join().code is ErrorCode.RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("step", [1, 7, 40])
@pytest.mark.parametrize("topics", [[("t", "u")], [("t",), ("t", "u"), ("u", "v")]], ids=["alike", "different"])
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_in_steps_members_get_what_they_get_at_once(assignor: str, topics: list[tuple[str, ...]], step: int) -> None:
    worlds = [
        ConsumerWorld(with_topics(t=40, u=25, v=3), penstock_group_consumer_assignment_step=each)
        for each in (AT_ONCE, step)
    ]
    for count in (9, 4, 13):
        for world in worlds:
            members = [
                Consumer(world, f"m{index}", topics=topics[index % len(topics)], assignor=assignor)
                for index in range(13)
            ]
            present = world.group().members.copy() if "g" in world.state.groups else {}
            for member in members[2:]:
                if member.member_id in present:
                    member.leave()
            for member in members[:count]:
                member.join()
                finish(world)
        at_once, in_steps = (targets(world.group()) for world in worlds)
        assert at_once == in_steps
        assert sum(len(numbers) for target in in_steps.values() for numbers in target.values()) >= 40


def test_a_small_group_is_assigned_by_the_heartbeat_that_finds_it_due() -> None:
    world = ConsumerWorld()
    member = Consumer(world, "m")
    member.join()
    assert member.partitions() == list(range(6))
    assert not is_under_way(world)


def test_many_partitions_make_a_group_large() -> None:
    world = ConsumerWorld(with_topics(t=16_000))
    member = Consumer(world, "m")
    member.join()
    assert (member.epoch, member.partitions()) == (1, [])
    finish(world)
    member.beat()
    assert (member.epoch, len(member.partitions())) == (2, 16_000)


def test_steps_of_two_groups_are_taken_in_turns_of_their_own() -> None:
    world = large()
    for group in "gh":
        for index in range(2):
            Consumer(world, f"m{index}", group).join()
    world.now_ms += 1
    written = []
    for _ in range(4):
        before = {group: world.group(group).run for group in "gh"}
        world.runtime.tick(world.now_ms)
        written.append(sum(world.group(group).run is not before[group] for group in "gh"))
    assert written == [1, 1, 0, 0]


# What members are told meanwhile


def test_heartbeats_meanwhile_are_answered_by_the_last_assignment() -> None:
    world = large()
    one, two = group_of(world, 2)
    had = one.partitions(), two.partitions()
    three = Consumer(world, "m3")
    three.join()
    epoch = world.group().epoch()
    for _ in steps(world):
        for member in (one, two, three):
            member.beat()
            assert member.epoch == epoch.assignment
            assert (
                member.last.value.heartbeat_interval_ms
                == world.settings.penstock_group_consumer_reconcile_heartbeat_interval_ms
            )
        assert (one.partitions(), two.partitions(), three.partitions()) == (*had, [])
        assert world.group().state_name() == "Assigning"
    assert world.group().epoch().assignment == epoch.group
    rest(world, one, two, three)
    check_shares(one, two, three)


def test_nobody_sees_half_of_an_assignment() -> None:
    """A range moves for everybody when somebody comes first; administrators and members see all of that or nothing."""
    world = large()
    members = group_of(world, 4, assignor="range")
    before = told(world)
    Consumer(world, "a", assignor="range").join()
    seen = []
    in_the_log = set()
    for _ in steps(world):
        targets_told = told(world)
        assert targets_told.pop("a") == []
        seen.append(targets_told == before)
        in_the_log.add(str(targets(world.group())))
        assert {each.member_id: should_have(world, each) for each in members} == before
    assert all(seen)
    assert len(in_the_log) > 4
    after = told(world)
    assert [len(after[member_id]) for member_id in sorted(after)] == [3, 3, 2, 2, 2]
    assert world.group().withheld is None


def test_who_waits_for_a_partition_does_not_wait_for_that_of_an_assignment_under_way() -> None:
    world = large()
    (one,) = group_of(world, 1)
    one.lazy = True
    two = Consumer(world, "m1")
    two.join()
    finish(world)
    one.beat()
    two.beat()
    waits_for = world.group().target(world.group().members["m1"])
    assert len(waits_for[topic_id("t")]) == 6
    three = Consumer(world, "m2")
    three.join()
    for _ in steps(world):
        two.beat()
        assert two.partitions() == []
        assert world.group().target(world.group().members["m1"]) == waits_for
    one.lazy = False
    rest(world, one, two, three)
    check_shares(one, two, three)


# What changes meanwhile


def at_each_step(change: Callable[[ConsumerWorld, list[Consumer]], None], members: int = 4) -> None:
    """A change in the middle of an assignment, at any of its steps, and everybody comes to an equal share."""
    number = 0
    while True:
        world = large()
        present = group_of(world, members, assignor="range")
        present.insert(0, Consumer(world, "a", assignor="range"))
        present[0].join()
        for at in steps(world):
            if at == number:
                change(world, present)
                break
        else:
            break
        if "g" not in world.state.groups or world.group().is_empty:
            finish(world)
            assert not is_under_way(world)
        else:
            for _ in steps(world):
                check_disjoint(*targets(world.group()).values())
                group = world.group()
                check_disjoint(*(group.target(member) for _, member in group.members.items()))
            rest(world, *present)
            check_shares(*present, partitions=len(world.image.topics_by_name["t"].partitions))
            assert set(targets(world.group())) == {member.member_id for member in present}
        number += 1
    assert number > 10


def test_somebody_joins_in_the_middle() -> None:
    def change(world: ConsumerWorld, members: list[Consumer]) -> None:
        members.append(Consumer(world, "k", assignor="range"))
        members[-1].join()

    at_each_step(change)


def test_somebody_leaves_in_the_middle() -> None:
    at_each_step(lambda world, members: members.pop(2).leave())


def test_who_came_leaves_in_the_middle() -> None:
    at_each_step(lambda world, members: members.pop(0).leave())


def test_everybody_leaves_in_the_middle() -> None:
    def change(world: ConsumerWorld, members: list[Consumer]) -> None:
        for member in members:
            member.leave()

    at_each_step(change)


def test_a_topic_grows_in_the_middle() -> None:
    at_each_step(lambda world, members: world.change_topics(t=PARTITIONS + 4))


def test_an_assignment_goes_on_while_members_come_and_go() -> None:
    """It lags behind, but it comes."""
    world = large()
    members = group_of(world, 4)
    epochs = set()
    for number in range(120):
        other = Consumer(world, f"other-{number}")
        other.join()
        world.advance(1)
        other.leave()
        for member in members:
            member.beat()
        epochs.add(world.group().epoch().assignment)
    assert len(epochs) > 3


def test_a_static_member_is_replaced_in_the_middle() -> None:
    number = 0
    while True:
        world = large()
        one, two = group_of(world, 2)
        static = Consumer(world, "s0", instance_id="s")
        static.join()
        rest(world, one, two, static)
        three = Consumer(world, "m3")
        three.join()
        before = told(world)["s0"]
        for at in steps(world):
            if at == number:
                static.leave(-2)
                static = Consumer(world, "s1", instance_id="s")
                static.join()
                assert static.partitions() == before
                break
        else:
            break
        for _ in steps(world):
            static.beat()
            if is_under_way(world):
                assert static.partitions() == before
            group = world.group()
            check_disjoint(*(group.target(member) for _, member in group.members.items()))
        check_disjoint(*targets(world.group()).values())
        rest(world, one, two, static, three)
        check_shares(one, two, static, three)
        number += 1
    assert number > 10


def test_classic_members_are_told_to_join_again_once_there_is_something_new() -> None:
    world = large(partitions=6)
    one, two = classic_group(world, [[0, 1, 2], [3, 4, 5]])
    consumer = Consumer(world, "consumer")
    consumer.join()
    while world.group().state_name() != "Stable":
        finish(world)
        settle(world, one, two, consumer)
    assert everything(one, two, consumer) == list(range(6))
    world.configure(group_consumer_migration_policy="upgrade")
    consumer.leave()
    assert one.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS
    one.join()
    one.sync()
    for _ in steps(world):
        assert [one.heartbeat(), two.heartbeat()] == [ErrorCode.NONE] * 2
    assert [one.heartbeat(), two.heartbeat()] == [ErrorCode.REBALANCE_IN_PROGRESS] * 2
    settle(world, one, two)
    assert everything(one, two) == list(range(6))


def test_who_turns_a_classic_group_without_a_generation_into_a_large_one_gets_an_epoch() -> None:
    """0 would mean that it is still to join."""
    world = large()
    ClassicConsumer(world).join()
    consumer = Consumer(world, "consumer")
    consumer.join()
    assert consumer.epoch > 0
