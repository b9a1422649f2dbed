"""Somebody sets the clock: members keep their sessions and get their shares; only what is stamped follows."""

from __future__ import annotations

import pytest
from unit.coordinator.consumers import ConsumerWorld
from unit.coordinator.world import SESSION_MS, World

from penstock.coordinator.limits import GROUP_SETTLING_MS

DAY_MS = 86_400_000
STEPS_MS = [-DAY_MS, -60_000, 12_000, 60_000, DAY_MS]
T0 = ("t", 0)


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_members_of_a_classic_group_keep_their_sessions(step_ms: int) -> None:
    world = World()
    members = world.stable(3)
    world.wall.ahead_ms = step_ms
    world.advance(SESSION_MS - 1)
    for member in members:
        world.heartbeat(member.member_id)
    world.advance(SESSION_MS - 1)
    assert len(world.state.groups.get("g").members) == 3
    world.advance(1)
    assert not world.state.groups.get("g").members


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_members_of_a_consumer_group_keep_their_sessions(step_ms: int) -> None:
    world = ConsumerWorld(group_consumer_session_timeout_ms=45_000)
    world.consumers(3)
    world.wall.ahead_ms = step_ms
    world.advance(44_999)
    assert len(world.group().members) == 3
    world.advance(1)
    assert not len(world.group().members)


@pytest.mark.parametrize("step_ms", STEPS_MS)
def test_a_group_does_not_wait_for_a_day_until_it_shares_anew(step_ms: int) -> None:
    world = ConsumerWorld()
    members = world.consumers(2)
    world.configure(group_consumer_assignment_interval_ms=1_000)
    world.wall.ahead_ms = step_ms
    world.change_topics(t=8)
    world.advance(1_000)
    world.reconcile(*members)
    assert sum(len(numbers) for member in members for numbers in member.owned.values()) == 8


def test_a_group_is_settled_whatever_the_clock_said_when_it_shared() -> None:
    world = ConsumerWorld()
    world.wall.ahead_ms = DAY_MS
    (member,) = world.consumers(1)
    world.wall.ahead_ms = 0
    assert not world.wall.within(world.group().epoch().assignment_timestamp_ms, GROUP_SETTLING_MS, world.now_ms)
    assert member.beat().value.heartbeat_interval_ms == 5_000


def test_commits_are_stamped_and_expire_by_the_clock() -> None:
    world = World(offsets_retention_minutes=24 * 60)
    world.wall.ahead_ms = -DAY_MS
    world.commit_offsets({T0: 1})
    assert world.state.offsets.committed.get("g", *T0).commit_timestamp_ms == world.now_ms - DAY_MS
    world.advance(world.settings.offsets_retention_check_interval_ms)
    assert world.offsets() == {T0: 1}
    world.wall.ahead_ms = 0
    world.advance(world.settings.offsets_retention_check_interval_ms)
    assert world.offsets() == {}
