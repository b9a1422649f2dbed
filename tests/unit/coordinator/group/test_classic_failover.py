"""The coordinator of classic groups fails, or cannot store what it has to, at each step of a generation."""

from __future__ import annotations

from functools import partial

import pytest
from unit.coordinator.world import REBALANCE_MS, SESSION_MS, Answer, World, subscription

from penstock.coordinator.group.classic_requests import join_group
from penstock.coordinator.group.context import Context
from penstock.coordinator.group.offsets.commit import commit_offsets
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.runtime.shard import Batch
from penstock.errors import ErrorCode
from penstock.protocol.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)


def test_while_the_first_members_join() -> None:
    world = World()
    joins = [world.join_new(), world.join_new()]
    world.fail_over()
    assert [each.code for each in joins] == [ErrorCode.NOT_COORDINATOR] * 2
    assert world.describe().group_state == "Empty"
    world.advance(60_000)
    assert [each.member_id for each in world.stable(2)[0].members] != []


def test_before_the_new_group_is_stored() -> None:
    world = World()
    world.commits = False
    join = world.join_new()
    assert world.list_groups() == []
    world.fail_over()
    assert join.code is ErrorCode.NOT_COORDINATOR
    assert world.describe().error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_when_a_new_group_cannot_be_stored_it_does_not_exist() -> None:
    world = World()
    member_id = world.member_id()
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    join = world.join(member_id=member_id)
    assert join.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state.groups.find("g") is None
    world.log.refuses = None
    world.advance(600_000)
    assert world.join(member_id=member_id).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.stable()[0].generation_id == 1


def nearly_full_batch(world: World) -> Batch:
    """Opens a batch in which a commit leaves no room for the record of a group with a long name."""
    world.log.max_batch_bytes = 700
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="z" * 540)
    request = OffsetCommitRequest(group_id="x", topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])
    context = Context(9, "c", "/127.0.0.1")
    commit = partial(commit_offsets, context=context, request=request, now_ms=world.now_ms)
    world.runtime.write(world.PARTITION, lambda it: commit(it.state), None, world.now_ms)
    assert world.shard.batch is not None
    return world.shard.batch


def test_who_has_an_id_for_a_group_that_found_no_room_begins_anew() -> None:
    """The batch before it was refused, so the group was never in the state."""
    world = World()
    first, second = (world.member_id("n" * 60, session_ms=1_800_000) for _ in range(2))
    nearly_full_batch(world)
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    assert world.join("n" * 60, first).code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.log.refuses = None
    assert world.join("n" * 60, second).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.stable(group="n" * 60)[0].generation_id == 1


def test_a_new_group_goes_with_its_batch_when_another_was_open_before() -> None:
    """The batch that was open has no room for its record: the group belongs to the next one, which is refused."""
    world = World()
    member_id = world.member_id("n" * 60)
    world.commits = False
    done: Answer[JoinGroupResponse] = Answer(9)
    request = JoinGroupRequest(
        group_id="n" * 60,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=REBALANCE_MS,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=subscription(["t"]))],
    )

    def join(state: GroupState) -> Result[None]:
        return join_group(state, Context(9, "c", "/127.0.0.1"), request, done.reply, world.now_ms)

    first = nearly_full_batch(world)
    world.runtime.write(world.PARTITION, lambda it: join(it.state), done.finished, world.now_ms)
    assert world.shard.batch is not first, "its record has gone into a batch of its own"
    world.log.refuses = ErrorCode.NOT_ENOUGH_REPLICAS
    world.settle()
    assert done.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.state.groups.find("n" * 60) is None


def test_after_the_join_and_before_the_assignment_is_stored() -> None:
    world = World()
    first, second = world.join_new(), world.join_new()
    world.advance(9_000)
    world.commits = False
    syncs = [world.sync(second.value), world.sync(first.value, {})]
    assert not any(each.done for each in syncs)
    world.fail_over()
    world.commits = True
    assert [each.code for each in syncs] == [ErrorCode.NOT_COORDINATOR] * 2
    assert world.heartbeat(first.value.member_id).code is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.stable(2)[0].generation_id == 1


def test_after_the_assignment_is_stored_and_before_it_is_told() -> None:
    world = World()
    first, second = world.join_new(), world.join_new()
    world.advance(9_000)
    world.commits = False
    waiting = world.sync(second.value)
    world.sync(first.value, {second.value.member_id: b"yours"})
    world.fail_over(keep_uncommitted=True)
    world.commit()
    assert waiting.code is ErrorCode.NOT_COORDINATOR
    assert world.describe().group_state == "Stable"
    assert world.sync(second.value).value.assignment == b"yours"
    assert world.heartbeat(first.value.member_id).code is ErrorCode.NONE


def test_while_the_group_is_stable() -> None:
    world = World()
    joined = world.stable(3)
    world.fail_over()
    for each in joined:
        assert world.heartbeat(each.member_id).code is ErrorCode.NONE
        assert world.sync(each).value.assignment == each.member_id.encode()
    described = world.describe()
    assert described.protocol_data == "range"
    assert {member.client_host for member in described.members} == {"/127.0.0.1"}


