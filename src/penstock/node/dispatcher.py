"""From a frame to a handler and its outcome: decode, admit, run; and the only place that knows about `NotResident`.

Incoming, a request waits for its connection's turn, counts towards what the connection may have in flight, and passes
the gate (`penstock.node.gate`). Outgoing, its answer or refusal passes the exit (`penstock.node.exit`).

A frame that cannot be decoded, an API that is not served or an unsupported version closes the connection, as in Kafka;
only ApiVersions answers an unsupported version, in version 0 with the supported ones. An error in a handler is answered
with the API's error response.

Frames execute in their connections' turns (`penstock.node.turns`). A handler that may take long is a generator; each
yield ends a step. A large frame is decoded in steps, too, and so is the answer to a request that took several encoded.

A handler whose read was not resident is run again after the directory's lane has read the range into memory; meanwhile
its connection executes nothing else. Handlers change state only after their last read, so running one twice does no
harm. A generator can yield the missing read instead, and goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from penstock.errors import ErrorCode, NotResident, PenstockError, ProtocolError, RequestError
from penstock.log.manager import NotOpen
from penstock.metadata.result import MetadataMessage
from penstock.node.audit import Audit
from penstock.node.channel import Channel, answer_in
from penstock.node.client_metrics.node_part import ClientMetrics
from penstock.node.client_quotas import NODES_ONLY, ClientQuotas
from penstock.node.cold_reads import ColdRead, Waiter
from penstock.node.connection import UNNAMED, Connection, Steps, Work
from penstock.node.controller import Done, Failed
from penstock.node.effects import Run
from penstock.node.exit import Exit
from penstock.node.gate import Gate
from penstock.node.identities import Identities
from penstock.node.journal import Journal
from penstock.node.limits import STEPPED_FRAME_BYTES
from penstock.node.login import LoginState
from penstock.node.logins import Logins
from penstock.node.purgatory import Purgatory
from penstock.node.request import (
    AGAIN,
    FORWARD,
    LATER,
    PUT_OFF,
    Append,
    BoundHandler,
    Kept,
    Outcome,
    OutcomeInSteps,
    Parked,
    Request,
    Served,
)
from penstock.node.scheduler import Scheduler
from penstock.node.steps import let_go
from penstock.node.telemetry.clients import Clients
from penstock.node.telemetry.disk_reads import DiskReads
from penstock.node.turns import Turns
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.codec import decode, decode_steps
from penstock.protocol.frames import RequestHeader, decode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.envelope_response import EnvelopeResponse
from penstock.security.mechanisms import Mechanisms

if TYPE_CHECKING:
    from collections.abc import Generator as GeneratorType
else:
    from types import GeneratorType  # of all generators: quicker to tell than by their abstract class

MAX_REPEATS = 100_000
"""How often one request may be run again, for reads that were not resident above all, before it is given up; and how
many reads one step of a long one may need."""

ANSWERS = (Message, Kept)

Step = TypeVar("Step")


class Changes(Protocol):
    """Where the records go that handlers answer with: the controller."""

    def append(
        self, records: Sequence[MetadataMessage], committed: Done, failed: Failed, now_ms: int, *, atomic: bool = True
    ) -> None: ...

    def when_committed(self, committed: Done, failed: Failed, now_ms: int) -> None: ...

    def connection_closed(self, connection: int) -> None:
        """The node has closed a connection itself."""


class Dispatcher:
    """Executes frames of connections.

    Attributes: `cold_reads`: how often data was not in memory; `disk_reads`: how many bytes of which logs. `clients`:
    what whose connections have sent and got.
    """

    def __init__(
        self,
        connections: dict[int, Connection],
        scheduler: Scheduler,
        served: Served,
        gate: Gate,
        channel: Channel,
        *,
        controller: Callable[[], Changes],
        purgatory: Purgatory,
        journal: Journal,
        mechanisms: Mechanisms,
        identities: Identities,
        login_timeout_ms: int,
        login_delay_ms: int,
        read_failed: Callable[[int, OSError, int], None],
        work_ms: Callable[[], float],
        request_timeout_ms: int,
        quotas: ClientQuotas,
        client_metrics: ClientMetrics,
        audit: Audit | None = None,
    ) -> None:
        self._connections = connections
        self._scheduler = scheduler
        self._gate = gate
        self._channel = channel
        self._controller = controller
        self._purgatory = purgatory
        self._journal = journal
        self._read_failed = read_failed
        self._request_timeout_ms = request_timeout_ms
        self.served = served
        self.client_metrics = client_metrics
        self.turns = Turns(
            self.execute,
            self._read_for_work,
            work_ms,
            self.abandon,
            controller_listeners=served.controller_listeners,
        )
        self.exit = Exit(scheduler, self.turns, self.close, served, quotas=quotas, audit=audit)
        self.logins = Logins(
            scheduler,
            served,
            mechanisms,
            journal,
            self.exit,
            identities=identities,
            timeout_ms=login_timeout_ms,
            delay_ms=login_delay_ms,
            run=self.run,
            hold=self.hold,
            release=self.release,
            close=self.close,
            unreadable=self._unreadable,
        )
        self.cold_reads = 0
        self.disk_reads = DiskReads()
        self.clients = Clients()
        self._waiting_for_controller: dict[int, Request[Any]] = {}
        self._sequence = 0

    def received(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        """Executes a frame now, or when its turn comes."""
        connection.frame_bytes += len(frame)
        if connection.named is UNNAMED and not self._introduced(connection, frame):
            return
        self.turns.execute(connection, frame)
        if not connection.closed:
            connection.pause_if_full(self._scheduler.effects)

    def _introduced(self, connection: Connection, frame: memoryview) -> bool:
        """Finds in whose turn a client's first frame executes, which tells its client id. False: it is unreadable."""
        if not connection.in_line and (connection.login is None or connection.login.state is LoginState.DONE):
            try:
                header, _ = decode_request_header(frame)
                self._named(connection, header.client_id)
            except Exception as error:
                self._unreadable(connection, error)
                return False
        return True

    def _named(self, connection: Connection, client_id: str | None) -> None:
        """A connection has said who it is: in whose turn it executes, and for whom it counts."""
        self.turns.tenants.named(connection, client_id)
        self.clients.named(connection, client_id)

    def execute(self, connection: Connection, frame: memoryview) -> None:
        """Decodes one frame and runs its handler."""
        now_ms = self._scheduler.now_ms
        login = connection.login
        if login is not None and self._scheduler.wall.elapsed(now_ms) >= login.until_ms:
            connection.traffic.came(len(frame))
            self.logins.received(connection, login, frame)
            return
        try:
            header, position = decode_request_header(frame)
            if header.client_id != connection.named:
                self._named(connection, header.client_id)
            traffic = connection.traffic
            traffic.requests += 1
            traffic.frame_bytes += len(frame)
            handler = self.served[connection.listener].get(header.api_key)
            version = header.api_version
            if handler is None:
                name = API_BY_NUMBER[header.api_key].name
                self._journal.not_served(connection, name, header.client_id)
                raise ProtocolError(f"{name} is not served on {connection.listener}")
            if handler.min_version <= version <= handler.max_version:
                if len(frame) > STEPPED_FRAME_BYTES:
                    self.turns.begin(connection, self._execute_large(connection, handler, header, frame, position))
                    return
                body, _ = decode(handler.api.request_class, version, frame, position)
            elif handler.key is ApiKey.API_VERSIONS:
                body = None
            else:
                raise ProtocolError(f"version {version} of {handler.key.name} is not supported")
        except Exception as error:
            self._unreadable(connection, error)
            return
        request: Request[Any] = Request(connection, handler, header, body, now_ms, frame_bytes=len(frame))
        connection.in_flight.append(request)
        self.run(request, now_ms)

    def _execute_large(
        self, connection: Connection, handler: BoundHandler, header: RequestHeader, frame: memoryview, position: int
    ) -> Steps:
        """Decodes a frame in steps and runs its handler, in the same steps."""
        arrived_ms, long = self._scheduler.now_ms, False
        steps = decode_steps(handler.api.request_class, header.api_version, frame, position)
        try:
            while True:
                next(steps)
                long = True
                yield None
        except StopIteration as ended:
            body, _ = ended.value
        except Exception as error:
            self._unreadable(connection, error)
            return
        request: Request[Any] = Request(connection, handler, header, body, arrived_ms, frame_bytes=len(frame))
        request.long = long
        connection.in_flight.append(request)
        kept = [body] if long else []
        del body
        yield from self.guard_steps(request, self._run_in_steps(request))
        yield from let_go(kept)

    def _unreadable(self, connection: Connection, error: Exception) -> None:
        """Closes the connection of an undecodable frame; any error but ProtocolError is also reported as a bug."""
        if isinstance(error, ProtocolError):
            self.close(connection, str(error))
            return
        self.close(connection, "a frame of it broke the decoder")
        self._scheduler.bug("request", f"a frame of connection {connection.id}", error)

    def _run_in_steps(self, request: Request[Any]) -> Steps:
        outcome = self._handled(request, self._scheduler.now_ms)
        if isinstance(outcome, GeneratorType):
            yield from self._steps(request, outcome)
        else:
            self._finish(request, outcome, self._scheduler.now_ms)

    def run(self, request: Request[Any], now_ms: int) -> None:
        """Runs the handler of a request and carries out its outcome. Raises nothing: see `broke`."""
        try:
            outcome = self._handled(request, now_ms)
            if outcome is LATER:  # as most requests are that something is done for
                request.body = None
                return
            if isinstance(outcome, GeneratorType):
                outcome = self._first_step(request, outcome, now_ms)
            self._finish(request, outcome, now_ms)
        except Exception as error:
            self.broke(request, error, now_ms)

    def _first_step(self, request: Request[Any], steps: OutcomeInSteps, now_ms: int) -> Outcome:
        """Runs the first step of a generator; most take only one, and then cost no more than a plain handler."""
        try:
            missing = next(steps)
        except StopIteration as ended:
            outcome: Outcome = ended.value
            return outcome
        except Exception as error:
            return self._raised(request, error, now_ms)
        request.long = True
        rest = self._steps(request, steps)
        self.turns.begin(request.connection, self.guard_steps(request, chain((missing,), rest)))
        return PUT_OFF

    def _handled(self, request: Request[Any], now_ms: int) -> Outcome | OutcomeInSteps:
        """The outcome of the handler; PUT_OFF if it will be run again."""
        handler = request.handler
        if handler.stirs:
            self._scheduler.stirred = True
        try:
            if self.exit.quotas.active and request.usages is None:
                self.exit.begins(request, now_ms)
            if request.again is not None:
                return request.again(now_ms)
            needs = handler.needs
            if needs is not None and not self._gate.allows(request, needs):
                return self.exit.refusal(request, needs.refusal, needs.refusal.name)
            if needs in NODES_ONLY:
                self.turns.tenants.is_node(request.connection)
            return handler.handle(request, now_ms)
        except Exception as error:
            return self._raised(request, error, now_ms)

    def _raised(self, request: Request[Any], error: Exception, now_ms: int) -> Outcome:
        """Turns an exception of the handler into an outcome."""
        if isinstance(error, NotResident):
            self._read_first(request, error, now_ms)
        elif isinstance(error, ProtocolError):
            self.close(request.connection, str(error))
        elif isinstance(error, RequestError):
            if error.code is not ErrorCode.NOT_CONTROLLER or not request.connection.ask_next_controller():
                return self.exit.refusal(request, error.code, error.message)
        elif isinstance(error, PenstockError):
            return self.exit.refusal(request, error.code, str(error))
        else:
            self.broke(request, error, now_ms)
        return PUT_OFF

    def _steps(self, request: Request[Any], steps: OutcomeInSteps) -> Steps:
        """Runs a handler that is a generator, and carries out the outcome that it returns."""
        reads = 0
        try:
            while reads <= MAX_REPEATS:
                missing = next(steps)
                request.long = True
                reads = 0 if missing is None else reads + 1
                yield missing
            outcome = self._never_resident(request)
        except StopIteration as ended:
            outcome = ended.value
        except Exception as error:
            outcome = self._raised(request, error, self._scheduler.now_ms)
        self._finish(request, outcome, self._scheduler.now_ms)

    def broke(self, request: Request[Any], error: Exception, now_ms: int, *, place: str = "request") -> None:
        """Gives up a request on whose behalf a bug raised `error`, and reports the bug. Nothing else is affected."""
        self.give_up(request, now_ms)
        self._scheduler.bug(place, f"{request.handler.key.name} of connection {request.connection.id}", error)

    def give_up(self, request: Request[Any], now_ms: int) -> None:
        """Refuses a request after a bug, or closes its connection if that is impossible. The caller reports the bug."""
        connection = request.connection
        try:
            abandoned, request.abandoned = request.abandoned, None
            if abandoned is not None:
                abandoned()
            refusal = self._refusal(request)
            if refusal is not None and not request.done:
                self.exit.answer(request, refusal, now_ms)
        except Exception:  # the bug says why
            refusal = None
        request.broke = True
        if refusal is None and not request.done:
            self.close(connection, f"its {request.handler.key.name} broke, and could not be refused")

    def _refusal(self, request: Request[Any]) -> Message | None:
        """The error response after a bug. None for a request that was parked, since its body, whose parts a refusal
        names, is gone, and for acks=0, where the client learns of a failure only when its connection is closed, as in
        Kafka.
        """
        if request.body is None:
            return None
        return self.exit.refusal(request, ErrorCode.UNKNOWN_SERVER_ERROR, "")

    def _finish(self, request: Request[Any], outcome: Outcome, now_ms: int) -> None:
        if outcome is None or isinstance(outcome, ANSWERS):
            self.exit.answer(request, outcome, now_ms)
        elif outcome is LATER:
            request.body = None
        elif isinstance(outcome, Parked):
            request.body = None
            self._park(request, outcome, now_ms)
        elif isinstance(outcome, Append):
            self._append(request, outcome, now_ms)
        elif outcome is AGAIN:
            self._put_off(request)
            self.turns.begin(request.connection, self._again(request), needs_place=False)
        elif outcome is FORWARD:
            self._forward(request, now_ms)

    def answer_with(self, request: Request[Any], make: Callable[[], Message | None], now_ms: int) -> None:
        """Answers with what `make` returns; an exception of it ends the request."""
        try:
            self.exit.answer(request, make(), now_ms)
        except Exception as error:
            self.broke(request, error, now_ms)

    def later(self, request: Request[Any], go_on: Callable[..., None]) -> Callable[..., None]:
        """Guards `go_on`, which continues a request whose handler returned LATER: an exception ends the request."""

        def guarded(*what: Any) -> None:
            try:
                go_on(*what)
            except Exception as error:
                self.broke(request, error, self._scheduler.now_ms)

        return guarded

    def guard_steps(self, request: Request[Any], steps: Iterator[Step]) -> Iterator[Step]:
        """Guards long work on behalf of a request: an exception ends the request."""
        try:
            yield from steps
        except Exception as error:
            self.broke(request, error, self._scheduler.now_ms)

    def go_on(self, request: Request[Any], steps: OutcomeInSteps) -> None:
        """Continues, in steps, a request whose handler returned LATER."""
        self.turns.begin(request.connection, self.guard_steps(request, self._steps(request, steps)))

    def hold(self, connection: Connection) -> None:
        """Executes nothing more of this connection until the matching `release`."""
        connection.holds += 1

    def release(self, connection: Connection, now_ms: int) -> None:
        """Takes back one `hold`, and executes the frames that waited until one of them holds again."""
        connection.holds -= 1
        assert connection.holds >= 0
        self.turns.proceed(connection)

    def _read_first(self, request: Request[Any], missing: NotResident, now_ms: int) -> None:
        """Runs a request again when the missing data has been read."""
        if request.repeats > MAX_REPEATS:
            self._finish(request, self._never_resident(request), now_ms)
            return
        self._put_off(request)
        self._read(
            missing,
            request.connection,
            lambda at_ms: self.repeat(request, at_ms),
            lambda at_ms: self.give_up(request, at_ms),
        )

    def _read_for_work(self, work: Work, missing: NotResident) -> None:
        """Resumes long work when the data that it needs has been read."""
        self._read(
            missing,
            work.connection,
            lambda at_ms: self.turns.resume(work),
            lambda at_ms: self.close(work.connection, "a request of it broke"),
        )

    def _read(
        self, missing: NotResident, connection: Connection, go_on: Callable[[int], None], broke: Callable[[int], None]
    ) -> None:
        if isinstance(missing, NotOpen):
            self._scheduler.when_open(missing, go_on)
            return
        self.cold_reads += 1
        self.disk_reads.count(missing.path, missing.length)
        waiter, tenant = Waiter(go_on, broke, self._read_failed), self.turns.tenants.of(connection)
        self._scheduler.emit(Run(ColdRead(missing, waiter, connection.id, tenant)))

    def _never_resident(self, request: Request[Any]) -> Outcome:
        name = request.handler.key.name
        error = AssertionError("its data is never in memory")
        self._scheduler.bug("request", f"{name} of connection {request.connection.id}", error)
        return self.exit.refusal(request, ErrorCode.KAFKA_STORAGE_ERROR, "")

    def _put_off(self, request: Request[Any]) -> None:
        """Marks a request to be run again by `repeat`; nothing later of its connection executes before."""
        request.repeats += 1
        if not request.held:
            request.held = True
            self.hold(request.connection)

    def _again(self, request: Request[Any]) -> Steps:
        yield None
        self.repeat(request, self._scheduler.now_ms)

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
        waiting = self._purgatory.park(
            parked,
            lambda message, at_ms: self.exit.answer(request, message, at_ms),
            lambda error, at_ms: self.broke(request, error, at_ms, place="parked"),
        )
        request.abandoned = lambda: self._purgatory.cancel(waiting)

    def _append(self, request: Request[Any], append: Append, now_ms: int) -> None:
        def refused(code: ErrorCode, message: str) -> Message | None:
            return append.failed(code) if append.failed is not None else self.exit.refusal(request, code, message)

        def committed(at_ms: int) -> None:
            tell = append.tell or partial(self._journal.committed, request, request.body, append.response)
            self._scheduler.guarded("metadata", "what the log says of a change", tell)
            self.exit.answer(request, append.response, at_ms)

        def failed(code: ErrorCode, at_ms: int) -> None:
            if code is ErrorCode.NOT_CONTROLLER and request.connection.ask_next_controller():
                return
            self.answer_with(request, lambda: refused(code, code.name), at_ms)

        controller = self._controller()
        try:
            if append.records:
                controller.append(append.records, committed, failed, now_ms, atomic=append.atomic)
            else:
                controller.when_committed(committed, failed, now_ms)
        except RequestError as error:
            self.exit.answer(request, refused(error.code, error.message), now_ms)

    def _forward(self, request: Request[Any], now_ms: int) -> None:
        """Has the active controller answer, or waits until there is one, for as long as a client would."""
        if request.connection.ask_next_controller():
            return
        if self._channel.elsewhere:

            def answered(answer: EnvelopeResponse | None, at_ms: int) -> None:
                request.abandoned = None
                self.answer_with(request, lambda: self._forwarded(request, answer), at_ms)

            call = self._channel.forward(request, answered, now_ms)
            request.abandoned = lambda: self._channel.cancel(call)
            return
        self._sequence += 1
        sequence = self._sequence
        self._waiting_for_controller[sequence] = request
        deadline_ms = request.arrived_ms + self._request_timeout_ms

        def expire(at_ms: int) -> None:
            if self._waiting_for_controller.pop(sequence, None) is not None:
                self.answer_with(request, lambda: self.exit.refusal(request, ErrorCode.REQUEST_TIMED_OUT, ""), at_ms)

        timer = self._scheduler.timers.at(deadline_ms, expire)

        def abandoned() -> None:
            self._scheduler.timers.cancel(timer)
            self._waiting_for_controller.pop(sequence, None)

        request.abandoned = abandoned

    def _forwarded(self, request: Request[Any], answer: EnvelopeResponse | None) -> Message | None:
        """The controller's answer, or a refusal that says why there is none."""
        try:
            return answer_in(answer, request)
        except RequestError as error:
            return self.exit.refusal(request, error.code, error.message)

    def close(self, connection: Connection, reason: str) -> None:
        """Closes a connection after what has been answered on it; drops its other requests."""
        if self._connections.pop(connection.id, None) is not None:
            self._controller().connection_closed(connection.id)
            self.abandon(connection)
            connection.close(reason, self._scheduler.effects)

    def close_all(self, reason: str) -> None:
        """Closes all connections."""
        for connection in list(self._connections.values()):
            self.close(connection, reason)

    def abandon(self, connection: Connection) -> None:
        """Executes nothing more of a connection; appends on their way go on."""
        self._connections.pop(connection.id, None)
        connection.closed = True
        connection.waiting.clear()
        self.logins.forget(connection)
        self.exit.forget(connection)
        self.turns.forget(connection)
        self.client_metrics.forget(connection)
        self.clients.left(connection)
        for request in connection.in_flight:
            if not request.done:
                self.exit.lost(request)
                if request.abandoned is not None:
                    self._scheduler.guarded("request", "a request that nobody waits for any more", request.abandoned)
        connection.in_flight.clear()

    def controller_known(self, now_ms: int) -> None:
        """Runs the requests that waited for an active controller, oldest first, now that there is one."""
        waiting, self._waiting_for_controller = self._waiting_for_controller, {}
        for request in waiting.values():
            if request.abandoned is not None:
                self._scheduler.guarded("request", "a request that waited for a controller", request.abandoned)
                request.abandoned = None
            if not request.connection.closed:
                self.run(request, now_ms)
