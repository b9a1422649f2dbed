"""Classic groups: joins, generations, assignments, and what members are told on the way."""

from __future__ import annotations

from unit.coordinator.world import REBALANCE_MS, SESSION_MS, World

from penstock.errors import ErrorCode


def test_a_member_joins_an_empty_group_after_the_initial_delay_and_leads_it() -> None:
    world = World()
    join = world.join_new()
    world.advance(2_999)
    assert not join.done
    world.advance(1)
    joined = join.value
    assert joined.generation_id == 1
    assert joined.leader == joined.member_id
    assert joined.protocol_name == "range"
    assert [member.member_id for member in joined.members] == [joined.member_id]
    synced = world.sync(joined, {joined.member_id: b"all"})
    assert synced.value.assignment == b"all"
    assert world.describe().group_state == "Stable"


def test_a_dynamic_member_must_come_with_an_id_from_version_4_on() -> None:
    world = World()
    first = world.join(version=4)
    assert first.code is ErrorCode.MEMBER_ID_REQUIRED
    assert first.value.member_id.startswith("c-")
    assert not world.join(version=3).done


def test_only_the_leader_hears_of_the_other_members() -> None:
    leader, follower = World().stable(2)
    assert len(leader.members) == 2
    assert follower.members == []
    assert follower.leader == leader.member_id


def test_members_that_come_during_the_initial_delay_extend_it_up_to_the_rebalance_timeout() -> None:
    world = World()
    first = world.join_new(rebalance_ms=7_000)
    world.advance(1_000)
    world.join_new(rebalance_ms=7_000)
    world.advance(2_000)
    assert not first.done
    world.advance(2_000)
    world.join_new(rebalance_ms=7_000)
    world.advance(1_000)
    assert not first.done
    world.advance(1_000)
    assert first.done
    assert first.at_ms is not None
    assert first.value.generation_id == 1


def test_a_follower_waits_for_the_leaders_assignment() -> None:
    world = World()
    first, second = world.join_new(), world.join_new()
    world.advance(9_000)
    waiting = world.sync(second.value)
    assert not waiting.done
    world.sync(first.value, {second.value.member_id: b"yours"})
    assert waiting.value.assignment == b"yours"


def test_who_the_leader_forgets_is_assigned_nothing() -> None:
    world = World()
    first, second = world.join_new(), world.join_new()
    world.advance(9_000)
    waiting = world.sync(second.value)
    world.sync(first.value, {first.value.member_id: b"mine", "nobody": b"x"})
    assert waiting.value.assignment == b""
    assert not waiting.code


