"""LeaveGroup (key 13): members leave a group; several at once from version 3 on.

Versions 0-5, flexible from 4. The rules are in `coordinator.group.classic.leave`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic_requests import leave_group
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import context_of, write
from penstock.node.limits import MEMBERS_PER_REQUEST_MAX
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest
from penstock.security.rights import READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[LeaveGroupRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request)
    node.gate.check(request, READ_GROUP, body.group_id)
    if len(body.members) > MEMBERS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"At most {MEMBERS_PER_REQUEST_MAX} members in one request.")
    return write(
        node, request, body.group_id, lambda machine: leave_group(machine.state, context, body, now_ms), now_ms
    )


HANDLERS = (Handler(ApiKey.LEAVE_GROUP, handle),)
