"""Calls from any node to the active controller, with retries, and forwarded client requests.

    node.channel.to_controller(BrokerHeartbeatRequest(...), answered, now_ms)

    def answered(answer, now_ms):        # a response, or None when there was none in time

A call waits while the quorum has no leader. It is sent again, to the leader of the moment, when the connection breaks,
the answer is NOT_CONTROLLER or the leader changes. So a request may be executed twice, as in Kafka, and must allow
that.

A client's request that only the controller can answer is wrapped into an Envelope (KIP-590) with the client's address
and its principal as Kafka's DefaultKafkaPrincipalBuilder serialises it. On the active controller itself the handler
answers, and nothing is forwarded.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, ProtocolError, RequestError
from penstock.node.bugs import Bugs
from penstock.node.limits import CONTROLLER_CALLS_MAX
from penstock.node.outgoing import Call, Outgoing, Peer
from penstock.node.timers import TimerWheel
from penstock.protocol import codec, frames
from penstock.protocol.api import API_BY_NUMBER, Api
from penstock.protocol.message import Message
from penstock.protocol.messages.default_principal_data import DefaultPrincipalData
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.envelope_response import EnvelopeResponse
from penstock.protocol.wire import joined
from penstock.security.authorizer import Principal

if TYPE_CHECKING:
    from penstock.node.request import Request
    from penstock.node.timers import Timer

RETRY_BACKOFF_MS = 50
"""Between two tries of one call."""
TRY_TIMEOUT_MS = 30_000
"""How long one try may take; a controller that is gone is noticed by its connection or by the quorum long before."""
PRINCIPAL_VERSION = 0
ENVELOPES_BELOW = -(1 << 40)

Answered = Callable[[Message | None, int], None]


class ControllerCall:
    """A call to the controller and its progress."""

    __slots__ = ("answered", "deadline", "make", "number", "timer", "under_way")

    def __init__(self, number: int, make: Callable[[], Message], answered: Answered) -> None:
        self.number = number
        self.make = make
        self.answered = answered
        self.under_way: Call | None = None
        self.timer: Timer | None = None
        self.deadline: Timer | None = None


class Channel:
    """Calls to the active controller. See the module's head."""

    NAME = "controller"

    def __init__(
        self, node_id: int, outgoing: Outgoing, timers: TimerWheel, bugs: Bugs, *, request_timeout_ms: int
    ) -> None:
        self._node_id = node_id
        self._outgoing = outgoing
        self._timers = timers
        self._bugs = bugs
        self._request_timeout_ms = request_timeout_ms
        self._calls: dict[int, ControllerCall] = {}
        self._sequence = 0
        self._envelopes = 0
        self._peer: Peer | None = None

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def controller(self) -> Peer | None:
        """The active controller as far as this node knows; itself only once it is active."""
        return self._peer

    @property
    def elsewhere(self) -> bool:
        """Whether there is an active controller that is not this node."""
        return self._peer is not None and self._peer.node_id != self._node_id

    def controller_changed(self, peer: Peer | None, now_ms: int) -> None:
        """The quorum has another leader, or none (None). Unanswered calls to the old leader go to the new one."""
        old, self._peer = self._peer, peer
        if old == peer:
            return
        for call in list(self._calls.values()):
            if call.under_way is not None:
                self._outgoing.cancel(call.under_way)
                call.under_way = None
        if old is not None:
            self._outgoing.hang_up(old, self.NAME, "it is not the controller any more", now_ms)
        if peer is not None:
            for call in list(self._calls.values()):
                self._try(call, now_ms)

    def to_controller(
        self,
        message: Message | Callable[[], Message],
        answered: Answered,
        now_ms: int,
        *,
        timeout_ms: int | None = None,
    ) -> ControllerCall:
        """Calls the active controller; `answered` is called once, never before this returns.

        Args:
            message: the request, or what makes it anew for each try.
            timeout_ms: for all tries together; None is as long as a client would wait (request.timeout.ms).
        """
        self._sequence += 1
        make = message if callable(message) else lambda: message
        call = ControllerCall(self._sequence, make, answered)
        timers = self._timers
        if len(self._calls) >= CONTROLLER_CALLS_MAX:
            call.deadline = timers.at(now_ms, lambda at_ms: answered(None, at_ms))
            return call
        self._calls[call.number] = call
        wait_ms = self._request_timeout_ms if timeout_ms is None else timeout_ms
        call.deadline = timers.at(now_ms + wait_ms, lambda at_ms: self._end(call, None, at_ms))
        self._try(call, now_ms)
        return call

    def cancel(self, call: ControllerCall) -> None:
        """Cancels a call: `answered` is not called."""
        if call.under_way is not None:
            self._outgoing.cancel(call.under_way)
        self._forget(call)

    def _try(self, call: ControllerCall, now_ms: int) -> None:
        if self._peer is None or call.under_way is not None or call.timer is not None:
            return

        def done(answer: Message | None, reason: str | None, at_ms: int) -> None:
            call.under_way = None
            if answer is None or getattr(answer, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
                self._again(call, at_ms)
            else:
                self._end(call, answer, at_ms)

        call.under_way = self._outgoing.call(
            self._peer, call.make(), timeout_ms=TRY_TIMEOUT_MS, done=done, now_ms=now_ms, channel=self.NAME
        )

    def _again(self, call: ControllerCall, now_ms: int) -> None:
        if call.number not in self._calls:
            return

        def retry(at_ms: int) -> None:
            call.timer = None
            self._try(call, at_ms)

        call.timer = self._timers.at(now_ms + RETRY_BACKOFF_MS, retry, duty=True)

    def _end(self, call: ControllerCall, answer: Message | None, now_ms: int) -> None:
        if call.number in self._calls:
            self.cancel(call)
            self._tell(call.answered, answer, now_ms)

    def _tell(self, answered: Answered, answer: Message | None, now_ms: int) -> None:
        """Passes on the answer. If that raises, the caller is told that there was no answer, so that it asks again."""
        try:
            answered(answer, now_ms)
        except Exception as error:
            if answer is not None:
                self._tell(answered, None, now_ms)
            self._bugs.caught("call", "an answer of the controller", error)

    def _forget(self, call: ControllerCall) -> None:
        self._calls.pop(call.number, None)
        for timer in (call.timer, call.deadline):
            if timer is not None:
                self._timers.cancel(timer)
        call.timer = call.deadline = None

    # Requests of clients

    def number_envelope(self) -> int:
        """The number of a connection that stands for a client's while the request in an Envelope is executed here.

        Never used twice. Numbers of clients are above 0, those of this node's calls to itself just below 0.
        """
        self._envelopes += 1
        return ENVELOPES_BELOW - self._envelopes

    def forward(
        self, request: Request[Any], answered: Callable[[EnvelopeResponse | None, int], None], now_ms: int
    ) -> ControllerCall:
        """Has the active controller answer a client's request, until the request's deadline.

        The request keeps its body, which a refusal needs.
        """
        return self._envelop(request, enveloped(request, request.api, request.version, request.body), answered, now_ms)

    def ask_for(
        self,
        request: Request[Any],
        message: Message,
        answered: Callable[[EnvelopeResponse | None, int], None],
        now_ms: int,
    ) -> ControllerCall:
        """Asks the active controller for something that a client's request leads to, with the client's rights."""
        api = API_BY_NUMBER[message.KEY]
        return self._envelop(request, enveloped(request, api, api.stable_max_version, message), answered, now_ms)

    def _envelop(
        self,
        request: Request[Any],
        make: Callable[[], EnvelopeRequest],
        answered: Callable[[EnvelopeResponse | None, int], None],
        now_ms: int,
    ) -> ControllerCall:
        def done(answer: Message | None, at_ms: int) -> None:
            assert answer is None or isinstance(answer, EnvelopeResponse)
            answered(answer, at_ms)

        timeout_ms = request.arrived_ms + self._request_timeout_ms - now_ms
        return self.to_controller(make, done, now_ms, timeout_ms=max(0, timeout_ms))


def enveloped(request: Request[Any], api: Api, version: int, message: Message) -> Callable[[], EnvelopeRequest]:
    """Returns a builder of an Envelope: a whole request with its header, as the client could have sent it."""
    chunks = frames.encode_request(api, version, request.correlation_id, request.client_id, message)
    frame = joined(chunks)[4:]
    principal = serialized(request.principal)
    address = address_bytes(request.connection.peer)
    return lambda: EnvelopeRequest(request_data=frame, request_principal=principal, client_host_address=address)


def answer_in(answer: EnvelopeResponse | None, request: Request[Any]) -> Message:
    """The controller's answer to the request in the Envelope. Raises RequestError when there is none."""
    if answer is None:
        raise RequestError(ErrorCode.REQUEST_TIMED_OUT)
    if answer.error_code or answer.response_data is None:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    try:
        correlation_id, message = frames.decode_response(
            request.api, request.version, memoryview(bytearray(answer.response_data))
        )
    except ProtocolError:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR) from None
    if correlation_id != request.correlation_id:
        raise RequestError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return message


def serialized(principal: Principal) -> bytes:
    """A principal as Kafka's DefaultKafkaPrincipalBuilder serialises it: a 16-bit version, and the message."""
    data = DefaultPrincipalData(
        type=principal.type, name=principal.name, token_authenticated=principal.token_authenticated
    )
    return PRINCIPAL_VERSION.to_bytes(2, "big") + codec.encode_bytes(data, PRINCIPAL_VERSION)


def deserialized(data: bytes | memoryview) -> Principal:
    """The principal of such bytes. Raises ProtocolError for anything else."""
    version = int.from_bytes(data[:2], "big")
    if len(data) < 2 or version != PRINCIPAL_VERSION:
        raise ProtocolError(f"a principal of version {version} is not known")
    found, _ = codec.decode(DefaultPrincipalData, version, memoryview(bytearray(data)), 2)
    return Principal(found.type, found.name, found.token_authenticated)


def address_bytes(peer: str) -> bytes:
    """The 4 or 16 bytes of a connection's `host:port`; none of a name that is no address."""
    host = peer.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        return b""
