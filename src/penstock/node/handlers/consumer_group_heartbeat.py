"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, lives, changes, leaves (KIP-848).

Versions 0-1, flexible. The rules are in `coordinator.group.consumer.heartbeat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.consumer.heartbeat import consumer_group_heartbeat
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import (
    check_consumer_protocol,
    context_of,
    write,
)
from penstock.node.limits import TOPICS_PER_REQUEST_MAX
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.security.rights import DESCRIBE_TOPIC, READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def handle(node: Broker, request: Request[ConsumerGroupHeartbeatRequest], now_ms: int) -> Outcome:
    check_consumer_protocol(node)
    body, context = request.body, context_of(request, node.gate.allowing(request, DESCRIBE_TOPIC))
    node.gate.check(request, READ_GROUP, body.group_id)
    names = body.subscribed_topic_names or ()
    if len(names) > TOPICS_PER_REQUEST_MAX:
        raise RequestError(ErrorCode.INVALID_REQUEST, f"At most {TOPICS_PER_REQUEST_MAX} topics of one member.")
    for topic in names:
        node.gate.check(request, DESCRIBE_TOPIC, topic)
    return write(
        node,
        request,
        body.group_id,
        lambda machine: consumer_group_heartbeat(machine.state, context, body, now_ms),
        now_ms,
    )


HANDLERS = (Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, handle),)