def test_a_join_makes_a_stable_group_rebalance() -> None:
    world = World()
    (old,) = world.stable()
    new = world.join_new()
    assert world.heartbeat(old.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(member_id=old.member_id)
    assert again.value.generation_id == new.value.generation_id == 2


def test_who_does_not_join_again_in_time_is_out() -> None:
    world = World()
    slow, leader = world.stable(2, session_ms=300_000)[::-1]
    new = world.join_new()
    world.join(member_id=leader.member_id)
    world.advance(REBALANCE_MS - 1)
    assert not new.done
    world.advance(1)
    assert new.value.generation_id == 2
    assert {member.member_id for member in world.describe().members} == {leader.member_id, new.value.member_id}
    assert world.heartbeat(slow.member_id, 2).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_another_member_leads_when_the_leader_is_gone() -> None:
    world = World()
    leader, follower = world.stable(2, session_ms=300_000)
    new = world.join_new()
    again = world.join(member_id=follower.member_id)
    world.advance(REBALANCE_MS)
    assert leader.member_id not in {member.member_id for member in world.describe().members}
    assert again.value.leader == follower.member_id == new.value.leader
    assert len(again.value.members) == 2


def test_a_member_whose_session_ends_is_out_and_the_others_share_anew() -> None:
    world = World()
    dead, alive = world.stable(2)
    world.advance(SESSION_MS - 1)
    world.heartbeat(alive.member_id)
    world.advance(1)
    assert world.heartbeat(alive.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(dead.member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_for_a_rebalance_keeps_its_session() -> None:
    world = World()
    first, second = world.stable(2, session_ms=6_000)
    second_again = world.join(member_id=second.member_id, protocols=("other", "range"), session_ms=6_000)
    for _ in range(4):
        world.advance(5_000)
        world.heartbeat(first.member_id)
    assert not second_again.done
    world.join(member_id=first.member_id, session_ms=6_000)
    assert second_again.value.generation_id == 2


def test_who_joins_and_does_not_sync_in_time_is_out() -> None:
    world = World()
    first, second = world.join_new(session_ms=300_000), world.join_new(session_ms=300_000)
    world.advance(9_000)
    synced = world.sync(first.value, {})
    assert synced.done
    world.advance(REBALANCE_MS)
    assert [member.member_id for member in world.describe().members] == [first.value.member_id]
    assert world.heartbeat(first.value.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(second.value.member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_leader_fails_in_the_middle_of_a_rebalance() -> None:
    world = World()
    leader, follower = world.join_new(), world.join_new()
    world.advance(9_000)
    waiting = world.sync(follower.value)
    world.advance(SESSION_MS)
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.join(member_id=follower.value.member_id)
    assert again.value.leader == follower.value.member_id
    assert again.value.generation_id == 2
    assert world.heartbeat(leader.value.member_id, 2).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_follower_that_has_nothing_new_to_say_disturbs_nobody() -> None:
    world = World()
    leader, follower = world.stable(2)
    again = world.join(member_id=follower.member_id)
    assert again.value.generation_id == 1
    assert again.value.members == []
    assert world.heartbeat(leader.member_id).code is ErrorCode.NONE


def test_a_leader_that_joins_again_makes_the_group_share_anew() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(member_id=leader.member_id)
    assert world.heartbeat(follower.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_with_other_topics_makes_the_group_share_anew() -> None:
    world = World()
    leader, follower = world.stable(2)
    world.join(member_id=follower.member_id, topics=("t", "u"))
    assert world.heartbeat(leader.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_missed_the_answer_to_its_join_is_told_again() -> None:
    world = World()
    leader, follower = world.join_new(), world.join_new()
    world.advance(9_000)
    for first in (leader.value, follower.value):
        again = world.join(member_id=first.member_id)
        assert again.value == first


def test_a_sync_of_a_stable_group_is_answered_at_once() -> None:
    world = World()
    _, follower = world.stable(2)
    assert world.sync(follower).value.assignment == follower.member_id.encode()


def test_the_protocol_that_most_like_best_among_those_that_all_support_wins() -> None:
    world = World()
    first = world.join_new(protocols=("range", "roundrobin", "sticky"))
    world.join_new(protocols=("sticky", "roundrobin", "other"))
    world.join_new(protocols=("roundrobin", "sticky"))
    world.join_new(protocols=("sticky", "roundrobin"))
    world.advance(12_000)
    assert first.value.protocol_name == "roundrobin"


def test_a_new_join_while_the_leader_assigns_cancels_the_assignment() -> None:
    world = World()
    leader, follower = world.join_new(), world.join_new()
    world.advance(9_000)
    waiting = world.sync(follower.value)
    world.join_new()
    assert waiting.code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.sync(leader.value, {}).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_join_that_is_sent_twice_is_answered_twice() -> None:
    world = World()
    member_id = world.member_id()
    first = world.join(member_id=member_id)
    second = world.join(member_id=member_id)
    assert first.code is ErrorCode.REBALANCE_IN_PROGRESS
    world.advance(3_000)
    assert second.value.generation_id == 1


def test_a_new_member_whose_client_is_gone_does_not_stay_forever() -> None:
    world = World()
    world.stable(session_ms=1_800_000, rebalance_ms=1_800_000)
    gone = world.join(version=3, rebalance_ms=1_800_000)
    world.advance(299_999)
    assert not gone.done
    world.advance(1)
    assert gone.code is ErrorCode.UNKNOWN_MEMBER_ID
