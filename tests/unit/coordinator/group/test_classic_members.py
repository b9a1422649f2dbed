"""Classic groups: member ids, static members, limits, leaving, and requests that are wrong."""

from __future__ import annotations

from typing import Any

import pytest
from unit.coordinator.world import SESSION_MS, World, subscription

from penstock.coordinator.group.classic_requests import MEMBER_ID_PREFIX_MAX_BYTES
from penstock.coordinator.limits import PENDING_MEMBERS_MAX
from penstock.errors import ErrorCode
from penstock.protocol.limits import STRING_MAX_BYTES

# Member ids (KIP-394)


@pytest.mark.parametrize("version", [0, 3, 4, 9])
@pytest.mark.parametrize("as_instance", [False, True])
def test_an_id_that_is_too_long_to_begin_a_member_id_is_refused(version: int, as_instance: bool) -> None:
    """A member id is a string of the protocol, which the coordinator answers with and stores."""
    longest = "c" * MEMBER_ID_PREFIX_MAX_BYTES
    for prefix, taken in ((longest, True), (longest + "c", False), ("\u00e4" * (STRING_MAX_BYTES // 2), False)):
        world = World()
        named: dict[str, Any] = {"instance_id": prefix} if as_instance else {"client": prefix}
        if as_instance and version < 5:
            continue
        join = world.join(version=version, **named)
        if taken:
            assert join.code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED)
            world.resign()
            assert join.done
        else:
            assert join.code is ErrorCode.INVALID_REQUEST
            assert "too long" in join.message
            assert world.state.groups.find("g") is None


def test_a_member_id_that_is_not_used_expires_with_the_session() -> None:
    world = World()
    member_id = world.member_id(session_ms=6_000)
    world.advance(6_000)
    assert world.join(member_id=member_id).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert len(world.state.pending) == 0


def test_a_member_id_that_was_given_out_leaves_nothing_in_the_log() -> None:
    world = World()
    world.member_id()
    assert world.written() == []
    assert world.list_groups() == []


def test_a_rebalance_waits_for_who_was_given_an_id() -> None:
    world = World()
    (old,) = world.stable()
    coming = world.member_id()
    again = world.join(member_id=old.member_id)
    assert not again.done
    world.join(member_id=coming)
    assert again.value.generation_id == 2


def test_a_rebalance_does_not_wait_longer_than_the_id_is_good_for() -> None:
    world = World()
    (old,) = world.stable(session_ms=300_000)
    world.member_id(session_ms=6_000)
    again = world.join(member_id=old.member_id, session_ms=300_000)
    world.advance(5_999)
    assert not again.done
    world.advance(1)
    assert again.value.generation_id == 2


def test_who_was_given_an_id_may_leave() -> None:
    world = World()
    member_id = world.member_id()
    assert world.leave(member_id).value.members[0].error_code == ErrorCode.NONE
    assert world.join(member_id=member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_id_that_was_given_to_a_dynamic_member_is_nobody_elses() -> None:
    world = World()
    member_id = world.member_id()
    assert world.join(member_id=member_id, instance_id="i").code is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("joins", [11_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_joins_with_random_ids_hold_a_bounded_memory(joins: int) -> None:
    world = World()
    (honest,) = world.stable(group="honest", session_ms=300_000)
    written = len(world.written())
    for index in range(joins):
        unknown = world.join(f"group {index % 100}", f"random {index}")
        assert unknown.code is ErrorCode.UNKNOWN_MEMBER_ID
        world.member_id(f"group {index}")
        if index % 100 == 0:
            world.advance(1)
    world.advance(1)
    assert len(world.state.pending) == PENDING_MEMBERS_MAX
    assert len(world.runtime.timers) <= PENDING_MEMBERS_MAX + 10
    assert len(world.state.groups) == 1
    world.advance(SESSION_MS)
    assert len(world.state.pending) == 0
    assert world.state.pending.forming("group 4") is None
    assert len(world.written()) == written
    assert world.heartbeat(honest.member_id, group="honest").code is ErrorCode.NONE


# Static members (KIP-345)


def static(world: World, *instances: str, **request: object) -> list[str]:
    """A stable group of static members. Returns their member ids."""
    joins = [world.join(instance_id=each, **request) for each in instances]  # type: ignore[arg-type]
    world.advance(3_000 * (len(instances) + 1))
    world.sync_all([each.value for each in joins])
    return [each.value.member_id for each in joins]


def test_a_static_member_needs_no_member_id_first() -> None:
    world = World()
    (member_id,) = static(world, "i")
    assert member_id.startswith("i-")
    assert world.describe().members[0].group_instance_id == "i"


def test_a_static_member_that_starts_again_takes_its_place_and_nobody_else_notices() -> None:
    world = World()
    leader, follower = static(world, "a", "b")
    back = world.join(instance_id="b").value
    assert back.member_id != follower
    assert back.generation_id == 1
    assert back.leader == leader
    assert not back.skip_assignment
    assert world.sync(back).value.assignment == follower.encode()
    assert world.heartbeat(leader, 1).code is ErrorCode.NONE


def test_the_new_id_of_a_static_member_survives_the_coordinator() -> None:
    world = World()
    _, follower = static(world, "a", "b")
    back = world.join(instance_id="b").value
    world.fail_over()
    assert world.heartbeat(back.member_id, 1, instance_id="b").code is ErrorCode.NONE
    assert world.heartbeat(follower, 1, instance_id="b").code is ErrorCode.FENCED_INSTANCE_ID
    assert world.sync(back).value.assignment == follower.encode()


def test_a_leader_that_starts_again_is_told_to_skip_the_assignment() -> None:
    world = World()
    static(world, "a", "b")
    back = world.join(instance_id="a", version=9).value
    assert back.skip_assignment
    assert back.leader == back.member_id
    assert len(back.members) == 2


def test_before_version_9_a_leader_that_starts_again_is_not_told_that_it_leads() -> None:
    world = World()
    leader, _ = static(world, "a", "b")
    back = world.join(instance_id="a", version=8).value
    assert not back.skip_assignment
    assert back.leader == leader
    assert back.members == []
    twice = world.join(instance_id="a", version=9).value
    assert twice.skip_assignment


def test_who_has_the_old_id_of_a_static_member_is_fenced() -> None:
    world = World()
    (old,) = static(world, "a")
    world.join(instance_id="a")
    assert world.heartbeat(old, 1, instance_id="a").code is ErrorCode.FENCED_INSTANCE_ID
    assert world.join(member_id=old, instance_id="a").code is ErrorCode.FENCED_INSTANCE_ID
    commit = world.commit_offsets({("t", 0): 1}, member_id=old, instance_id="a", generation_id=1)
    assert commit.code is ErrorCode.FENCED_INSTANCE_ID
    (left,) = world.leave((old, "a")).value.members
    assert left.error_code == ErrorCode.FENCED_INSTANCE_ID
    assert world.heartbeat(old, 1).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_waits_to_join_is_fenced_by_the_next() -> None:
    world = World()
    first = world.join(instance_id="a")
    second = world.join(instance_id="a")
    assert first.code is ErrorCode.FENCED_INSTANCE_ID
    world.advance(6_000)
    assert second.value.generation_id == 1
    assert len(second.value.members) == 1


def test_a_static_member_that_starts_again_before_its_first_generation_keeps_its_place_while_it_waits() -> None:
    world = World(group_initial_rebalance_delay_ms=60_000)
    first = world.join(instance_id="a")
    back = world.join(instance_id="a")
    assert first.code is ErrorCode.FENCED_INSTANCE_ID
    world.advance(2 * SESSION_MS)
    assert not back.done
    world.advance(60_000)
    assert back.value.generation_id == 1


def test_a_static_member_that_waits_to_sync_is_fenced_by_the_next_and_all_rebalance() -> None:
    world = World()
    joins = [world.join(instance_id=each) for each in "ab"]
    world.advance(9_000)
    waiting = world.sync(joins[1].value)
    back = world.join(instance_id="b")
    assert waiting.code is ErrorCode.FENCED_INSTANCE_ID
    assert not back.done
    assert world.sync(joins[0].value, {}).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_static_member_that_starts_again_with_another_protocol_makes_all_rebalance() -> None:
    world = World()
    leader, _ = static(world, "a", "b", protocols=("range", "sticky"))
    back = world.join(instance_id="b", protocols=("sticky",))
    assert not back.done
    assert world.heartbeat(leader, 1).code is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(member_id=leader, instance_id="a", protocols=("range", "sticky"))
    assert back.value.protocol_name == "sticky"


def test_a_static_member_that_is_away_stays_until_its_session_ends() -> None:
    world = World()
    away, leader = static(world, "a", "b", session_ms=300_000)
    new = world.join_new(session_ms=300_000)
    world.join(member_id=leader, instance_id="b", session_ms=300_000)
    world.advance(60_000)
    assert new.value.generation_id == 2
    assert away in {member.member_id for member in world.describe().members}
    world.advance(240_000)
    assert away not in {member.member_id for member in world.describe().members}


def test_a_rebalance_waits_on_while_all_static_members_are_away() -> None:
    world = World()
    members = static(world, "a", "b", session_ms=300_000)
    world.leave((members[1], "b"))
    world.advance(60_000)
    assert world.describe().group_state == "PreparingRebalance"
    back = world.join(instance_id="a", session_ms=300_000)
    assert back.value.generation_id == 2


def test_when_the_new_id_of_a_static_member_cannot_be_stored_the_old_one_holds() -> None:
    world = World()
    leader, follower = static(world, "a", "b")
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    back = world.join(instance_id="b", topics=("other",))
    assert back.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refuses = None
    assert world.heartbeat(follower, 1, instance_id="b").code is ErrorCode.NONE
    assert world.heartbeat(leader, 1, instance_id="a").code is ErrorCode.NONE
    world.advance(SESSION_MS)
    assert world.describe().members == []


def test_an_administrator_removes_static_members_by_their_instances() -> None:
    world = World()
    static(world, "a", "b", "c")
    left = world.leave(("", "a"), ("", "b"), ("", "nobody")).value.members
    assert [each.error_code for each in left] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert [member.group_instance_id for member in world.describe().members] == ["c"]


# Limits


def test_a_group_takes_no_more_members_than_its_greatest_size() -> None:
    world = World(group_max_size=2)
    joined = world.stable(2)
    assert world.join().code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.heartbeat(joined[0].member_id).code is ErrorCode.NONE


def test_of_those_who_join_an_empty_group_together_the_first_ones_stay() -> None:
    world = World(group_max_size=2)
    ids = [world.member_id() for _ in range(3)]
    joins = [world.join(member_id=each) for each in ids]
    assert joins[2].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    world.advance(9_000)
    assert [each.value.generation_id for each in joins[:2]] == [1, 1]


def test_a_group_that_is_too_large_for_its_new_coordinator_shrinks() -> None:
    world = World()
    first, second, third = world.stable(3)
    world.configure(group_max_size=2)
    world.fail_over()
    joins = [world.join(member_id=each.member_id) for each in (third, first, second)]
    assert joins[2].code is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [each.value.generation_id for each in joins[:2]] == [2, 2]


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_must_be_within_the_bounds(session_ms: int) -> None:
    join = World().join(session_ms=session_ms)
    assert join.code is ErrorCode.INVALID_SESSION_TIMEOUT
    assert str(session_ms) in join.message


# Leaving


def test_a_member_that_leaves_makes_the_others_share_anew() -> None:
    world = World()
    first, second = world.stable(2)
    assert world.leave(first.member_id).value.members[0].error_code == ErrorCode.NONE
    again = world.join(member_id=second.member_id)
    assert again.value.generation_id == 2
    assert len(again.value.members) == 1


def test_a_group_is_empty_when_the_last_member_has_left_and_that_is_stored() -> None:
    world = World()
    (only,) = world.stable()
    world.leave(only.member_id)
    assert world.describe().group_state == "Empty"
    world.fail_over()
    assert world.describe().group_state == "Empty"
    assert world.stable()[0].generation_id == 3


def test_members_that_leave_together_cause_one_rebalance() -> None:
    world = World()
    joined = world.stable(3)
    left = world.leave(joined[0].member_id, joined[1].member_id, "nobody").value.members
    assert [each.error_code for each in left] == [ErrorCode.NONE, ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    assert world.join(member_id=joined[2].member_id).value.generation_id == 2


def test_before_version_3_the_error_of_the_one_member_is_that_of_the_response() -> None:
    world = World()
    (only,) = world.stable()
    assert world.leave("nobody", version=2).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.leave(only.member_id, version=2).code is ErrorCode.NONE
    assert world.describe().members == []


def test_a_member_that_leaves_while_it_waits_to_join_is_told() -> None:
    world = World()
    first, second = world.stable(2)
    waiting = world.join(member_id=first.member_id)
    world.leave(first.member_id)
    assert waiting.code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(member_id=second.member_id).value.generation_id == 2


def test_nobody_leaves_a_group_that_does_not_exist() -> None:
    left = World().leave("m", ("", "i"), group="none").value.members
    assert [each.error_code for each in left] == [ErrorCode.UNKNOWN_MEMBER_ID] * 2


def test_a_group_whose_first_members_all_leave_is_empty_after_the_delay() -> None:
    world = World()
    first = world.member_id()
    join = world.join(member_id=first)
    world.leave(first)
    assert join.code is ErrorCode.UNKNOWN_MEMBER_ID
    world.advance(3_000)
    assert world.describe().group_state == "Empty"


# Wrong requests


def test_a_group_needs_an_id() -> None:
    world = World()
    (only,) = world.stable()
    assert world.join("").code is ErrorCode.INVALID_GROUP_ID
    assert world.sync(only, group="").code is ErrorCode.INVALID_GROUP_ID
    assert world.heartbeat("m", group="").code is ErrorCode.INVALID_GROUP_ID
    assert world.leave("m", group="").code is ErrorCode.INVALID_GROUP_ID
    assert world.delete_offsets({"t": [0]}, group="").code is ErrorCode.INVALID_GROUP_ID


def test_unknown_members_are_told_so() -> None:
    world = World()
    (only,) = world.stable()
    assert world.join(member_id="nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.join(member_id="nobody", instance_id="i").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("nobody").code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("nobody", group="none").code is ErrorCode.UNKNOWN_MEMBER_ID
    only.member_id = "nobody"
    assert world.sync(only).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.sync(only, group="none").code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_zombie_of_an_old_generation_is_fenced() -> None:
    world = World()
    (old,) = world.stable()
    world.join(member_id=old.member_id)
    assert world.sync(old).code is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat(old.member_id, 1).code is ErrorCode.ILLEGAL_GENERATION
    zombie = world.commit_offsets({("t", 0): 1}, member_id=old.member_id, generation_id=1)
    assert zombie.code is ErrorCode.ILLEGAL_GENERATION


def test_protocols_must_fit_those_of_the_group() -> None:
    world = World()
    (only,) = world.stable(protocols=("range", "sticky"))
    assert world.join(protocols=("other",)).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join(member_id=only.member_id, protocols=()).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join("new", protocol_type="").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.join("new", protocols=()).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(only, protocol_name="other").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(only, protocol_type="connect").code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.sync(only, protocol_name=None, protocol_type=None).code is ErrorCode.NONE


def test_a_protocol_that_is_named_twice_counts_once() -> None:
    world = World()
    join = world.join_new(protocols=(("range", b"first"), ("range", b"second")))
    world.advance(3_000)
    assert join.value.members[0].metadata == b"first"
    world.join_new(protocols=("range",))
    assert world.join(protocols=("other",)).code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.parametrize(
    "metadata", [b"", b"\0", b"\xff\xff", b"\0\1\xff\xff\xff", subscription(["t"])[:-3] + b"\xff" * 9]
)
def test_metadata_that_cannot_be_read_is_the_members_own_affair(metadata: bytes) -> None:
    world = World()
    joined = world.stable(2, protocols=(("range", metadata),))
    assert joined[0].members[0].metadata == metadata
    assert world.describe().group_state == "Stable"


def test_before_version_7_no_protocol_is_an_empty_name() -> None:
    world = World()
    first = world.join(instance_id="a", version=5)
    world.join(instance_id="a", version=5)
    assert first.code is ErrorCode.FENCED_INSTANCE_ID
    assert first.value.protocol_name == ""
