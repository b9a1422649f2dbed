"""Static members that start again (KIP-345): a new process takes the place of the one that had the instance id.

Whoever still has the old member id is fenced. In a stable group nobody else notices: the new process has what the old
one was assigned. Only if another protocol would win the vote now, or a rebalance is under way, all have to share anew.
"""

from __future__ import annotations

from penstock.coordinator.group.base import NO_MEMBER
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.member import ClassicMember, join_error
from penstock.coordinator.group.classic.rebalance import (
    end_session,
    prepare_rebalance,
    rebalance_or_complete,
    renew_session,
    write,
)
from penstock.coordinator.group.classic.request import Join
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.protocol.messages.sync_group_response import SyncGroupResponse

SKIP_ASSIGNMENT_FROM = 9


def replace_member(
    state: GroupState, place: tuple[ClassicGroup, ClassicMember], member_id: str, join: Join, now_ms: int
) -> Result[None]:
    """The member of a group gets a new id, for the process that has just started."""
    group, member = place
    before = Before(state, group, member)
    fence(state, group, member, now_ms)
    group.rename(member, member_id)
    member.is_new = False
    renew_session(state, group, member, now_ms)
    join.update(group, member, now_ms)
    reason = f"static member {member.instance_id} has started again as {member_id}; {join.reason}"
    if group.state is State.COMPLETING_REBALANCE:
        # The leader may be assigning to the old id, which is nobody now.
        return prepare_rebalance(state, group, reason, now_ms)
    if group.state is not State.STABLE or group.select_protocol() != group.protocol_name:
        return rebalance_or_complete(state, group, reason, now_ms)

    def appended(code: ErrorCode, at_ms: int) -> None:
        if code:
            before.restore(join, code, at_ms)
        elif group.members.get(member_id) is member and group.state is State.STABLE:
            group.answer_join(member, welcome(group, member, before.leader_id, join.context.api_version), at_ms)

    return write(group.record(), appended=appended)


def fence(state: GroupState, group: ClassicGroup, member: ClassicMember, now_ms: int) -> None:
    """Tells who waits under a member's id that another has taken its place."""
    response = join_error(ErrorCode.FENCED_INSTANCE_ID, member.member_id)
    response.protocol_name = None
    group.answer_join(member, response, now_ms)
    member.answer_sync(SyncGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID), now_ms)
    end_session(state, group, member.member_id)


def welcome(
    group: ClassicGroup, member: ClassicMember, old_leader_id: str | None, api_version: int
) -> JoinGroupResponse:
    """The response to a static member that has returned to a stable group.

    A leader must not assign now. From version 9 it is told so, and who the members are (KIP-814). Before, it is told
    that somebody else leads: the id that it had itself.
    """
    response = group.joined(member)
    if api_version >= SKIP_ASSIGNMENT_FROM:
        response.skip_assignment = member.member_id == group.leader_id
    else:
        response.leader = old_leader_id or ""
        response.members = []
    return response


class Before:
    """The state of a static member before another took its place, in case the replacement cannot be stored."""

    def __init__(self, state: GroupState, group: ClassicGroup, member: ClassicMember) -> None:
        self.leader_id = group.leader_id
        self._state = state
        self._group = group
        self._member = member
        self._member_id = member.member_id
        self._protocols = member.protocols
        self._timeouts_ms = (member.rebalance_timeout_ms, member.session_timeout_ms)

    def restore(self, join: Join, code: ErrorCode, now_ms: int) -> None:
        """Restores the old member, unless yet another member has taken its place; the newcomer gets an error."""
        group, member = self._group, self._member
        response = join_error(coordinator_error(code), NO_MEMBER)
        response.generation_id = group.generation_id
        response.protocol_type = group.protocol_type
        response.protocol_name = group.protocol_name
        response.leader = self.leader_id or ""
        if group.members.get(member.member_id) is member and member.join_reply is join.reply:
            end_session(self._state, group, member.member_id)
            group.update(member, self._protocols, *self._timeouts_ms, None)
            group.rename(member, self._member_id)
            renew_session(self._state, group, member, now_ms)
        join.reply(response, now_ms)
