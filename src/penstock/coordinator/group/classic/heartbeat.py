"""Heartbeat (key 12), versions 0-4: a member is alive, and hears whether the group rebalances."""

from __future__ import annotations

from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.rebalance import renew_session
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse


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