def test_members_have_a_session_to_find_the_new_coordinator() -> None:
    world = World()
    first, second = world.stable(2)
    world.fail_over()
    world.advance(SESSION_MS - 1)
    world.heartbeat(first.member_id)
    world.advance(1)
    assert world.heartbeat(first.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.heartbeat(second.member_id).code is ErrorCode.UNKNOWN_MEMBER_ID


def test_while_a_stable_group_rebalances_it_falls_back_to_the_last_generation() -> None:
    world = World()
    first, second = world.stable(2)
    again = world.join(member_id=first.member_id)
    world.fail_over()
    assert again.code is ErrorCode.NOT_COORDINATOR
    assert world.describe().group_state == "Stable"
    assert world.heartbeat(second.member_id, 1).code is ErrorCode.NONE
    assert not world.join(member_id=first.member_id).done
    assert world.join(member_id=second.member_id).value.generation_id == 2


def test_a_generation_that_was_told_and_not_stored_is_given_again_to_nobody_else() -> None:
    world = World()
    first, second = world.stable(2)
    world.join(member_id=first.member_id)
    told = world.join(member_id=second.member_id).value
    assert told.generation_id == 2
    world.fail_over()
    zombie = world.commit_offsets({("t", 0): 9}, member_id=second.member_id, generation_id=2)
    assert zombie.code is ErrorCode.ILLEGAL_GENERATION


@pytest.mark.parametrize(
    ("refused", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_an_assignment_that_cannot_be_stored_makes_all_rebalance(refused: ErrorCode, told: ErrorCode) -> None:
    world = World()
    first, second = world.join_new(), world.join_new()
    world.advance(9_000)
    waiting = world.sync(second.value)
    world.log.refuses = refused
    leader = world.sync(first.value, {})
    world.log.refuses = None
    assert waiting.code is told is leader.code
    assert world.heartbeat(first.value.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(member_id=first.value.member_id)
    assert world.join(member_id=second.value.member_id).value.generation_id == 2


def test_an_assignment_that_is_too_large_for_the_log_is_refused() -> None:
    world = World()
    join = world.join_new()
    world.advance(3_000)
    world.log.max_batch_bytes = 1_000
    synced = world.sync(join.value, {join.value.member_id: b"x" * 2_000})
    assert synced.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert world.heartbeat(join.value.member_id).code is ErrorCode.REBALANCE_IN_PROGRESS


def test_an_assignment_that_takes_too_long_to_replicate_makes_all_rebalance() -> None:
    world = World()
    join = world.join_new()
    world.advance(3_000)
    world.commits = False
    synced = world.sync(join.value, {})
    world.advance(5_000)
    assert synced.code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    world.commits = True
    world.commit()
    assert world.join(member_id=join.value.member_id).value.generation_id == 2


def test_an_assignment_that_is_stored_after_the_next_rebalance_began_counts_no_more() -> None:
    world = World()
    join = world.join_new()
    world.advance(3_000)
    world.commits = False
    synced = world.sync(join.value, {join.value.member_id: b"old"})
    late = world.join(version=3)
    assert synced.code is ErrorCode.REBALANCE_IN_PROGRESS
    world.commit()
    assert world.describe().group_state == "PreparingRebalance"
    world.commits = True
    world.join(member_id=join.value.member_id)
    assert late.value.generation_id == 2


def test_while_a_static_member_takes_its_place_again() -> None:
    world = World()
    join = world.join(instance_id="a")
    world.advance(3_000)
    world.sync_all([join.value])
    world.commits = False
    back = world.join(instance_id="a")
    world.fail_over()
    world.commits = True
    assert back.code is ErrorCode.NOT_COORDINATOR
    assert world.heartbeat(join.value.member_id, 1, instance_id="a").code is ErrorCode.NONE


def test_while_the_last_member_leaves() -> None:
    world = World()
    (only,) = world.stable()
    world.commits = False
    left = world.leave(only.member_id)
    world.fail_over()
    world.commits = True
    assert left.code is ErrorCode.NOT_COORDINATOR
    assert world.describe().group_state == "Stable"
    world.advance(SESSION_MS)
    assert world.describe().group_state == "Empty"


def test_while_offsets_commit() -> None:
    world = World()
    (only,) = world.stable()
    world.commit_offsets({("t", 0): 5}, member_id=only.member_id, generation_id=1)
    world.commits = False
    lost = world.commit_offsets({("t", 0): 7}, member_id=only.member_id, generation_id=1)
    world.fail_over()
    world.commits = True
    assert lost.code is ErrorCode.NOT_COORDINATOR
    assert world.offsets() == {("t", 0): 5}
    kept = world.commit_offsets({("t", 0): 8}, member_id=only.member_id, generation_id=1)
    assert kept.code is ErrorCode.NONE
    world.fail_over()
    assert world.offsets() == {("t", 0): 8}


def test_a_broker_that_leads_again_has_nothing_left_of_before() -> None:
    world = World()
    first, _ = world.stable(2)
    world.join(member_id=first.member_id)
    world.resign()
    assert len(world.runtime.timers) == 0
    assert world.heartbeat(first.member_id).code is ErrorCode.NOT_COORDINATOR
    world.log.new_leader()
    world.elect()
    world.advance(SESSION_MS)
    assert world.describe().group_state == "Empty"
