"""Heartbeat (key 12): a member of a classic group lives, and hears whether the group rebalances.

Versions 0-4, flexible from 4. The rules are in `coordinator.group.classic.heartbeat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.classic.heartbeat import heartbeat
from penstock.node.handlers.group_coordinator import check_group, context_of, write
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.heartbeat_request import HeartbeatRequest
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.READ, ResourceType.GROUP)


def handle(node: Broker, request: Request[HeartbeatRequest], now_ms: int) -> Outcome:
    body, context = request.body, context_of(request)
    check_group(node, request, Operation.READ, body.group_id)
    return write(node, request, body.group_id, lambda shard: heartbeat(shard, context, body, now_ms), now_ms)


HANDLERS = (Handler(ApiKey.HEARTBEAT, handle, AUTHORIZE),)
