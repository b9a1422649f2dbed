"""What the handlers of groups share: from a group to its shard, and from the shard's errors to those of clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.coordinator.group.context import Context, everything
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.features import GROUP_VERSION
from penstock.node.handlers.authorization import allowed
from penstock.node.request import LATER, Outcome, Request
from penstock.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def context_of(request: Request[Any], sees: Callable[[str], bool] = everything) -> Context:
    """Who asks, as the coordinator keeps it; `sees`: whether it may describe a topic."""
    return Context(
        api_version=request.version,
        client_id=request.client_id or "",
        client_host=request.connection.client_host,
        sees=sees,
    )


def seen_topics(node: Broker, request: Request[Any]) -> Callable[[str], bool]:
    """Says of a topic whether who asks may describe it."""
    return lambda topic: allowed(node, request, Operation.DESCRIBE, ResourceType.TOPIC, topic)


def check_group(node: Broker, request: Request[Any], operation: Operation, group_id: str) -> None:
    """Raises RequestError(GROUP_AUTHORIZATION_FAILED) unless who asks may do this with the group."""
    if not allowed(node, request, operation, ResourceType.GROUP, group_id):
        raise RequestError(
            ErrorCode.GROUP_AUTHORIZATION_FAILED, f"{request.principal} may not {operation.name} the group {group_id}"
        )


def check_consumer_protocol(node: Broker) -> None:
    """Raises RequestError(UNSUPPORTED_VERSION) where KIP-848 is not served: by setting, or by the cluster's level."""
    if "consumer" not in node.settings.group_coordinator_rebalance_protocols:
        raise RequestError(
            ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer in it on this broker"
        )
    if node.image.features.get(GROUP_VERSION, 0) < 1:
        raise RequestError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster's {GROUP_VERSION} is 0: raise it with kafka-features upgrade --feature {GROUP_VERSION}=1",
        )


def answer_once(node: Broker, request: Request[Any], response: Any, now_ms: int) -> None:
    """Answers a request unless it has been: what a group tells its members, and what became of the records that tell
    of it, come one after the other, in any order.
    """
    if not request.done:
        node.answer(request, response, now_ms)


def write(
    node: Broker,
    request: Request[Any],
    group_id: str,
    operation: Callable[[GroupMachine], Result[Any]],
    now_ms: int,
    *,
    respond: Callable[[Any], Any] = lambda response: response,
) -> Outcome:
    """Has the group's coordinator do something. The answer leaves when what it wrote is committed.

    `respond` makes the response out of what the operation has returned. Raises RequestError when there is no
    coordinator; what the operation raises is answered with the API's error response.
    """
    body = request.body

    def done(response: Any, code: ErrorCode, message: str, at_ms: int) -> None:
        if code:
            request.body = body
            answer_once(node, request, request.handler.refuse(request, coordinator_error(code), message), at_ms)
        else:
            answer_once(node, request, respond(response), at_ms)

    node.groups.runtime.write(node.groups.partition_of(group_id), operation, done, now_ms)
    return LATER
