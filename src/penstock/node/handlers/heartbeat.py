"""Heartbeat (key 12): a member of a classic group lives, and hears whether the group rebalances.

Versions 0-4, flexible from 4. The rules are in `coordinator.group.classic.heartbeat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic_requests import heartbeat
from penstock.errors import ErrorCode
from penstock.node.handlers.group_coordinator import write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.security.rights import READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[HeartbeatRequest], now_ms: int) -> Outcome:
    body = request.body
    node.gate.check(request, READ_GROUP, body.group_id)
    return write(node, request, body.group_id, lambda machine: heartbeat(machine.state, body, now_ms), now_ms)


def refuse(request: Request[HeartbeatRequest], code: ErrorCode, message: str) -> Message:
    """The error; but while the coordinator reads its log all is well, as at Kafka's: clients expect nothing else."""
    loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)


HANDLERS = (Handler(ApiKey.HEARTBEAT, handle, refuse),)
