"""What the handlers of groups share: the way from a group to its shard, and the errors for clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.coordinator.group.context import Context, everything
from penstock.coordinator.group.machine import GroupMachine
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.errors import ErrorCode, RequestError
from penstock.metadata.features import GROUP_VERSION
from penstock.node.request import LATER, Outcome, Request
from penstock.protocol.message import Message

if TYPE_CHECKING:
    from penstock.node.broker import Broker


def context_of(request: Request[Any], sees: Callable[[str], bool] = everything) -> Context:
    """The requester, as the coordinator needs it; `sees`: whether it may describe a topic."""
    return Context(
        api_version=request.version,
        client_id=request.client_id or "",
        client_host=request.connection.client_host,
        principal=request.principal.name,
        sees=sees,
    )


def check_consumer_protocol(node: Broker) -> None:
    """Raises RequestError(UNSUPPORTED_VERSION) if KIP-848 is disabled by setting or by the cluster's feature level."""
    if "consumer" not in node.state.settings.group_coordinator_rebalance_protocols:
        raise RequestError(
            ErrorCode.UNSUPPORTED_VERSION, "group.coordinator.rebalance.protocols has no consumer in it on this broker"
        )
    if node.state.image.features.get(GROUP_VERSION, 0) < 1:
        raise RequestError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"the cluster's {GROUP_VERSION} is 0: raise it with kafka-features upgrade --feature {GROUP_VERSION}=1",
        )


def settled(node: Broker, group_id: str) -> GroupState | None:
    """The state that a group is in, if this node coordinates it and nothing waits for a commit: what asks for no change
    is answered at once. Anything else is for `write`.
    """
    groups = node.coordinators.groups
    machine = groups.runtime.settled(groups.topic.partition_of(group_id))
    return None if machine is None else machine.state


def answer_once(node: Broker, request: Request[Any], response: Message, now_ms: int) -> None:
    """Answers a request unless it has been answered: the group's answer to its members, and the failure of the records
    that it wrote, may come in any order.
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
    """Runs an operation in the group's coordinator. The answer leaves when its records are committed.

    `respond`, if given, makes the response from the result of the operation. Raises RequestError if there is no
    coordinator; an exception of the operation is answered with the API's error response.
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
