"""SyncGroup (key 14), versions 0-5: members of a new generation ask for their assignment; the leader supplies it.

Members that sync before the leader wait. The assignment is stored first; then all get it, and the group is stable. If
it cannot be stored, all get the error and rebalance. From version 5 the request names the protocol, which must be the
group's (KIP-559).
"""

from __future__ import annotations

from penstock.coordinator.group.base import SyncReply
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.member import EMPTY_ASSIGNMENT
from penstock.coordinator.group.classic.rebalance import (
    NOTHING,
    answer_syncs,
    rebalance_or_complete,
    reset_assignment,
    sync_response,
    synced,
    write,
)
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse


def sync_classic(
    state: GroupState, group: ClassicGroup, request: SyncGroupRequest, reply: SyncReply, now_ms: int
) -> Result[None]:
    """SyncGroup to a classic group that has members."""
    check_sync(group, request)
    synced(state, group, request.member_id)
    member = group.members[request.member_id]
    if group.state is State.STABLE:
        reply(sync_response(group, member), now_ms)
        return NOTHING
    assert group.state is State.COMPLETING_REBALANCE
    member.answer_sync(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), now_ms)
    member.sync_reply = reply
    if group.leader_id != member.member_id:
        return NOTHING
    return store_assignment(state, group, request)


def check_sync(group: ClassicGroup, request: SyncGroupRequest) -> None:
    """Raises RequestError unless the member may sync now."""
    if group.state is State.DEAD:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    if differ(request.protocol_type, group.protocol_type) or differ(request.protocol_name, group.protocol_name):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.state is State.PREPARING_REBALANCE:
        raise RequestError(ErrorCode.REBALANCE_IN_PROGRESS)


def differ(requested: str | None, present: str | None) -> bool:
    """Whether both are known and not the same."""
    return requested is not None and present is not None and requested != present


def store_assignment(state: GroupState, group: ClassicGroup, request: SyncGroupRequest) -> Result[None]:
    """Stores the leader's assignment. Members that it left out have nothing; unknown ones are ignored."""
    assigned = {each.member_id: each.assignment for each in request.assignments}
    assignment = {member_id: assigned.get(member_id, EMPTY_ASSIGNMENT) for member_id in group.members}
    generation_id = group.generation_id

    def appended(code: ErrorCode, at_ms: int) -> None:
        if group.state is not State.COMPLETING_REBALANCE or group.generation_id != generation_id:
            return  # it rebalances again meanwhile
        if code:
            told = coordinator_error(code)
            reset_assignment(state, group, told, at_ms)
            rebalance_or_complete(state, group, f"the assignment cannot be stored ({told.name})", at_ms)
            return
        for member in group.members.values():
            member.assignment = assignment.get(member.member_id, EMPTY_ASSIGNMENT)
        group.move(State.STABLE, state.wall.at(at_ms))
        answer_syncs(state, group, ErrorCode.NONE, at_ms)

    return write(group.record(assignment), appended=appended)
