"""LeaveGroup (key 13), versions 0-5: members leave, or static members are removed by their instance ids.

A request may name many (KIP-345); each has an answer of its own.
"""

from __future__ import annotations

from penstock.coordinator.group.base import NO_MEMBER
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.rebalance import NOTHING, drop_member, end_session, rebalance_or_complete
from penstock.coordinator.group.classic.request import reason_of
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.events import events
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

logger = events("coordinator.group")


def leave_classic(
    state: GroupState, group: ClassicGroup, request: LeaveGroupRequest, now_ms: int
) -> Result[LeaveGroupResponse]:
    """Removes members that leave a classic group; the others rebalance."""
    if group.state is State.DEAD:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers = [answer(member, remove(state, group, member, now_ms)) for member in request.members]
    left = [each.member_id for each in answers if not each.error_code]
    rest = NOTHING
    if left and group.state is not State.EMPTY:
        rest = rebalance_or_complete(state, group, f"{', '.join(left)} left", now_ms)
    return Result(LeaveGroupResponse(members=answers), rest.records, rest.appended, replay=False)


def remove(state: GroupState, group: ClassicGroup, leaving: MemberIdentity, now_ms: int) -> ErrorCode:
    """Removes one member. Returns the error, or NONE."""
    member_id = leaving.member_id
    if member_id == NO_MEMBER:
        # An administrator removes a static member, whoever it is now.
        found = None if leaving.group_instance_id is None else group.static_members.get(leaving.group_instance_id)
        if found is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = found
    elif member_id in group.pending:
        state.pending.remove(group, member_id)
        end_session(state, group, member_id)
        return ErrorCode.NONE
    else:
        try:
            group.check_member(member_id, leaving.group_instance_id)
        except RequestError as error:
            return error.code
    logger.info("member left", group=group.group_id, member=member_id, reason=reason_of(leaving.reason))
    drop_member(state, group, group.members[member_id], now_ms)
    return ErrorCode.NONE


def answer(member: MemberIdentity, code: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
