"""What the handlers of transactions share: the way from a transactional id to its shard, and the errors for clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.state import Transactions, check_id
from penstock.errors import ErrorCode
from penstock.node.request import LATER, Outcome, Request
from penstock.protocol.message import Message

if TYPE_CHECKING:
    from penstock.node.broker import Broker

Done = Callable[[Any, ErrorCode, int], None]
"""`done(response, code, now_ms)`: the operation's response, or an error for clients."""


def run(
    node: Broker,
    request: Request[Any],
    transactional_id: str,
    operation: Callable[[Transactions], Result[Any]],
    done: Done,
) -> None:
    """Runs an operation in the coordinator of an id; calls `done` when its records are committed, or at an error.

    Raises RequestError INVALID_REQUEST for the empty id.
    """
    check_id(transactional_id)
    transactions, body = node.coordinators.transactions, request.body

    def finished(response: Any, code: ErrorCode, message: str, at_ms: int) -> None:
        request.body = body  # a refusal may name its parts
        done(response, coordinator_error(code), at_ms)

    index = transactions.topic.partition_of(transactional_id)
    transactions.runtime.write(
        index,
        lambda machine: operation(machine.state),
        node.dispatcher.later(request, finished),
        node.scheduler.now_ms,
    )


def write(
    node: Broker,
    request: Request[Any],
    operation: Callable[[Transactions], Result[Any]],
    *,
    respond: Callable[[Any], Message],
) -> Outcome:
    """Runs an operation for a request that names one transactional id. `respond` makes the answer from its response."""

    def done(response: Any, code: ErrorCode, at_ms: int) -> None:
        if code:
            node.answer(request, node.dispatcher.exit.refusal(request, code, ""), at_ms)
        else:
            node.answer(request, respond(response), at_ms)

    run(node, request, request.body.transactional_id, operation, done)
    return LATER


def told(code: ErrorCode, version: int, fenced_from: int) -> ErrorCode:
    """The error as a client understands it: PRODUCER_FENCED was INVALID_PRODUCER_EPOCH before version `fenced_from`."""
    if code is ErrorCode.PRODUCER_FENCED and version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
