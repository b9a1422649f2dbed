"""FindCoordinator (key 10): which broker coordinates a group, or another key (`node/coordinator_list.py`).

Versions 0-6, flexible from 3; several keys at once from 4 on. The first request has the coordinator's topic created,
and is answered when that is done; clients ask again until the partition has a leader. There are no coordinators of
transactions and share groups yet: they are refused with INVALID_REQUEST, since clients would repeat the request for
ever after COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import ErrorCode
from penstock.node.coordinator import KeyType
from penstock.node.coordinator_list import UNSUPPORTED_KEY_TYPES
from penstock.node.journal import shortened
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.node.steps import Pace, Stepped, in_steps
from penstock.protocol.api import ApiKey
from penstock.protocol.message import Message
from penstock.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from penstock.protocol.messages.find_coordinator_response import Coordinator, FindCoordinatorResponse

if TYPE_CHECKING:
    from penstock.node.broker import Broker


BATCHES_FROM = 4


class Found(NamedTuple):
    """The coordinator of a key, or the error."""

    code: ErrorCode
    message: str | None = None
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(node: Broker, request: Request[FindCoordinatorRequest], now_ms: int) -> Stepped[Outcome]:
    body = request.body
    keys = body.coordinator_keys if request.version >= BATCHES_FROM else [body.key]
    kind = body.key_type
    serving = node.coordinators.of(kind)
    if serving is not None and serving.topic.name not in node.state.image.topics_by_name:
        right = serving.right
        may = yield from any_of(keys, lambda key: right is None or node.gate.would_allow(request, right, key))
        if may:
            go_on = node.dispatcher.later(
                request, lambda at_ms: node.dispatcher.go_on(request, answer(node, request, kind, keys))
            )
            serving.topic.create(go_on, now_ms)
            return LATER
    return (yield from answer(node, request, kind, keys))


def any_of(keys: list[str], may: Callable[[str], bool]) -> Stepped[bool]:
    """Whether any key passes. It is looked for in steps: all of very many may be refused."""
    pace = Pace()
    for key in keys:
        if pace.is_over():
            yield None
        if may(key):
            return True
    return False


def answer(node: Broker, request: Request[FindCoordinatorRequest], kind: int, keys: list[str]) -> Stepped[Message]:
    """The response, from the present image."""
    if request.version >= BATCHES_FROM:
        return FindCoordinatorResponse(
            coordinators=(yield from in_steps(partial(coordinator, node, request, kind), keys))
        )
    only = find(node, request, kind, keys[0])
    return FindCoordinatorResponse(
        error_code=only.code, error_message=only.message, node_id=only.node_id, host=only.host, port=only.port
    )


def coordinator(node: Broker, request: Request[FindCoordinatorRequest], kind: int, key: str) -> Coordinator:
    """The coordinator of one key, in the form for several keys."""
    found = find(node, request, kind, key)
    return Coordinator(
        key=key,
        node_id=found.node_id,
        host=found.host,
        port=found.port,
        error_code=found.code,
        error_message=found.message,
    )


def find(node: Broker, request: Request[FindCoordinatorRequest], kind: int, key: str) -> Found:
    """The coordinator of one key."""
    serving = node.coordinators.of(kind)
    if serving is None:
        return none_yet(node, request, kind, key)
    if serving.right is not None and not node.gate.allows(request, serving.right, key):
        return Found(serving.right.refusal)
    topic = node.state.image.topics_by_name.get(serving.topic.name)
    if topic is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    leader = node.state.image.brokers.get(topic.partitions[serving.topic.partition_of(key)].leader)
    endpoint = None if leader is None or leader.fenced else leader.endpoint(request.listener)
    if leader is None or endpoint is None:
        return Found(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return Found(ErrorCode.NONE, None, leader.id, endpoint.host, endpoint.port)


def none_yet(node: Broker, request: Request[FindCoordinatorRequest], kind: int, key: str) -> Found:
    """The error for keys of a type that nobody coordinates."""
    missing = UNSUPPORTED_KEY_TYPES.get(kind)
    if missing is None:
        names = ", ".join(f"{each.value} ({each.name.lower()})" for each in KeyType)
        return Found(ErrorCode.INVALID_REQUEST, f"key type {kind} is none of {names}")
    if missing.right is not None and not node.gate.allows(request, missing.right, key):
        return Found(missing.right.refusal)
    named = {missing.field: shortened(key)} if missing.field is not None else {}
    node.journal.refused(missing.why, request, **named)
    return Found(ErrorCode.INVALID_REQUEST, missing.why if request.version >= missing.told_from else None)


def refuse(request: Request[FindCoordinatorRequest], code: ErrorCode, message: str) -> Message:
    """Every key answered with the error."""
    body = request.body
    said = message or None
    if request.version < BATCHES_FROM:
        return FindCoordinatorResponse(error_code=code, error_message=said, node_id=-1, host="", port=-1)
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code, error_message=said)
            for key in (body.coordinator_keys if body is not None else ())
        ]
    )


HANDLERS = (Handler(ApiKey.FIND_COORDINATOR, handle, refuse),)
