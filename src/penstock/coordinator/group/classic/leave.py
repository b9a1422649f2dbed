"""LeaveGroup (key 13), versions 0-5: members leave, or somebody removes static members by their instance ids.

From version 3 one request may name many (KIP-345); each has an answer of its own. Before, the error of the one member
is that of the response.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.coordinator.group.base import NO_MEMBER, ServerSideGroup
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.rebalance import NOTHING, drop_member, end_session, rebalance_or_complete
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from penstock.protocol.messages.leave_group_response import LeaveGroupResponse, MemberResponse

if TYPE_CHECKING:
    from penstock.coordinator.group.context import Context
    from penstock.coordinator.group.machine import GroupMachine

logger = logging.getLogger(__name__)

MANY_MEMBERS_FROM = 3


def leave_group(
    machine: GroupMachine, context: Context, request: LeaveGroupRequest, now_ms: int
) -> Result[LeaveGroupResponse]:
    """LeaveGroup. Raises RequestError INVALID_GROUP_ID."""
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to leave a group")
    if context.api_version < MANY_MEMBERS_FROM:
        request = LeaveGroupRequest(group_id=request.group_id, members=[MemberIdentity(member_id=request.member_id)])
    group = machine.groups.find(request.group_id) or machine.pending.forming(request.group_id)
    if isinstance(group, ServerSideGroup):
        result = group.leave(machine, context, request, now_ms)
    elif group is None:
        answers = [answer(member, ErrorCode.UNKNOWN_MEMBER_ID) for member in request.members]
        result = Result(LeaveGroupResponse(members=answers))
    else:
        assert isinstance(group, ClassicGroup)
        result = leave_classic(machine, group, request, now_ms)
    if context.api_version < MANY_MEMBERS_FROM and result.response is not None and not result.response.error_code:
        result.response.error_code = result.response.members[0].error_code
        result.response.members = []
    return result


def leave_classic(
    machine: GroupMachine, group: ClassicGroup, request: LeaveGroupRequest, now_ms: int
) -> Result[LeaveGroupResponse]:
    """Members leave a classic group, and the others share anew."""
    if group.state is State.DEAD:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    answers = [answer(member, remove(machine, group, member, now_ms)) for member in request.members]
    left = [each.member_id for each in answers if not each.error_code]
    rest = NOTHING
    if left and group.state is not State.EMPTY:
        rest = rebalance_or_complete(machine, group, f"{', '.join(left)} left", now_ms)
    return Result(LeaveGroupResponse(members=answers), rest.records, rest.appended, replay=False)


def remove(machine: GroupMachine, group: ClassicGroup, leaving: MemberIdentity, now_ms: int) -> ErrorCode:
    """Removes one member. Returns why not, or NONE."""
    member_id = leaving.member_id
    if member_id == NO_MEMBER:
        # An administrator removes a static member, whoever it is now.
        found = None if leaving.group_instance_id is None else group.static_members.get(leaving.group_instance_id)
        if found is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        member_id = found
    elif member_id in group.pending:
        machine.pending.remove(group, member_id)
        end_session(machine, group, member_id)
        return ErrorCode.NONE
    else:
        try:
            group.check_member(member_id, leaving.group_instance_id)
        except RequestError as error:
            return error.code
    logger.info("%r: %s leaves: %s", group, member_id, leaving.reason or "not provided")
    drop_member(machine, group, group.members[member_id], now_ms)
    return ErrorCode.NONE


def answer(member: MemberIdentity, code: ErrorCode) -> MemberResponse:
    """What became of one member."""
    return MemberResponse(member_id=member.member_id, group_instance_id=member.group_instance_id, error_code=code)
