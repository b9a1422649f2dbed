"""LeaveGroup (key 13): members leave a group; several at once from version 3 on.

Versions 0-5, flexible from 4. The rules are in `coordinator.group.classic.leave`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.leave import leave_group
from penstock.node.handlers.group_coordinator import check_group, context_of, write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.leave_group_request import LeaveGroupRequest
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.READ, ResourceType.GROUP)


def handle(node: Broker, request: Request[LeaveGroupRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request)
    check_group(node, request, Operation.READ, body.group_id)
    return write(node, request, body.group_id, lambda shard: leave_group(shard, context, body, now_ms), now_ms)


HANDLERS = (Handler(ApiKey.LEAVE_GROUP, handle, AUTHORIZE),)
