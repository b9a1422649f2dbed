"""Heartbeat (key 12), versions 0-4: a member is alive, and learns whether the group rebalances.

A member whose session times out is dropped in `rebalance.py` (`session_expired`).
"""

from __future__ import annotations

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.rebalance import renew_session
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse


def steady(state: GroupState, request: HeartbeatRequest, now_ms: int) -> bool:
    """Takes the heartbeat of a dynamic member of a stable group, which nearly all are: its answer has nothing to tell.

    False for any other: then nothing has changed, and it is for `classic_requests.heartbeat`.
    """
    group = state.groups.find(request.group_id)
    if group.__class__ is not ClassicGroup or request.group_instance_id is not None:
        return False
    assert isinstance(group, ClassicGroup)
    member = group.members.get(request.member_id)
    if member is None or group.state is not State.STABLE or request.generation_id != group.generation_id:
        return False
    renew_session(state, group, member, now_ms)
    return True


def heartbeat_classic(
    state: GroupState, group: ClassicGroup, request: HeartbeatRequest, now_ms: int
) -> Result[HeartbeatResponse]:
    """Heartbeat to a classic group. Raises RequestError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION."""
    if group.state is State.DEAD:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    renew_session(state, group, group.members[request.member_id], now_ms)
    rebalances = group.state is State.PREPARING_REBALANCE
    return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE))
