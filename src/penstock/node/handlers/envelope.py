"""Envelope (key 58): a client's request that a broker forwards to the active controller (KIP-590).

Version 0, flexible. On controller listeners only. The request inside is executed as if the client had sent it here:
authorized with the client's principal, in the client's version. A node that is not the active controller, or ceases to
be before the records are committed, answers NOT_CONTROLLER, and the broker asks the next one.

An API inside that is not forwarded, or an unreadable request, is INVALID_REQUEST, an unreadable principal
PRINCIPAL_DESERIALIZATION_FAILURE, a version that is not served UNSUPPORTED_VERSION.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, ProtocolError
from penstock.node.channel import deserialized
from penstock.node.connection import Answer, Connection, InFlight, LateAnswer
from penstock.node.effects import Effect
from penstock.node.request import LATER, Handler, Outcome, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.codec import decode
from penstock.protocol.frames import decode_request_header
from penstock.protocol.messages.envelope_request import EnvelopeRequest
from penstock.protocol.messages.envelope_response import EnvelopeResponse
from penstock.security.authorizer import Principal

if TYPE_CHECKING:
    from penstock.node.broker import Broker


LENGTH_BYTES = 4


class EnvelopedConnection(Connection):
    """Stands for the client's connection while its request is executed; the answer goes into the Envelope's answer."""

    __slots__ = ("node", "outer")

    def __init__(self, node: Broker, outer: Request[EnvelopeRequest], principal: Principal, address: bytes) -> None:
        connection = outer.connection
        super().__init__(
            node.channel.number_envelope(),
            connection.listener,
            f"{client_host(address)}:0",
            max_in_flight=1,
            max_in_flight_bytes=connection.max_in_flight_bytes,
        )
        self.principal = principal
        self.node = node
        self.outer = outer
        node.connections[self.id] = self

    def answered(self, request: InFlight, answer: Answer, effects: list[Effect]) -> None:
        """Sends the answer inside that of the Envelope, without its length."""
        assert not request.done, "a request is answered once"
        assert not isinstance(answer, LateAnswer), "there is no other one to wait for"
        request.done = True
        data = bytearray()
        for chunk in answer:
            assert isinstance(chunk, bytes | bytearray | memoryview), "no forwarded API answers with ranges of files"
            data += chunk
        self._finish(EnvelopeResponse(response_data=bytes(data[LENGTH_BYTES:])))

    def mute(self, effects: list[Effect]) -> None:
        """Does nothing: the broker reads from the client, and learns from the answer how long it shall not."""

    def unmute(self, effects: list[Effect]) -> None:
        """Takes nothing back: see `mute`. Its answer may take longer to write than it was to be mute."""
        self.muted_until_ms = 0

    def ask_next_controller(self) -> bool:
        """This node lost the leadership before the request was done: has the broker ask the next controller."""
        self._finish(failed(ErrorCode.NOT_CONTROLLER))
        return True

    def close(self, reason: str, effects: list[Effect]) -> None:
        """Refuses the Envelope: the request inside cannot be answered."""
        self._finish(failed(ErrorCode.INVALID_REQUEST))

    def _finish(self, response: EnvelopeResponse) -> None:
        self.node.dispatcher.abandon(self)
        self.node.answer(self.outer, response, self.node.scheduler.now_ms)


def handle(node: Broker, request: Request[EnvelopeRequest], now_ms: int) -> Outcome:
    if not node.controller.active:
        return failed(ErrorCode.NOT_CONTROLLER)
    body = request.body
    try:
        principal = deserialized(body.request_principal or b"")
    except ProtocolError:
        return failed(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    frame = memoryview(bytearray(body.request_data))
    try:
        header, position = decode_request_header(frame)
        handler = node.dispatcher.served.broker.get(header.api_key)
        if handler is None or not handler.api.forwarded:
            return failed(ErrorCode.INVALID_REQUEST)
        if not handler.min_version <= header.api_version <= handler.max_version:
            return failed(ErrorCode.UNSUPPORTED_VERSION)
        inner_body, _ = decode(handler.api.request_class, header.api_version, frame, position)
    except (ProtocolError, ValueError):
        return failed(ErrorCode.INVALID_REQUEST)
    connection = EnvelopedConnection(node, request, principal, bytes(body.client_host_address))
    node.dispatcher.turns.tenants.forwarded(connection, header.client_id)
    inner: Request[Any] = Request(connection, handler, header, inner_body, now_ms, frame_bytes=len(frame))
    connection.in_flight.append(inner)
    request.abandoned = lambda: node.disconnected(connection.id, node.scheduler.now_ms)
    node.dispatcher.run(inner, now_ms)
    request.connection.time_usage = connection.time_usage  # this step's time is the client's, too, not the broker's
    return LATER


def client_host(address: bytes) -> str:
    """The client's address as text."""
    try:
        return str(ipaddress.ip_address(address))
    except ValueError:
        return "unknown"


def failed(code: ErrorCode) -> EnvelopeResponse:
    return EnvelopeResponse(error_code=code, response_data=None)


def refuse(request: Request[EnvelopeRequest], code: ErrorCode, message: str) -> EnvelopeResponse:
    return failed(code)


HANDLERS = (Handler(ApiKey.ENVELOPE, handle, refuse),)
