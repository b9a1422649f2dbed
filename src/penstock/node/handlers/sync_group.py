"""SyncGroup (key 14): the leader of a classic group hands in the assignment, every member gets its part.

Versions 0-5, flexible from 4. The rules are in `coordinator.group.classic.sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.sync import sync_group
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import answer_once, check_group, context_of, write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.READ, ResourceType.GROUP)

PROTOCOL_FROM = 5


def handle(node: Broker, request: Request[SyncGroupRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request)
    if request.version >= PROTOCOL_FROM and (body.protocol_type is None or body.protocol_name is None):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocol's type and name must be given")
    check_group(node, request, Operation.READ, body.group_id)

    def reply(response: SyncGroupResponse, at_ms: int) -> None:
        answer_once(node, request, response, at_ms)

    return write(node, request, body.group_id, lambda shard: sync_group(shard, context, body, reply, now_ms), now_ms)


HANDLERS = (Handler(ApiKey.SYNC_GROUP, handle, AUTHORIZE),)
