"""Heartbeat (key 12): a member of a classic group is alive, and learns whether the group rebalances.

A member of a stable group, as nearly all are, has a short way: the session goes on, and the answer is always the same.
Versions 0-4, flexible from 4. The rules are in `coordinator.group.classic.heartbeat`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.heartbeat import steady
from penstock.coordinator.group.classic_requests import heartbeat
from penstock.errors import ErrorCode
from penstock.node.handlers.group_coordinator import settled, write
from penstock.node.request import Handler, Kept, Outcome, Request
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.protocol.messages.heartbeat_response import HeartbeatResponse
from penstock.security.rights import READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[HeartbeatRequest], now_ms: int) -> Outcome:
    body = request.body
    node.gate.check(request, READ_GROUP, body.group_id)
    state = settled(node, body.group_id)
    if state is not None and steady(state, body, now_ms):
        return nothing_to_tell(request.version)
    return write(node, request, body.group_id, lambda machine: heartbeat(machine.state, body, now_ms), now_ms)


@cache
def nothing_to_tell(version: int) -> Kept:
    """The answer to a member of a stable group, encoded once."""
    return Kept.of(API_BY_NUMBER[ApiKey.HEARTBEAT], version, HeartbeatResponse())


def refuse(request: Request[HeartbeatRequest], code: ErrorCode, message: str) -> Message:
    """The error; but none while the coordinator loads its log, as in Kafka: clients do not expect that error here."""
    loading = code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if loading else code)


HANDLERS = (Handler(ApiKey.HEARTBEAT, handle, refuse),)
