"""From a frame to a handler and back: decode, authorize, run, answer; and the one place that knows of `NotResident`.

A frame that does not decode, an API that is not served or a version that does not exist closes the connection that sent
it, as Kafka does; only ApiVersions answers an unsupported version, in version 0 with what is supported. An error in a
handler is answered with the API's error response.

A handler whose read was not resident is run again after the directory's lane has read the range into memory;
meanwhile its connection executes nothing else. Handlers change state only after their last read, so running one twice
does no harm.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from penstock.errors import ErrorCode, NotResident, PenstockError, ProtocolError, RequestError
from penstock.log.disk import Disk, Operation
from penstock.log.manager import NotOpen
from penstock.node.connection import Connection
from penstock.node.effects import Run
from penstock.node.request import AGAIN, FORWARD, LATER, Append, Handler, Message, Outcome, Parked, Request
from penstock.protocol.api import ApiKey
from penstock.protocol.codec import decode
from penstock.protocol.frames import decode_request_header, encode_response
from penstock.security.authorizer import CLUSTER_NAME, ResourceType

if TYPE_CHECKING:
    from penstock.node.broker import Broker

MAX_REPEATS = 100_000
"""How often one request may be run again, for reads that were not resident above all, before it is given up."""

logger = logging.getLogger(__name__)


class ColdRead(Operation):
    """Reads a range in the lane so that it is resident when the handler runs again."""

    __slots__ = ("length", "path", "position")

    def __init__(self, missing: NotResident, owner: RepeatRequest, connection: int) -> None:
        super().__init__(missing.directory, f"read for connection {connection}", owner)
        self.path = missing.path
        self.position = missing.position
        self.length = missing.length

    def run(self, disk: Disk) -> Any:
        return disk.read(self.path, self.position, self.length)


class RepeatRequest:
    """Owner of a cold read: runs the request again, also after an error, which the handler then meets by itself."""

    __slots__ = ("dispatcher", "request")

    def __init__(self, dispatcher: Dispatcher, request: Request[Any]) -> None:
        self.dispatcher = dispatcher
        self.request = request

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        self.dispatcher.repeat(self.request, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        assert isinstance(operation, ColdRead)
        self.dispatcher.node.read_failed(operation.directory, operation.path, error, now_ms)
        self.dispatcher.repeat(self.request, now_ms)


class Dispatcher:
    """Executes frames of connections. Part of the broker, split off for its size."""

    def __init__(self, node: Broker, handlers: Mapping[ApiKey, Handler]) -> None:
        self.node = node
        self.handlers = handlers
        self._of_kind = {
            kind: {int(key): handler for key, handler in handlers.items() if kind in handler.api.listeners}
            for kind in ("broker", "controller")
        }
        self._waiting_for_controller: dict[int, Request[Any]] = {}
        self._sequence = 0

    def handlers_of(self, listener: str) -> Mapping[int, Handler]:
        """What is served on a listener, by API key: a controller listener has the controller's APIs."""
        return self._of_kind["controller" if listener in self.node.settings.controller_listener_names else "broker"]

    def received(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        """Executes a frame now, or when its turn comes."""
        connection.frame_bytes += len(frame)
        if connection.holds or connection.waiting:
            connection.waiting.append(frame)
        else:
            self.execute(connection, frame, now_ms)
        if not connection.closed:
            connection.pause_if_full(self.node.effects)

    def execute(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        """Decodes one frame and runs its handler."""
        try:
            header, position = decode_request_header(frame)
            handler = connection.handlers.get(header.api_key)
            version = header.api_version
            if handler is None:
                self.node.close(connection, f"{ApiKey(header.api_key).name} is not served on {connection.listener}")
                return
            if handler.min_version <= version <= handler.max_version:
                body, _ = decode(handler.api.request_class, version, frame, position)
            elif handler.key is ApiKey.API_VERSIONS:
                body = None
            else:
                self.node.close(connection, f"version {version} of {handler.key.name} is not supported")
                return
        except ProtocolError as error:
            self.node.close(connection, str(error))
            return
        request: Request[Any] = Request(connection, handler, header, body, now_ms)
        request.frame_bytes = len(frame)
        connection.in_flight.append(request)
        self.run(request, now_ms)

    def run(self, request: Request[Any], now_ms: int) -> None:
        """Runs the handler of a request and does what its outcome says."""
        handler = request.handler
        try:
            if handler.authorize.resource is ResourceType.CLUSTER and not self._cluster_allowed(request):
                outcome: Outcome = handler.refuse(
                    request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED.name
                )
            else:
                outcome = handler.handle(self.node, request, now_ms)
        except NotResident as missing:
            self._read_first(request, missing, now_ms)
            return
        except RequestError as error:
            outcome = handler.refuse(request, error.code, error.message)
        except ProtocolError as error:
            self.node.close(request.connection, str(error))
            return
        except PenstockError as error:
            outcome = handler.refuse(request, error.code, str(error))
        except Exception as error:
            self.node.bug(f"{handler.key.name} of connection {request.connection.id}", error)
            outcome = handler.refuse(request, ErrorCode.UNKNOWN_SERVER_ERROR, "")
        self._finish(request, outcome, now_ms)

    def _finish(self, request: Request[Any], outcome: Outcome, now_ms: int) -> None:
        if outcome is LATER:
            request.body = None
        elif isinstance(outcome, Parked):
            request.body = None
            self._park(request, outcome, now_ms)
        elif isinstance(outcome, Append):
            self._append(request, outcome, now_ms)
        elif outcome is AGAIN:
            self._put_off(request)
            self.node.do(self._step(request))
        elif outcome is FORWARD:
            self._forward(request, now_ms)
        else:
            self.answer(request, outcome, now_ms)

    def answer(self, request: Request[Any], message: Message | None, now_ms: int) -> None:
        """Answers a request (None: without a response frame), in its connection's order."""
        connection = request.connection
        if connection.closed:
            return
        request.body = None
        chunks: Sequence[Any] = ()
        if message is not None:
            chunks = encode_response(request.api, request.version, request.correlation_id, message)
        self.node.request_answered(request, now_ms)
        connection.answered(request, chunks, self.node.effects)

    def answer_encoded(self, request: Request[Any], chunks: list[Any], now_ms: int) -> None:
        """Answers with a frame that is encoded already."""
        connection = request.connection
        if connection.closed:
            return
        request.body = None
        self.node.request_answered(request, now_ms)
        connection.answered(request, chunks, self.node.effects)

    def hold(self, connection: Connection) -> None:
        """Nothing later of this connection executes until the matching `release`."""
        connection.holds += 1

    def release(self, connection: Connection, now_ms: int) -> None:
        """Takes back one `hold`; executes the frames that waited, as far as nothing holds again."""
        connection.holds -= 1
        assert connection.holds >= 0
        waiting = connection.waiting
        while waiting and not connection.holds and not connection.closed:
            self.execute(connection, waiting.popleft(), now_ms)

    def _cluster_allowed(self, request: Request[Any]) -> bool:
        row = request.handler.authorize
        assert row.operation is not None
        return self.node.authorizer.authorize(request.principal, row.operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def _read_first(self, request: Request[Any], missing: NotResident, now_ms: int) -> None:
        if request.repeats > MAX_REPEATS:
            self.node.bug(f"{request.handler.key.name} never finds its data in memory", missing)
            self._finish(request, request.handler.refuse(request, ErrorCode.KAFKA_STORAGE_ERROR, ""), now_ms)
            return
        self._put_off(request)
        if isinstance(missing, NotOpen):
            missing.opening.when_done.append(lambda at_ms: self.repeat(request, at_ms))
        else:
            self.node.cold_reads += 1
            self.node.effects.append(Run(ColdRead(missing, RepeatRequest(self, request), request.connection.id)))

    def _put_off(self, request: Request[Any]) -> None:
        """The request is run again by `repeat`; nothing later of its connection executes before."""
        request.repeats += 1
        if not request.held:
            request.held = True
            self.hold(request.connection)

    def _step(self, request: Request[Any]) -> Iterator[None]:
        self.repeat(request, self.node.now_ms)
        yield

    def repeat(self, request: Request[Any], now_ms: int) -> None:
        """Runs a request again that was put off."""
        connection = request.connection
        if connection.closed:
            return
        before = request.repeats
        if not request.done:
            self.run(request, now_ms)
        if request.repeats == before:
            request.held = False
            self.release(connection, now_ms)

    def _park(self, request: Request[Any], parked: Parked, now_ms: int) -> None:
        waiting = self.node.purgatory.park(parked, lambda message, at_ms: self.answer(request, message, at_ms))
        request.abandoned = lambda: self.node.purgatory.cancel(waiting)

    def _append(self, request: Request[Any], append: Append, now_ms: int) -> None:
        def refused(code: ErrorCode, message: str) -> Message:
            return append.failed(code) if append.failed is not None else request.handler.refuse(request, code, message)

        def committed(at_ms: int) -> None:
            self.answer(request, append.response, at_ms)

        def failed(code: ErrorCode, at_ms: int) -> None:
            if code is ErrorCode.NOT_CONTROLLER and request.connection.ask_next_controller():
                return
            self.answer(request, refused(code, code.name), at_ms)

        controller = self.node.controller
        try:
            if append.records:
                controller.append(append.records, committed, failed, now_ms, atomic=append.atomic)
            else:
                controller.when_committed(committed, failed, now_ms)
        except RequestError as error:
            self.answer(request, refused(error.code, error.message), now_ms)

    def _forward(self, request: Request[Any], now_ms: int) -> None:
        """Has the active controller answer, or waits until there is one, as long as a client would."""
        if request.connection.ask_next_controller():
            return
        if self.node.channel.elsewhere:
            self.node.channel.forward(request, now_ms)
            return
        self._sequence += 1
        sequence = self._sequence
        self._waiting_for_controller[sequence] = request
        deadline_ms = request.arrived_ms + self.node.settings.request_timeout_ms

        def expire(at_ms: int) -> None:
            if self._waiting_for_controller.pop(sequence, None) is not None:
                self.answer(request, request.handler.refuse(request, ErrorCode.REQUEST_TIMED_OUT, ""), at_ms)

        timer = self.node.timers.at(deadline_ms, expire)

        def abandoned() -> None:
            self.node.timers.cancel(timer)
            self._waiting_for_controller.pop(sequence, None)

        request.abandoned = abandoned

    def controller_known(self, now_ms: int) -> None:
        """There is an active controller, here or elsewhere: runs what waited for it, oldest first."""
        waiting, self._waiting_for_controller = self._waiting_for_controller, {}
        for request in waiting.values():
            abandoned, request.abandoned = request.abandoned, None
            if abandoned is not None:
                abandoned()
            if not request.connection.closed:
                self.run(request, now_ms)
