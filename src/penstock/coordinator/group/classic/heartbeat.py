"""Heartbeat (key 12), versions 0-4: a member is alive, and hears whether the group rebalances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.base import ServerSideGroup
from penstock.coordinator.group.classic.group import ClassicGroup, State
from penstock.coordinator.group.classic.rebalance import renew_session
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse

if TYPE_CHECKING:
    from penstock.coordinator.group.context import Context
    from penstock.coordinator.group.machine import GroupMachine


def heartbeat(
    machine: GroupMachine, context: Context, request: HeartbeatRequest, now_ms: int
) -> Result[HeartbeatResponse]:
    """Heartbeat. While the log is read the caller answers NONE, as Kafka does: nobody has to act on that.

    Raises RequestError: INVALID_GROUP_ID, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed for a heartbeat")
    group = machine.groups.find(request.group_id)
    if group is None:
        raise RequestError(ErrorCode.UNKNOWN_MEMBER_ID, f"Group {request.group_id} not found.")
    if isinstance(group, ServerSideGroup):
        return group.heartbeat(machine, context, request, now_ms)
    assert isinstance(group, ClassicGroup)
    if group.state is State.DEAD:
        raise RequestError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    group.check_member(request.member_id, request.group_instance_id)
    if request.generation_id != group.generation_id:
        raise RequestError(ErrorCode.ILLEGAL_GENERATION)
    renew_session(machine, group, group.members[request.member_id], now_ms)
    rebalances = group.state is State.PREPARING_REBALANCE
    return Result(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS if rebalances else ErrorCode.NONE))
