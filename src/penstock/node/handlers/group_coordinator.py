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
from penstock.node.request import LATER, Outcome, Request
from penstock.protocol.message import Message

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


def check_consumer_protocol(node: Broker) -> None:
    """Raises RequestError(UNSUPPORTED_VERSION) where KIP-848 is not served: by setting, or by the cluster's level."""
    if "consumer" not in node.state.settings.group_coordinator_rebalance_protocols:
        raise RequestError(
            ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer in it on this broker"
        )
    if node.state.image.features.get(GROUP_VERSION, 0) < 1:
        raise RequestError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster's {GROUP_VERSION} is 0: raise it with kafka-features upgrade --feature {GROUP_VERSION}=1",
        )


def answer_once(node: Broker, request: Request[Any], response: Message, now_ms: int) -> None:
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
    respond: Callable[[Any], Message] | None = None,
) -> Outcome:
    """Has the group's coordinator do something. The answer leaves when what it wrote is committed.

    `respond`, if given, makes the response out of what the operation has returned. Raises RequestError when there is no
    coordinator; what the operation raises is answered with the API's error response.
    """
    body = request.body

    def done(response: Any, code: ErrorCode, message: str, at_ms: int) -> None:
        try:
            if code:
                request.body = body
                response = node.dispatcher.exit.refusal(request, coordinator_error(code), message)
            elif respond is not None:
                response = respond(response)
            answer_once(node, request, response, at_ms)
        except Exception as error:  # as with `Dispatcher.later`, for less
            node.dispatcher.broke(request, error, at_ms)

    index = node.coordinators.groups.topic.partition_of(group_id)
    node.coordinators.groups.runtime.write(index, operation, done, now_ms)
    return LATER
