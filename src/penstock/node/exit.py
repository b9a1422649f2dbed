"""The exit: every answer leaves here, whenever it was made, also one that was encoded before, and every refusal.

What is to be done to all of them has its one place: the throttle time is put in, the request and its time are counted,
and the connection gets the bytes, to send them when it is their turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode
from penstock.node.metrics import RequestCounters
from penstock.node.request import Handler, Kept, Request
from penstock.node.steps import let_go
from penstock.node.turns import Steps, Turns
from penstock.protocol.api import ApiKey
from penstock.protocol.frames import encode_response, encode_response_steps
from penstock.protocol.message import Message

if TYPE_CHECKING:
    from penstock.node.broker import Broker


class Exit:
    """See the module's head. `counters` of requests are by API key."""

    __slots__ = ("_node", "_turns", "counters")

    def __init__(self, node: Broker, turns: Turns, handlers: Mapping[ApiKey, Handler]) -> None:
        self._node = node
        self._turns = turns
        self.counters = {int(key): RequestCounters(handler.api.name) for key, handler in handlers.items()}

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
            if request.throttle_time_ms and answer is not None:
                answer = throttled(request, answer)
            chunks: Sequence[Any] = ()
            if isinstance(answer, Kept):
                chunks = (answer.start + request.correlation_id.to_bytes(4, "big", signed=True) + answer.rest,)
            elif answer is not None:
                if request.long:
                    self._turns.begin(connection, self._answer_large(request, answer))
                    return
                chunks = encode_response(request.api, request.version, request.correlation_id, answer)
            self._leave(request, chunks, now_ms)
        except Exception as error:
            self._unspeakable(request, error)

    def refusal(self, request: Request[Any], code: ErrorCode, message: str) -> Message | None:
        """The API's error response, as its handler makes it."""
        self.counters[request.handler.number].refused(code)
        return request.handler.refuse(request, code, message)

    def _answer_large(self, request: Request[Any], message: Message) -> Steps:
        """Encodes an answer in steps, and answers with it."""
        try:
            chunks = yield from encode_response_steps(request.api, request.version, request.correlation_id, message)
            if not request.connection.closed:
                self._leave(request, chunks, self._node.now_ms)
        except Exception as error:
            self._unspeakable(request, error)
            return
        kept = [message]
        del message, chunks
        yield from let_go(kept)

    def _leave(self, request: Request[Any], chunks: Sequence[Any], now_ms: int) -> None:
        node = self._node
        self.counters[request.handler.number].add(now_ms - request.arrived_ms)
        request.connection.answered(request, chunks, node.effects)

    def _unspeakable(self, request: Request[Any], error: Exception) -> None:
        name = request.handler.key.name
        self._node.close(request.connection, f"the answer to its {name} cannot be encoded")
        self._node.bug("answer", f"{name} of connection {request.connection.id}", error)


def throttled(request: Request[Any], answer: Message | Kept) -> Message:
    """The answer with how long the client is to wait; one that was kept is written anew for it."""
    if isinstance(answer, Kept):
        answer = answer.message(request.api, request.version)
    if hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = request.throttle_time_ms
    return answer
