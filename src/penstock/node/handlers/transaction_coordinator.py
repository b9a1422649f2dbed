"""What the handlers of transactions share: the way from a transactional id to its shard, and the errors for clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.coordinator.runtime.append_errors import coordinator_error
from penstock.coordinator.runtime.result import Result
from penstock.coordinator.transaction.state import Transactions, check_id
from penstock.errors import ErrorCode
from penstock.node.own_calls import Asked
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
    run_for(AskedByRequest(node, request), node, transactional_id, operation, done)


def run_for(
    asked: Asked,
    node: Broker,
    transactional_id: str,
    operation: Callable[[Transactions], Result[Any]],
    done: Done,
) -> None:
    """The same for a request, or for a call of this node itself."""
    check_id(transactional_id)
    transactions = node.coordinators.transactions

    def finished(response: Any, code: ErrorCode, message: str, at_ms: int) -> None:
        done(response, coordinator_error(code), at_ms)

    transactions.runtime.write(
        transactions.topic.partition_of(transactional_id),
        lambda machine: operation(machine.state),
        asked.guard(finished),
        node.scheduler.now_ms,
    )


class AskedByRequest:
    """A request that waits for its answer: `Asked`."""

    def __init__(self, node: Broker, request: Request[Any]) -> None:
        self._node = node
        self._request = request
        self._body = request.body

    @property
    def done(self) -> bool:
        return self._request.done

    def answer(self, message: Message, now_ms: int) -> None:
        self._node.answer(self._request, message, now_ms)

    def guard(self, go_on: Callable[..., None]) -> Callable[..., None]:
        def with_body(*what: Any) -> None:
            self._request.body = self._body  # a refusal may name its parts
            go_on(*what)

        return self._node.dispatcher.later(self._request, with_body)

    def broke(self, error: Exception, now_ms: int) -> None:
        self._node.dispatcher.broke(self._request, error, now_ms, place="append")


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
