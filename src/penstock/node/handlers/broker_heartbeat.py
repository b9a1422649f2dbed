"""BrokerHeartbeat (key 63): a broker is alive; what it has read, and what it wants (KIP-631). On controller listeners
only.

Versions 0-2, flexible; offline directories from 1 (KIP-858), cordoned ones from 2 (KIP-1066). The answer says whether
the broker is fenced, and whether its controlled shutdown may end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import ErrorCode
from penstock.metadata.heartbeats import Heartbeat, process_heartbeat
from penstock.node.handlers.bounds import check_few
from penstock.node.request import Append, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from penstock.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[BrokerHeartbeatRequest], now_ms: int) -> Outcome:
    body = request.body
    controller = node.controller
    if not controller.active:
        return BrokerHeartbeatResponse(error_code=ErrorCode.NOT_CONTROLLER)
    check_few(body.offline_log_dirs, body.cordoned_log_dirs or ())
    heartbeats = controller.duties.heartbeats
    heartbeats.follow(controller.state, now_ms)
    heartbeat = Heartbeat(
        broker_id=body.broker_id,
        broker_epoch=body.broker_epoch,
        metadata_offset=body.current_metadata_offset,
        want_fence=body.want_fence,
        want_shut_down=body.want_shut_down,
        offline_log_dirs=body.offline_log_dirs,
        cordoned_log_dirs=body.cordoned_log_dirs,
    )
    result = process_heartbeat(controller.state, heartbeats, heartbeat, now_ms)
    controller.heard_from(request.connection.id, body.broker_id, body.broker_epoch)
    reply = result.response
    if reply.in_controlled_shutdown:
        heartbeats.leaving_since(body.broker_id, controller.next_offset + len(result.records) - 1)
    response = BrokerHeartbeatResponse(
        is_caught_up=reply.caught_up, is_fenced=reply.fenced, should_shut_down=reply.should_shut_down
    )
    return Append(result.records, response, atomic=result.atomic)


HANDLERS = (Handler(ApiKey.BROKER_HEARTBEAT, handle),)
