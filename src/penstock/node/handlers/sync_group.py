"""SyncGroup (key 14): the leader of a classic group supplies the assignment, every member gets its part.

Versions 0-5, flexible from 4. The rules are in `coordinator.group.classic.sync`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic_requests import sync_group
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import answer_once, write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.sync_group_request import SyncGroupRequest
from penstock.protocol.messages.sync_group_response import SyncGroupResponse
from penstock.security.rights import READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


PROTOCOL_FROM = 5


def handle(node: Broker, request: Request[SyncGroupRequest], now_ms: int) -> Outcome:
    body = request.body
    if request.version >= PROTOCOL_FROM and (body.protocol_type is None or body.protocol_name is None):
        raise RequestError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "the protocol's type and name must be given")
    node.gate.check(request, READ_GROUP, body.group_id)

    def reply(response: SyncGroupResponse, at_ms: int) -> None:
        answer_once(node, request, response, at_ms)

    return write(node, request, body.group_id, lambda machine: sync_group(machine.state, body, reply, now_ms), now_ms)


HANDLERS = (Handler(ApiKey.SYNC_GROUP, handle),)
