"""FindCoordinator (key 10): which broker coordinates a group.

Versions 0-6, flexible from 3; several keys at once from 4 on. The first question has `__consumer_offsets` made, and is
answered when that is done; clients ask again until the partition has a leader. There are no coordinators of
transactions and share groups yet: INVALID_REQUEST says so at once, where COORDINATOR_NOT_AVAILABLE would have clients
ask for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import ErrorCode
from penstock.node.groups import OFFSETS_TOPIC
from penstock.node.handlers.authorization import allowed
from penstock.node.request import LATER, Handler, Message, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse
from penstock.security.authorizer import Authorize, Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

AUTHORIZE = Authorize(Operation.DESCRIBE, ResourceType.GROUP)

GROUP, TRANSACTION, SHARE = 0, 1, 2
BATCHES_FROM = 4
SHARE_FROM = 6


class Found(NamedTuple):
    """The coordinator of a key, or why there is none."""

    code: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(node: Broker, request: Request[FindCoordinatorRequest], now_ms: int) -> Outcome:
    body = request.body
    keys = body.coordinator_keys if request.version >= BATCHES_FROM else [body.key]
    kind = body.key_type
    may_create = any(allowed(node, request, Operation.DESCRIBE, ResourceType.GROUP, key) for key in keys)
    if kind == GROUP and OFFSETS_TOPIC not in node.image.topics_by_name and may_create:
        node.groups.create_topic(lambda at_ms: node.answer(request, answer(node, request, kind, keys), at_ms), now_ms)
        return LATER
    return answer(node, request, kind, keys)


def answer(node: Broker, request: Request[FindCoordinatorRequest], kind: int, keys: list[str]) -> Message:
    """The response, from the image of now."""
    found = [find(node, request, kind, key) for key in keys]
    if request.version >= BATCHES_FROM:
        return FindCoordinatorResponse(
            coordinators=[
                Coordinator(
                    key=key,
                    node_id=each.node_id,
                    host=each.host,
                    port=each.port,
                    error_code=each.code,
                    error_message=each.message,
                )
                for key, each in zip(keys, found, strict=True)
            ]
        )
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.code, error_message=only.message, node_id=only.node_id, host=only.host, port=only.port
    )


def find(node: Broker, request: Request[FindCoordinatorRequest], kind: int, key: str) -> Found:
    """The coordinator of one key."""
    if kind == TRANSACTION:
        if not allowed(node, request, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key):
            return Found(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return Found(ErrorCode.INVALID_REQUEST, "transactions are not supported yet")
    if kind == SHARE:
        said = "share groups are not supported yet" if request.version >= SHARE_FROM else None
        return Found(ErrorCode.INVALID_REQUEST, said)
    if kind != GROUP:
        return Found(ErrorCode.INVALID_REQUEST, f"key type {kind} is none of 0 (group), 1 (transaction), 2 (share)")
    if not allowed(node, request, Operation.DESCRIBE, ResourceType.GROUP, key):
        return Found(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    topic = node.image.topics_by_name.get(OFFSETS_TOPIC)
    if topic is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = node.image.brokers.get(topic.partitions[node.groups.partition_of(key)].leader)
    endpoint = None if leader is None or leader.fenced else leader.endpoint(request.listener)
    if leader is None or endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Found(ErrorCode.NONE, None, leader.id, endpoint.host, endpoint.port)


def refuse(request: Request[FindCoordinatorRequest], code: ErrorCode, message: str) -> Message:
    """Every key answered with the error."""
    body = request.body
    said = message or None
    if request.version < BATCHES_FROM or body is None:
        return FindCoordinatorResponse(error_code=code, error_message=said, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=said)
            for key in body.coordinator_keys
        ]
    )


HANDLERS = (Handler(ApiKey.FIND_COORDINATOR, handle, AUTHORIZE, refuse),)
