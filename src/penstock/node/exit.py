"""The exit: every answer leaves here, whenever it was made, also one that was encoded before, and every refusal.

What is to be done to all of them has its one place: the throttle time is put in, the request and its time are counted
and audited, and the connection gets the bytes, to send them when it is their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from penstock.errors import ErrorCode
from penstock.node.audit import Audit
from penstock.node.connection import Connection, Steps
from penstock.node.limits import STEPPED_FRAME_BYTES
from penstock.node.metrics import RequestCounters
from penstock.node.request import Kept, Request, Served
from penstock.node.scheduler import Scheduler
from penstock.node.steps import let_go
from penstock.node.turns import Turns
from penstock.protocol.frames import encode_response, encode_response_steps
from penstock.protocol.message import Message


class Throttle(Protocol):
    """Says how long whoever asked has to wait before the next request."""

    def time_ms(self, request: Request[Any], now_ms: int) -> int:
        """What is left of that when the answer is made; 0 for who need not wait."""


class Exit:
    """See the module's head. `counters` of requests are by API key; `close` ends a connection, for a reason."""

    __slots__ = ("_audit", "_close", "_scheduler", "_throttle", "_turns", "counters")

    def __init__(
        self,
        scheduler: Scheduler,
        turns: Turns,
        close: Callable[[Connection, str], None],
        served: Served,
        *,
        throttle: Throttle | None,
        audit: Audit | None,
    ) -> None:
        self._scheduler = scheduler
        self._close = close
        self._turns = turns
        self._throttle = throttle
        self._audit = audit
        apis = {**served.broker, **served.controller}
        self.counters = {number: RequestCounters(apis[number].api.name) for number in sorted(apis)}

    def answer(self, request: Request[Any], answer: Message | Kept | None, now_ms: int) -> None:
        """Answers a request (None: without a response frame), in its connection's order.

        An answer that cannot be given closes the connection: whoever has it answered (a timer, a commit, another
        member of a group, the metadata quorum) goes on. So this raises nothing.
        """
        connection = request.connection
        if connection.closed or request.broke:
            return
        try:
            request.body = None
            if self._throttle is not None and answer is not None:
                time_ms = self._throttle.time_ms(request, now_ms)
                if time_ms:
                    self._answer_throttled(request, answer, time_ms, now_ms)
                    return
            if isinstance(answer, Kept):
                chunks: Sequence[Any] = (
                    answer.start + request.correlation_id.to_bytes(4, "big", signed=True) + answer.rest,
                )
            elif answer is not None:
                if request.long:
                    self._turns.begin(connection, self._answer_large(request, answer))
                    return
                chunks = encode_response(request.api, request.version, request.correlation_id, answer)
            else:
                chunks = ()
            self._leave(request, chunks, now_ms)
        except Exception as error:
            self._unencodable(request, error)

    def refusal(self, request: Request[Any], code: ErrorCode, message: str) -> Message | None:
        """The API's error response, as its handler makes it."""
        self.counters[request.handler.number].refused(code)
        if self._audit is not None:
            self._audit.refused(request, code)
        return request.handler.refuse(request, code, message)

    def _answer_throttled(
        self, request: Request[Any], answer: Message | Kept, throttle_time_ms: int, now_ms: int
    ) -> None:
        """Answers with how long the client is to wait; what was encoded before is written anew for it."""
        if request.long or (isinstance(answer, Kept) and len(answer.rest) > STEPPED_FRAME_BYTES):
            self._turns.begin(request.connection, self._answer_large(request, answer, throttle_time_ms))
            return
        message = answer.message(request.api, request.version) if isinstance(answer, Kept) else answer
        put_in(message, throttle_time_ms)
        self._leave(request, encode_response(request.api, request.version, request.correlation_id, message), now_ms)

    def _answer_large(self, request: Request[Any], answer: Message | Kept, throttle_time_ms: int = 0) -> Steps:
        """Encodes an answer in steps, and answers with it."""
        try:
            if isinstance(answer, Kept):
                message = yield from answer.message_in_steps(request.api, request.version)
            else:
                message = answer
            if throttle_time_ms:
                put_in(message, throttle_time_ms)
            chunks = yield from encode_response_steps(request.api, request.version, request.correlation_id, message)
            if not request.connection.closed:
                self._leave(request, chunks, self._scheduler.now_ms)
        except Exception as error:
            self._unencodable(request, error)
            return
        kept = [message]
        del answer, message, chunks
        yield from let_go(kept)

    def _leave(self, request: Request[Any], chunks: Sequence[Any], now_ms: int) -> None:
        self.counters[request.handler.number].add(now_ms - request.arrived_ms)
        if self._audit is not None:
            self._audit.answered(request, now_ms - request.arrived_ms)
        request.connection.answered(request, chunks, self._scheduler.effects)

    def _unencodable(self, request: Request[Any], error: Exception) -> None:
        name = request.handler.key.name
        self._close(request.connection, f"the answer to its {name} cannot be encoded")
        self._scheduler.bug("answer", f"{name} of connection {request.connection.id}", error)


def put_in(answer: Message, throttle_time_ms: int) -> None:
    """Has an answer say how long to wait; one that another node has made may know of more."""
    if hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = max(answer.throttle_time_ms, throttle_time_ms)
