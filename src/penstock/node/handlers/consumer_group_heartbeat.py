"""ConsumerGroupHeartbeat (key 68): a member of a consumer group joins, stays, changes or leaves (KIP-848).

A member of a group in which nothing happens, with nothing to say, has a short way: its answer is written without a
message. Versions 0-1, flexible. The rules are in `coordinator.group.consumer.heartbeat`.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from penstock.coordinator.group.consumer.heartbeat import consumer_group_heartbeat, steady
from penstock.errors import ErrorCode, RequestError
from penstock.node.handlers.group_coordinator import check_consumer_protocol, context_of, settled, write
from penstock.node.limits import TOPICS_PER_REQUEST_MAX
from penstock.node.request import Handler, Kept, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from penstock.protocol.wire import varint
from penstock.security.rights import DESCRIBE_TOPIC, READ_GROUP

if TYPE_CHECKING:
    from penstock.node.broker import Broker

NO_ERROR = bytes(8)
"""Tags of the header, throttle time, error code, error message."""
STAYS = Struct(">iibB")
"""Member epoch, interval, no assignment, tags."""


def handle(node: Broker, request: Request[ConsumerGroupHeartbeatRequest], now_ms: int) -> Outcome:
    check_consumer_protocol(node)
    body = request.body
    node.gate.check(request, READ_GROUP, body.group_id)
    state = settled(node, body.group_id)
    stays = None if state is None else steady(state, context_of(request), body, now_ms)
    if stays is not None:
        return unchanged(*stays)
    context = context_of(request, node.gate.allowing(request, DESCRIBE_TOPIC))
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


def unchanged(member_id: str, member_epoch: int, interval_ms: int) -> Kept:
    """The answer to a member that stays as it is: no error, no assignment. Versions 0 and 1 look the same."""
    encoded = member_id.encode()
    return Kept(b"".join((NO_ERROR, varint(len(encoded) + 1), encoded, STAYS.pack(member_epoch, interval_ms, -1, 0))))


HANDLERS = (Handler(ApiKey.CONSUMER_GROUP_HEARTBEAT, handle),)
