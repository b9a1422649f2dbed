"""The cases of Kafka's consumer redesign by name, for groups of both protocols with members that behave as clients do.

Throughout no partition has two owners, and in the end every partition has one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from unit.coordinator.clients import KINDS, STEP_MS, Client, ConsumerClient, client_world, places, run, shared
from unit.coordinator.consumers import ConsumerWorld
from unit.coordinator.world import REBALANCE_MS, SESSION_MS

from penstock.coordinator.group.classic.group import ClassicGroup
from penstock.errors import ErrorCode

T = places(t=6)
OLD_GENERATION = {
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.STALE_MEMBER_EPOCH,
    ErrorCode.REBALANCE_IN_PROGRESS,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> type[Client]:
    """Each test is one of both protocols."""
    return KINDS[request.param]


def group_of(kind: type[Client], count: int, world: ConsumerWorld | None = None) -> tuple[ConsumerWorld, list[Client]]:
    """A group at rest."""
    world = client_world() if world is None else world
    members = [kind(world, f"m{number}") for number in range(count)]
    run(world, members, lambda: shared(members, T) and all(each.owned for each in members))
    return world, members


def rest(world: ConsumerWorld, members: Sequence[Client], steps: int = 6) -> int:
    """How often members were changed in some heartbeats more."""
    before = sum(each.changes for each in members)
    run(world, members, steps=steps)
    return sum(each.changes for each in members) - before


def session_ms(world: ConsumerWorld, kind: type[Client]) -> int:
    """How long a member may be silent."""
    return world.settings.group_consumer_session_timeout_ms if kind is ConsumerClient else SESSION_MS


def generation(world: ConsumerWorld) -> int:
    """The generation of the group, or the epoch of its assignment, as its coordinator has it."""
    group = world.state.groups.get("g")
    return group.generation_id if isinstance(group, ClassicGroup) else world.group().epoch().assignment


def knows(world: ConsumerWorld, member: Client) -> bool:
    """Whether the coordinator has it for a member."""
    group = world.state.groups.find("g")
    return group is not None and group.has_member(member.identity()[0])


# Members


def test_a_member_joins(kind: type[Client]) -> None:
    world, members = group_of(kind, 2)
    members.append(kind(world, "new"))
    run(world, members, lambda: shared(members, T) and bool(members[-1].owned))
    assert {len(each.owned) for each in members} == {2}
    assert rest(world, members) == 0


def test_a_member_leaves(kind: type[Client]) -> None:
    world, members = group_of(kind, 3)
    gone = members.pop()
    gone.leave()
    run(world, members, lambda: shared(members, T))
    assert {len(each.owned) for each in members} == {3}
    assert rest(world, members) == 0


def test_a_member_crashes(kind: type[Client]) -> None:
    world, members = group_of(kind, 3)
    crashed = members.pop()
    begun_ms = world.now_ms
    run(world, members, lambda: shared(members, T))
    assert world.now_ms - begun_ms >= session_ms(world, kind) - STEP_MS, "not before its session has ended"
    assert crashed.commit(1) in OLD_GENERATION


def test_a_member_is_slow(kind: type[Client]) -> None:
    """It sends heartbeats, and does not give up what it has: after its rebalance timeout it is a member no more."""
    world, members = group_of(kind, 2)
    slow = members[0]
    slow.slow = True
    members.append(kind(world, "new"))
    begun_ms = world.now_ms
    alive = members[1:]
    run(world, members, lambda: shared(alive, T), zombies=[slow])
    assert world.now_ms - begun_ms >= REBALANCE_MS - 2 * STEP_MS
    slow.slow = False
    run(world, members, lambda: shared(members, T) and bool(slow.owned), zombies=[slow])
    assert rest(world, members) == 0, "and back it is one as all others"


def test_a_heartbeat_is_lost(kind: type[Client]) -> None:
    world, members = group_of(kind, 2)
    members[0].silent = True
    run(world, members, steps=session_ms(world, kind) // STEP_MS - 2)
    members[0].silent = False
    assert rest(world, members) == 0, "nobody notices"
    assert members[0].commit(1) is ErrorCode.NONE


def test_the_answer_to_a_heartbeat_is_lost() -> None:
    """With a new epoch in it: the member comes with its old one, and is told again."""
    world, members = group_of(ConsumerClient, 1)
    (first,) = members
    assert isinstance(first, ConsumerClient)
    members.append(ConsumerClient(world, "new"))
    members[1].step()
    first.lose_answer = True
    run(world, members, lambda: shared(members, T) and all(each.owned for each in members))


def test_the_leader_member_fails_in_the_middle(kind: type[Client]) -> None:
    """Of a classic group before it hands in the assignment; of a consumer group before it gives up what others want."""
    world, members = group_of(kind, 2)
    leader = members[0]
    members.append(kind(world, "new"))
    for _ in range(3):
        members[2].step()
        members[1].step()
    leader.step()
    leader.silent = True
    alive = members[1:]
    run(world, members, lambda: shared(alive, T), zombies=[leader])
    assert leader.commit(1) in OLD_GENERATION


# The coordinator


def test_the_coordinator_fails_before_the_assignment_is_persisted(kind: type[Client]) -> None:
    world, members = group_of(kind, 2)
    before = generation(world)
    members.append(kind(world, "new"))
    world.commits = False
    run(world, members, steps=6)
    assert generation(world) > before
    assert not members[2].owned, "what is not committed is told to nobody"
    world.fail_over()
    assert generation(world) == before
    assert [knows(world, member) for member in members] == [True, True, False]
    world.commits = True
    run(world, members, lambda: shared(members, T) and bool(members[2].owned))


def test_the_coordinator_fails_after_the_assignment_is_persisted(kind: type[Client]) -> None:
    world, members = group_of(kind, 2)
    before = generation(world)
    members.append(kind(world, "new"))
    world.commits = False
    run(world, members, steps=6)
    assigned = generation(world)
    assert assigned > before
    world.fail_over(keep_uncommitted=True)
    assert generation(world) == assigned, "the new coordinator goes on with the assignment of the one before it"
    assert knows(world, members[2])
    world.commits = True
    run(world, members, lambda: shared(members, T) and bool(members[2].owned))


@pytest.mark.parametrize("keep", [False, True], ids=["lost", "kept"])
def test_the_coordinator_fails_while_members_join(kind: type[Client], *, keep: bool) -> None:
    """After each number of requests that a group of three needs to come to rest.

    Who was told that it is in is in; of a consumer group also who was not, if its records are there.
    """
    for fails_after in range(1, 16):
        world = client_world()
        members = [kind(world, f"m{number}") for number in range(3)]
        world.commits = fails_after % 2 == 0
        for turn in range(fails_after):
            members[turn % 3].step()
            world.settle()
        stay = [each for each in members if each.owned]
        if kind is ConsumerClient:
            stay = [each for each in members if (knows(world, each) if keep else each.identity()[1] > 0)]
        world.fail_over(keep_uncommitted=keep)
        assert [each for each in stay if not knows(world, each)] == []
        world.commits = True
        run(world, members, lambda members=members: shared(members, T) and all(each.owned for each in members))  # type: ignore[misc]


@pytest.mark.parametrize("keep", [False, True], ids=["lost", "kept"])
def test_the_coordinator_fails_while_offsets_commit(kind: type[Client], *, keep: bool) -> None:
    world, members = group_of(kind, 2)
    (owner,) = (each for each in members if ("t", 0) in each.owned)
    assert owner.commit(1) is ErrorCode.NONE
    world.commits = False
    assert owner.commit(2) is None
    assert world.offsets() == {("t", 0): 1}
    world.fail_over(keep_uncommitted=keep)
    world.commits = True
    world.commit()
    assert world.offsets() == {("t", 0): 2 if keep else 1}, (
        "what was acknowledged is there, the rest whole or not at all"
    )
    assert rest(world, members) == 0
    assert owner.commit(2) is ErrorCode.NONE, "the member goes on as the one that it was"
    world.fail_over()
    assert world.offsets() == {("t", 0): 2}


# Topics


def test_a_topic_is_created(kind: type[Client]) -> None:
    world = client_world(other=1)
    members = [kind(world, f"m{number}") for number in range(2)]
    run(world, members, steps=10)
    assert not any(each.owned for each in members)
    world.change_topics(t=6)
    run(world, members, lambda: shared(members, T))
    assert {len(each.owned) for each in members} == {3}


def test_a_topic_grows(kind: type[Client]) -> None:
    world, members = group_of(kind, 2)
    world.change_topics(t=10)
    run(world, members, lambda: shared(members, places(t=10)))
    assert {len(each.owned) for each in members} == {5}


def test_a_topic_is_deleted(kind: type[Client]) -> None:
    world = client_world(t=4, u=2)
    members = [kind(world, f"m{number}", "t", "u") for number in range(2)]
    run(world, members, lambda: shared(members, places(t=4, u=2)))
    world.change_topics(removed=["u"])
    run(world, members, lambda: shared(members, places(t=4)))
    assert rest(world, members) == 0


def test_a_topic_is_matched_by_a_new_regex(kind: type[Client]) -> None:
    world = client_world(**{"logs-a": 2, "logs-b": 2, "t": 2})
    members = [kind(world, "m0", pattern="logs-a"), kind(world, "m1", "t")]
    run(world, members, lambda: shared(members, places(**{"logs-a": 2, "t": 2})))
    matching = kind(world, "m2", pattern="logs-.*")
    members.append(matching)
    wanted = places(**{"logs-a": 2, "logs-b": 2, "t": 2})
    run(world, members, lambda: shared(members, wanted))
    world.change_topics(**{"logs-c": 3, "unlike": 1})
    wanted |= places(**{"logs-c": 3})
    run(world, members, lambda: shared(members, wanted))
    assert {place for place in matching.owned if place[0] == "logs-c"} == places(**{"logs-c": 3})


def test_several_topics_with_different_partition_counts(kind: type[Client]) -> None:
    counts = {"one": 1, "three": 3, "seven": 7, "twelve": 12}
    world = client_world(**counts)
    members = [kind(world, f"m{number}", *counts) for number in range(4)]
    run(world, members, lambda: shared(members, places(**counts)) and all(each.owned for each in members))
    gone = members.pop(0)
    gone.leave()
    run(world, members, lambda: shared(members, places(**counts)))
    assert rest(world, members) == 0


# Zombies


@pytest.mark.parametrize("failed_over", [False, True], ids=["same", "new"])
def test_a_zombie_from_an_old_generation_commits(kind: type[Client], *, failed_over: bool) -> None:
    """To the coordinator that has fenced it, and to one that knows of that from its log alone."""
    world, members = group_of(kind, 2)
    zombie = members.pop(0)
    place = min(zombie.owned)
    assert zombie.commit(5, place) is ErrorCode.NONE
    run(world, members, lambda: shared(members, T))
    assert members[0].commit(9, place) is ErrorCode.NONE
    if failed_over:
        world.fail_over()
    assert zombie.commit(6, place) in OLD_GENERATION
    assert world.offsets()[place] == 9
    zombie.have(())
    run(world, [zombie, *members], lambda: shared([zombie, *members], T) and bool(zombie.owned))


def test_a_zombie_commits_after_a_rebalance_that_it_has_slept_through(kind: type[Client]) -> None:
    """Its session lasts, and the partition is another's."""
    world, members = group_of(kind, 2)
    zombie = members[0]
    _, old = zombie.identity()
    held = set(zombie.owned)
    members.append(kind(world, "new"))
    run(world, members, lambda: shared(members, T) and bool(members[2].owned))
    (place, *_) = sorted(held - zombie.owned)
    answer = world.commit_offsets({place: 7}, member_id=zombie.identity()[0], generation_id=old)
    codes = (
        {answer.code}
        if answer.code
        else {ErrorCode(each.error_code) for topic in answer.value.topics for each in topic.partitions}
    )
    assert codes <= OLD_GENERATION
    assert world.offsets() == {}


# That the cases can fail


def test_two_owners_are_found(kind: type[Client]) -> None:
    world, members = group_of(kind, 2)
    members[0].have(T)
    members[0].silent = True
    with pytest.raises(AssertionError, match="two owners"):
        run(world, members, steps=1)


def test_a_group_that_does_not_come_to_rest_is_found(kind: type[Client]) -> None:
    world = client_world()
    members = [kind(world, "m0")]
    world.commits = False
    with pytest.raises(AssertionError, match="not after"):
        run(world, members, lambda: shared(members, T), steps=5)
