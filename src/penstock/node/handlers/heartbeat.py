"""Heartbeat (key 12): a member of a classic group lives, and hears whether the group rebalances.

Versions 0-4, flexible from 4. The rules are in `coordinator.group.classic.heartbeat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.heartbeat import heartbeat
from penstock.errors import ErrorCode
from penstock.node.handlers.group_coordinator import check_group, context_of, write
from penstock.node.request import Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.READ, ResourceType.GROUP)


def handle(node: Broker, request: Request[HeartbeatRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request)
    check_group(node, request, Operation.READ, body.group_id)
    return write(node, request, body.group_id, lambda shard: heartbeat(shard, context, body, now_ms), now_ms)


def refuse(request: Request[HeartbeatRequest], code: ErrorCode, message: str) -> Message:
    """The error; but while the coordinator reads its log all is well, as at Kafka's: clients expect nothing else."""
    loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)


HANDLERS = (Handler(ApiKey.HEARTBEAT, handle, AUTHORIZE, refuse),)
