"""What fails while a large group is assigned in steps: its coordinator, what is written, and a step."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.coordinator.consumers import Consumer, topic_id
from unit.coordinator.large_groups import (
    AT_ONCE,
    PARTITIONS,
    check_disjoint,
    check_shares,
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

from penstock.coordinator.group.consumer import target_runs
from penstock.coordinator.group.consumer.target_run import is_outdated
from penstock.coordinator.limits import COORDINATOR_TIMER_RETRY_MS
from penstock.errors import ErrorCode


@pytest.mark.parametrize("keep", [False, True], ids=["committed", "written"])
def test_the_coordinator_fails_in_the_middle(keep: bool) -> None:
    """Wherever its log ends, the next one begins with a sound assignment, and comes to a whole one."""
    number, changed = 0, 0
    while True:
        world = large()
        members = group_of(world, 4, assignor="range")
        members.insert(0, Consumer(world, "a", assignor="range"))
        members[0].join()
        before = targets(world.group())
        assigned = world.group().epoch().assignment
        for at in steps(world):
            if at == number:
                world.fail_over(keep_uncommitted=keep)
                break
        else:
            break
        group = world.group()
        assert not is_under_way(world)
        assert group.epoch().assignment == assigned
        assert group.state_name() == "Assigning"
        check_disjoint(*targets(group).values())
        changed += targets(group) != before
        rest(world, *members)
        check_shares(*members)
        number += 1
    assert changed > 5


def test_a_coordinator_that_is_no_more_takes_no_further_step() -> None:
    world = large()
    group_of(world, 3)
    Consumer(world, "m3").join()
    for at in steps(world):
        if at == 8:
            break
    shard, state = world.shard, world.state
    world.resign()
    batches = len(world.log.batches)
    world.advance(10_000)
    assert len(world.log.batches) == batches
    assert (target_runs.TARGET, "g") not in shard.timers
    assert state.groups.get("g").epoch().assignment < state.groups.get("g").epoch().group


@pytest.mark.parametrize("leaves", [False, True], ids=["stays", "leaves"])
def test_what_cannot_be_written_is_computed_anew_after_a_while(leaves: bool) -> None:
    """Also when the new assignment is the last one again, of which the log does not have all any more."""
    number, refused = 0, 0
    while True:
        world = large()
        members = group_of(world, 4, assignor="range")
        before = told(world)
        members.insert(0, Consumer(world, "a", assignor="range"))
        members[0].join()
        for at in steps(world):
            if at == number:
                world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
                world.advance(at == 0)
                while world.group().run is not None:
                    world.advance(1)
                refused += 1
                tried = len(world.log.batches)
                world.advance(COORDINATOR_TIMER_RETRY_MS - 2)
                assert world.group().run is None
                assert is_under_way(world)
                for member in members:
                    member.beat()
                assert {**told(world), "a": []} == {**before, "a": []}
                check_disjoint(*targets(world.group()).values())
                world.log.refuses = None
                assert len(world.log.batches) == tried
                if leaves:
                    members.pop(0).leave()
                break
        else:
            break
        rest(world, *members)
        check_shares(*members)
        number += 1
    assert refused > 10


def test_one_part_that_is_refused_is_not_passed_over() -> None:
    number = 0
    while True:
        world = large()
        members = group_of(world, 4, assignor="range")
        members.insert(0, Consumer(world, "a", assignor="range"))
        members[0].join()
        for at in steps(world):
            if at == number:
                world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
                world.advance(1)
                world.log.refuses = None
                break
        else:
            break
        world.advance(COORDINATOR_TIMER_RETRY_MS)
        finish(world)
        assert sum(len(target[topic_id("t")]) for target in targets(world.group()).values()) == PARTITIONS
        rest(world, *members)
        check_shares(*members)
        number += 1
    assert number > 10


def test_what_is_withheld_of_an_assignment_that_was_reverted_is_withheld_of_no_other() -> None:
    world = large()
    one, two = group_of(world, 2)
    world.runtime.linger_ms = 10_000
    Consumer(world, "x").join()
    finish(world)
    Consumer(world, "y").join()
    epoch, before = world.group().epoch().assignment, ""
    for _ in steps(world):
        withheld = world.group().withheld
        assert withheld is not None, "nothing is committed"
        if withheld.assignment_epoch == epoch and str(targets(world.group())) != before:
            break
        before = str(targets(world.group()))
    assert is_under_way(world)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.shard.flush(world.now_ms)
    world.log.refuses = None
    world.runtime.linger_ms = 0
    world.advance(COORDINATOR_TIMER_RETRY_MS)
    assert not is_under_way(world)
    world.configure(penstock_group_consumer_assignment_step=AT_ONCE)
    world.change_topics(t=2 * PARTITIONS)
    one.beat()
    assert world.group().epoch().assignment == epoch
    assert [len(should_have(world, member)) for member in (one, two)] == [PARTITIONS] * 2
    rest(world, one, two)
    check_shares(one, two, partitions=2 * PARTITIONS)


def test_an_assignment_for_an_epoch_that_was_reverted_is_made_no_more() -> None:
    world = large()
    one, two = group_of(world, 2)
    world.runtime.linger_ms = 20
    reverted = Consumer(world, "reverted")
    reverted.join()
    epoch = world.group().epoch().group
    world.advance(3)
    run = world.group().run
    assert run is not None
    assert run.group_epoch == epoch
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.shard.flush(world.now_ms)
    assert world.group().epoch().group == epoch - 1
    assert is_outdated(run, world.group())
    world.log.refuses = None
    world.runtime.linger_ms = 0
    other = Consumer(world, "other")
    other.join()
    assert world.group().epoch().group == epoch
    assert world.group().run is None, "the same number, and not the same members"
    rest(world, one, two, other)
    check_shares(one, two, other)


def test_an_error_in_a_step_ends_the_assignment_and_not_the_group() -> None:
    world = large()
    one, two = group_of(world, 2)
    three = Consumer(world, "m3")
    three.join()
    for at in steps(world):
        if at == 5:
            break
    run = world.group().run
    assert run is not None

    def fails() -> None:
        raise ZeroDivisionError

    world.group().run = replace(run, steps=(fails() for _ in range(1)))
    epoch = world.group().epoch().assignment
    with pytest.raises(ZeroDivisionError):
        world.advance(1)
    world.bugs.clear()
    assert world.group().epoch().assignment == epoch
    assert world.group().run is None
    world.advance(COORDINATOR_TIMER_RETRY_MS)
    rest(world, one, two, three)
    check_shares(one, two, three)
