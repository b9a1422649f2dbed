"""The exit: every answer leaves here, including refusals and answers that were encoded earlier.

So this is the one place where connections are muted for what client quotas say (`penstock.node.client_quotas`) and the
answers are told for how long, where the request and its time are counted and audited, and where the connection is given
the bytes, which it sends in the order of its requests.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from penstock.errors import ErrorCode
from penstock.log.disk import FileSlice
from penstock.node.audit import Audit
from penstock.node.client_quotas import ClientQuotas
from penstock.node.connection import Connection, InFlight, LateAnswer, Steps
from penstock.node.effects import Chunk
from penstock.node.limits import STEPPED_FRAME_BYTES
from penstock.node.metrics import RequestCounters
from penstock.node.request import Kept, Request, Served
from penstock.node.scheduler import Scheduler
from penstock.node.steps import let_go
from penstock.node.turns import Turns
from penstock.protocol.api import ApiKey
from penstock.protocol.frames import encode_response, encode_response_steps
from penstock.protocol.message import Message


class Exit:
    """See the module's head. `counters` of requests are by API key; `close` ends a connection, for a reason."""

    __slots__ = ("_audit", "_close", "_scheduler", "_turns", "counters", "quotas")

    def __init__(
        self,
        scheduler: Scheduler,
        turns: Turns,
        close: Callable[[Connection, str], None],
        served: Served,
        *,
        quotas: ClientQuotas,
        audit: Audit | None,
    ) -> None:
        self._scheduler = scheduler
        self._close = close
        self._turns = turns
        self.quotas = quotas
        self._audit = audit
        apis = {**served.broker, **served.controller}
        self.counters = {number: RequestCounters(apis[number].api.name) for number in sorted(apis)}

    def begins(self, request: Request[Any], now_ms: int) -> None:
        """A request is about to execute: what it costs for that keeps its connection from executing the next one."""
        delay_ms = self.quotas.begins(request, now_ms)
        if delay_ms:
            self._mute(request.connection, now_ms + delay_ms)

    def holds_back(self, request: Request[Any], size_bytes: int, now_ms: int) -> bool:
        """Whether a fetch that found so much is to be answered with nothing, because of its client's quota. If not,
        what it found counts for whose turn it is.
        """
        delay_ms = self.quotas.fetch_delay_ms(request, size_bytes, now_ms)
        if delay_ms:
            self._mute(request.connection, now_ms + delay_ms)
        else:
            self._turns.brought(request.connection, size_bytes)
        return delay_ms > 0

    def answer(self, request: Request[Any], answer: Message | Kept | None, now_ms: int) -> None:
        """Answers a request (None: without a response frame), in its connection's order.

        Raises nothing, since the caller (a timer, a commit, another member of a group) must go on: if the answer cannot
        be encoded, the connection is closed.
        """
        connection = request.connection
        if connection.closed or request.broke:
            return
        try:
            request.body = None
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
            if self.quotas.active or request.api.forwarded:  # the controller may know of a quota before this node does
                time_ms = self._counted(request, answer, chunks, now_ms)
                if time_ms and answer is not None:
                    self._answer_throttled(request, answer, time_ms, now_ms)
                    return
            self._leave(request, chunks, now_ms)
        except Exception as error:
            self._unencodable(request, error)

    def lost(self, request: InFlight) -> None:
        """The connection of a request is gone before its answer."""
        if self._audit is not None and isinstance(request, Request):
            self._audit.ended(request, self._scheduler.now_ms - request.arrived_ms, answered=False)

    def refusal(self, request: Request[Any], code: ErrorCode, message: str) -> Message | None:
        """The API's error response, as its handler makes it."""
        self.counters[request.handler.number].refused(code)
        if self._audit is not None:
            self._audit.refused(request, code)
        return request.handler.refuse(request, code, message)

    def _counted(self, request: Request[Any], answer: Message | Kept | None, chunks: Sequence[Any], now_ms: int) -> int:
        """Mutes the connection if the request and its answer exceed a quota. How many ms of that are left."""
        answer_bytes = sum(map(size_of, chunks)) if request.handler.key is ApiKey.FETCH else 0
        delay_ms = self.quotas.throttle_time_ms(request, answer_bytes, now_ms)
        if request.api.forwarded:  # the active controller may have set more
            delay_ms = max(delay_ms, getattr(answer, "throttle_time_ms", 0))
        connection = request.connection
        if delay_ms:
            self._mute(connection, now_ms + delay_ms)
        return max(0, connection.muted_until_ms - now_ms)

    def _mute(self, connection: Connection, until_ms: int) -> None:
        """Executes and reads nothing more of a connection until then, or longer if it is muted for longer."""
        if until_ms <= connection.muted_until_ms:
            return
        if not connection.muted_until_ms:
            connection.mute(self._scheduler.effects)
            connection.mute_timer = self._scheduler.timers.at(until_ms, partial(self._unmute, connection))
        connection.muted_until_ms = until_ms

    def forget(self, connection: Connection) -> None:
        """The connection is closed: nothing is left to go on with, however long it would have been mute."""
        if connection.mute_timer is not None:
            self._scheduler.timers.cancel(connection.mute_timer)
            connection.mute_timer = None

    def _unmute(self, connection: Connection, now_ms: int) -> None:
        """Goes on with a connection unless a later answer has muted it for longer."""
        if now_ms < connection.muted_until_ms:
            until_ms = connection.muted_until_ms
            connection.mute_timer = self._scheduler.timers.at(until_ms, partial(self._unmute, connection))
            return
        connection.mute_timer = None
        connection.unmute(self._scheduler.effects)
        self._turns.proceed(connection)

    def _answer_throttled(
        self, request: Request[Any], answer: Message | Kept, throttle_time_ms: int, now_ms: int
    ) -> None:
        """Answers with a throttle time; an answer that was encoded before is decoded and encoded again for that."""
        if request.long or (isinstance(answer, Kept) and len(answer.rest) > STEPPED_FRAME_BYTES):
            self._turns.begin(request.connection, self._answer_large(request, answer, throttle_time_ms))
            return
        message = answer.message(request.api, request.version) if isinstance(answer, Kept) else answer
        put_in(message, throttle_time_ms)
        chunks = encode_response(request.api, request.version, request.correlation_id, message)
        if request.connection.in_flight[0] is request:
            self._leave(request, chunks, now_ms)
        else:  # that it can be encoded is known by now
            self._leave(request, LateAnswer(partial(self._written_late, request, message)), now_ms)

    def _written_late(self, request: Request[Any], message: Message) -> Sequence[Any]:
        """A throttled answer that had to wait for others: it says what is left of the mute by now."""
        if hasattr(message, "throttle_time_ms"):
            message.throttle_time_ms = max(0, request.connection.muted_until_ms - self._scheduler.now_ms)
        return encode_response(request.api, request.version, request.correlation_id, message)

    def _answer_large(self, request: Request[Any], answer: Message | Kept, throttle_time_ms: int = 0) -> Steps:
        """Encodes an answer in steps and sends it."""
        try:
            if isinstance(answer, Kept):
                message = yield from answer.message_in_steps(request.api, request.version)
            else:
                message = answer
            if throttle_time_ms:
                put_in(message, throttle_time_ms)
            chunks = yield from encode_response_steps(request.api, request.version, request.correlation_id, message)
            counts = self.quotas.active or request.api.forwarded
            if counts and not throttle_time_ms and not request.connection.closed:
                time_ms = self._counted(request, message, chunks, self._scheduler.now_ms)
                if time_ms:
                    put_in(message, time_ms)
                    encoded = encode_response_steps(request.api, request.version, request.correlation_id, message)
                    chunks = yield from encoded
            if not request.connection.closed:
                self._leave(request, chunks, self._scheduler.now_ms)
        except Exception as error:
            self._unencodable(request, error)
            return
        kept = [message]
        del answer, message, chunks
        yield from let_go(kept)

    def _leave(self, request: Request[Any], answer: Sequence[Any] | LateAnswer, now_ms: int) -> None:
        self.counters[request.handler.number].add(now_ms - request.arrived_ms)
        if self._audit is not None:
            self._audit.ended(request, now_ms - request.arrived_ms, answered=True)
        request.connection.answered(request, answer, self._scheduler.effects)

    def _unencodable(self, request: Request[Any], error: Exception) -> None:
        name = request.handler.key.name
        self._close(request.connection, f"the answer to its {name} cannot be encoded")
        self._scheduler.bug("answer", f"{name} of connection {request.connection.id}", error)


def put_in(answer: Message, throttle_time_ms: int) -> None:
    """Sets the throttle time of an answer, unless the node that made the answer has set a longer one."""
    if hasattr(answer, "throttle_time_ms"):
        answer.throttle_time_ms = max(answer.throttle_time_ms, throttle_time_ms)


def size_of(chunk: Chunk) -> int:
    """The bytes of a chunk, whether in memory or in a file."""
    return chunk.length if isinstance(chunk, FileSlice) else len(chunk)
