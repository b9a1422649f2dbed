"""JoinGroup (key 11), versions 0-9: a member wants to be in the next generation, and waits until that begins.

From version 4 on a dynamic member without an id is given one, and has to join again with it (KIP-394). From version 5
on an instance id makes a member static (KIP-345, see static.py). Before version 1 the rebalance timeout is the session
timeout.
"""

from __future__ import annotations

from penstock.coordinator.group.base import NO_MEMBER
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember, join_error, protocols_of
from penstock.coordinator.group.classic.pending import SESSION
from penstock.coordinator.group.classic.rebalance import (
    JOIN,
    NOTHING,
    complete_rebalance,
    end_session,
    rebalance_or_complete,
    write,
)
from penstock.coordinator.group.classic.request import Join
from penstock.coordinator.group.classic.static import replace_member
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.limits import NEW_MEMBER_JOIN_TIMEOUT_MS
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import ErrorCode, RequestError

MEMBER_ID_REQUIRED_FROM = 4


def join_new(state: GroupState, join: Join, tombstones: list[CoordinatorRecord], now_ms: int) -> Result[None]:
    """Joins a group that does not exist, or an empty one of another kind, which `tombstones` delete.

    The group is created with its first member. Its record, without members, preserves it should the broker fail.
    """
    request = join.request
    group = state.pending.forming(request.group_id)
    if group is None:
        if request.member_id != NO_MEMBER:
            return join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id, now_ms)
        group = ClassicGroup(request.group_id, wall_ms=state.wall.at(now_ms))
    result = join_classic(state, group, join, now_ms)
    assert not result.records, "a group that was not there has nothing to tell yet"
    if not group.members:
        return result

    def stored() -> None:
        state.pending.formed(group.group_id)
        state.groups.put(group)

    def appended(code: ErrorCode, at_ms: int) -> None:
        if code:
            abandon(state, group, coordinator_error(code), at_ms)
            join.reply(join_error(coordinator_error(code), NO_MEMBER), at_ms)

    return write(*tombstones, group.new_record(), appended=appended, replay=stored)


def abandon(state: GroupState, group: ClassicGroup, code: ErrorCode, now_ms: int) -> None:
    """Removes a group that could not be stored, and answers the members that have joined it meanwhile."""
    if state.groups.find(group.group_id) is group:
        return  # nobody knows: it may be stored all the same
    if state.pending.forming(group.group_id) is group:
        state.pending.formed(group.group_id)
    for member in group.members.values():
        group.answer_join(member, join_error(code, NO_MEMBER), now_ms)
        end_session(state, group, member.member_id)
    if state.groups.find_of(ClassicGroup, group.group_id) is None:
        state.timers.cancel((JOIN, group.group_id))
    group.move(State.DEAD, state.wall.at(now_ms))


def join_classic(state: GroupState, group: ClassicGroup, join: Join, now_ms: int) -> Result[None]:
    request = join.request
    member_id = request.member_id
    if not has_room(group, member_id, state.settings.broker().group_max_size):
        end_session(state, group, member_id)
        state.pending.remove(group, member_id)
        group.remove(member_id)
        join.refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, NO_MEMBER, now_ms)
        return complete_rebalance(state, group, now_ms)
    if group.state is State.DEAD:
        return join.refuse(ErrorCode.COORDINATOR_NOT_AVAILABLE, member_id, now_ms)
    if not group.supports(request.protocol_type, [protocol.name for protocol in request.protocols]):
        return join.refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, member_id, now_ms)
    if member_id == NO_MEMBER:
        return join_without_id(state, group, join, now_ms)
    if member_id in group.pending:
        if request.group_instance_id is not None:
            # Such ids are given to dynamic members only.
            return join.refuse(ErrorCode.UNKNOWN_MEMBER_ID, member_id, now_ms)
        state.pending.remove(group, member_id)
        return add_member(state, group, member_id, join, now_ms)
    return join_again(state, group, join, now_ms)


def has_room(group: ClassicGroup, member_id: str, max_size: int) -> bool:
    """Whether the group can take the member (group.max.size).

    During a rebalance only members that have joined count: if it is too large, the last ones are refused.
    """
    if group.state in (State.EMPTY, State.DEAD):
        return True
    member = group.members.get(member_id)
    if group.state is State.PREPARING_REBALANCE:
        return (member is not None and member.awaits_join) or group.awaiting_join < max_size
    return member is not None or len(group.members) < max_size


def join_without_id(state: GroupState, group: ClassicGroup, join: Join, now_ms: int) -> Result[None]:
    """Joins a new member, or a static one that has started again."""
    instance_id = join.request.group_instance_id
    prefix = join.context.client_id if instance_id is None else instance_id
    member_id = f"{prefix}-{state.new_id()}"
    if instance_id is not None:
        present = group.static_members.get(instance_id)
        if present is not None:
            return replace_member(state, (group, group.members[present]), member_id, join, now_ms)
    elif join.context.api_version >= MEMBER_ID_REQUIRED_FROM:
        state.pending.add(
            group,
            member_id,
            is_stored=state.groups.find(group.group_id) is group,
            expires_ms=now_ms + join.request.session_timeout_ms,
            now_ms=now_ms,
        )
        return join.refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id, now_ms)
    return add_member(state, group, member_id, join, now_ms)


def add_member(state: GroupState, group: ClassicGroup, member_id: str, join: Join, now_ms: int) -> Result[None]:
    """Adds a member, which makes the group rebalance."""
    member = ClassicMember.of(member_id, join.context, join.request)
    member.is_new = True
    if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
        group.new_member_added = True
    group.add(member, join.reply)
    # It does not know its id yet or cannot send heartbeats while it waits. If its client is gone, it must go, too.
    state.timers.set((SESSION, group.group_id, member_id), now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
    return rebalance_or_complete(state, group, f"{member_id} joins; {join.reason}", now_ms)


def join_again(state: GroupState, group: ClassicGroup, join: Join, now_ms: int) -> Result[None]:
    """A member joins again: for the present rebalance, because it missed an answer, or to have a rebalance.

    A member without changes does not disturb a complete generation, unless it leads: that is how a leader has the group
    assign anew when topics have changed.
    """
    member_id = join.request.member_id
    try:
        group.check_member(member_id, join.request.group_instance_id)
    except RequestError as error:
        response = join_error(error.code, member_id)
        response.protocol_name = None
        join.reply(response, now_ms)
        return NOTHING
    member = group.members[member_id]
    if member.offers(protocols_of(join.request.protocols)) and (
        group.state is State.COMPLETING_REBALANCE or (group.state is State.STABLE and group.leader_id != member_id)
    ):
        join.reply(group.joined(member), now_ms)
        return NOTHING
    join.update(group, member, now_ms)
    return rebalance_or_complete(state, group, f"{member_id} joins again; {join.reason}", now_ms)
