"""JoinGroup (key 11): a member of a classic group joins, or joins again; answered when all members have joined.

Versions 0-9, flexible from 6. The rules are in `coordinator.group.classic.join`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic_requests import join_group
from penstock.errors import ErrorCode
from penstock.node.handlers.group_coordinator import answer_once, context_of, write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.join_group_request import JoinGroupRequest
from penstock.protocol.messages.join_group_response import JoinGroupResponse
from penstock.security.rights import DESCRIBE_TOPIC, READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


NULL_PROTOCOL_FROM = 7


def handle(node: Broker, request: Request[JoinGroupRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request, node.gate.allowing(request, DESCRIBE_TOPIC))
    node.gate.check(request, READ_GROUP, body.group_id)

    def reply(response: JoinGroupResponse, at_ms: int) -> None:
        answer_once(node, request, response, at_ms)

    return write(
        node, request, body.group_id, lambda machine: join_group(machine.state, context, body, reply, now_ms), now_ms
    )


def refuse(request: Request[JoinGroupRequest], code: ErrorCode, message: str) -> Message:
    """The error, with the member id of the request."""
    protocol_name = None if request.version >= NULL_PROTOCOL_FROM else ""
    member_id = "" if request.body is None else request.body.member_id
    return JoinGroupResponse(error_code=code, generation_id=-1, protocol_name=protocol_name, member_id=member_id)


HANDLERS = (Handler(ApiKey.JOIN_GROUP, handle, refuse),)
