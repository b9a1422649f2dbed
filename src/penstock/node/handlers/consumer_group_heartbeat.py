"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, lives, changes, leaves (KIP-848).

Versions 0-1, flexible. The rules are in `coordinator.group.consumer.heartbeat`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.coordinator.group.consumer.heartbeat import consumer_group_heartbeat
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import (
    check_consumer_protocol,
    check_group,
    context_of,
    seen_topics,
    write,
)
from penstock.node.request import Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.READ, ResourceType.GROUP)


def handle(node: Broker, request: Request[ConsumerGroupHeartbeatRequest], now_ms: int) -> Outcome:
    check_consumer_protocol(node)
    sees = seen_topics(node, request)
    body, context = request.body, context_of(request, sees)
    check_group(node, request, Operation.READ, body.group_id)
    for topic in body.subscribed_topic_names or ():
        if not sees(topic):
            raise RequestError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{request.principal} may not DESCRIBE the topic {topic}"
            )
    return write(
        node, request, body.group_id, lambda shard: consumer_group_heartbeat(shard, context, body, now_ms), now_ms
    )


HANDLERS = (Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, handle, AUTHORIZE),)
