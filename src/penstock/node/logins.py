"""Logins of clients (SASL): what a connection must say before anything else of it is served.

A connection of a SASL listener has a `Login`. Until that is over, only ApiVersions, SaslHandshake and SaslAuthenticate
are decoded, in this order, in frames of at most sasl.server.max.receive.size:

    FIRST   ApiVersions, or as in ASKED
    ASKED   SaslHandshake: names a mechanism; version 0: tokens follow without headers
    BEGUN   SaslAuthenticate, until the mechanism is satisfied
    DONE    everything, until `until_ms`; then SaslHandshake only: the client logs in again (KIP-368)
    FAILED  nothing

All of it executes in the connection's turns like any request, so nothing that arrived after a token executes before
that is dealt with. All of a login has one deadline, which the handshake of TLS is part of.

A step of a mechanism that may block (`Slow`) runs in a lane; meanwhile the connection executes nothing else.

A login that fails is answered after connection.failed.authentication.delay.ms, and then closed. An error says no more
than the mechanism allows. Whoever logs in again must do so with the same mechanism as the same principal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.config.oauthbearer import KeySource
from penstock.errors import ErrorCode, NotResident, ProtocolError
from penstock.node.connection import UNNAMED
from penstock.node.effects import LetIn, Run
from penstock.node.exit import Exit
from penstock.node.identities import Identities
from penstock.node.journal import Journal
from penstock.node.limits import LOGIN_AGAIN_PAUSE_MS, LOGIN_STEPS_MAX
from penstock.node.login import Login, LoginState
from penstock.node.login_steps import LoginStep
from penstock.node.metrics import LoginCounters
from penstock.node.request import LATER, Outcome, Request, Served
from penstock.node.scheduler import Scheduler
from penstock.protocol.api import API_BY_NUMBER, ApiKey
from penstock.protocol.codec import decode
from penstock.protocol.frames import decode_request_header
from penstock.protocol.message import Message
from penstock.protocol.messages.sasl_authenticate_request import SaslAuthenticateRequest
from penstock.protocol.messages.sasl_authenticate_response import SaslAuthenticateResponse
from penstock.protocol.messages.sasl_handshake_request import SaslHandshakeRequest
from penstock.protocol.messages.sasl_handshake_response import SaslHandshakeResponse
from penstock.security.authorizer import Principal
from penstock.security.certificates import Shown
from penstock.security.mechanisms import Mechanisms
from penstock.security.oauthbearer.keys import KeyRing
from penstock.security.sasl import LoginFailed, LoginInterrupted, SaslServer, Slow

if TYPE_CHECKING:
    from penstock.node.connection import Answer, Connection

FOR_EVER_MS = 1 << 62
KEY_BYTES = 2
LENGTH_BYTES = 4


EXPECTED: dict[LoginState, tuple[int, ...]] = {
    LoginState.FIRST: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    LoginState.ASKED: (ApiKey.SASL_HANDSHAKE,),
    LoginState.BEGUN: (ApiKey.SASL_AUTHENTICATE, ApiKey.SASL_HANDSHAKE),
    LoginState.DONE: (ApiKey.SASL_HANDSHAKE,),
}
"""The requests that are decoded. A SaslHandshake within an exchange gets an answer, that it is out of place."""


Evaluated = tuple[bytes, int] | LoginFailed
"""What became of a token: the answer, and how many ms the login lasts if it is over by that (0: for ever, or it goes
on); or why it failed."""


@dataclass(slots=True, eq=False)
class BareToken:
    """A token without a header: its answer, too, waits for those of the requests before it."""

    frame_bytes: int
    answer: Answer = ()
    done: bool = False
    abandoned: Callable[[], None] | None = None


class Logins:
    """See the module's head.

    Args:
        identities: names principals. timeout_ms: for all of a login. delay_ms: before a failed one is answered.
        run: runs the handler of a request. hold: has a connection execute nothing more, until release.
        close: ends a connection, for a reason. unreadable: the same after an exception of the decoder.

    Attributes: `counters`, by listener.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        served: Served,
        mechanisms: Mechanisms,
        journal: Journal,
        exit_: Exit,
        *,
        identities: Identities,
        timeout_ms: int,
        delay_ms: int,
        run: Callable[[Request[Any], int], None],
        hold: Callable[[Connection], None],
        release: Callable[[Connection, int], None],
        close: Callable[[Connection, str], None],
        unreadable: Callable[[Connection, Exception], None],
    ) -> None:
        self._scheduler = scheduler
        self._served = served
        self._mechanisms = mechanisms
        self._journal = journal
        self._exit = exit_
        self._identities = identities
        self._timeout_ms = timeout_ms
        self._delay_ms = delay_ms
        self._run = run
        self._hold = hold
        self._release = release
        self._steps = 0
        self._close = close
        self._unreadable = unreadable
        self.counters: dict[str, LoginCounters] = {}

    def connected(self, connection: Connection, since_ms: int, shown: Shown | None) -> bool:
        """A client has connected, at `since_ms`, with the certificate that it has shown: it must log in if the listener
        says so. Returns False if it is refused, and closed, because nobody can say who it is.
        """
        try:
            self._identities.connected(connection, shown)
        except LoginFailed as failed:
            self.counters.setdefault(connection.listener, LoginCounters()).failed(again=False)
            self._journal.login_failed(connection, str(failed), "", "")
            connection.close(str(failed), self._scheduler.effects)
            return False
        of_listener = self._mechanisms.of(connection.listener)
        if of_listener is not None:
            counters = self.counters.setdefault(connection.listener, LoginCounters())
            login = connection.login = Login(of_listener.receive_max_bytes, counters)
            self._limit(connection, login, since_ms)
        return True

    # Frames

    def received(self, connection: Connection, login: Login, frame: memoryview) -> None:
        """Deals with a frame of a connection that is not logged in, or not any more."""
        try:
            self._execute(connection, login, frame)
        except Exception as error:
            self._unreadable(connection, error)

    def _execute(self, connection: Connection, login: Login, frame: memoryview) -> None:
        if login.state is LoginState.FAILED:
            connection.frame_bytes -= len(frame)
            return
        if len(frame) > login.frame_max_bytes:
            raise ProtocolError(
                f"a request of {len(frame)} bytes before login; sasl.server.max.receive.size is {login.frame_max_bytes}"
            )
        if login.state is LoginState.BEGUN and not login.headers:
            self._bare_token(connection, login, bytes(frame))
            return
        key = int.from_bytes(frame[:KEY_BYTES], "big", signed=True)
        if key not in EXPECTED[login.state]:
            self._unexpected(connection, login, key, len(frame))
            return
        header, position = decode_request_header(frame)
        handler = self._served[connection.listener][key]
        supported = handler.min_version <= header.api_version <= handler.max_version
        body: Message | None = None
        if supported:
            body, _ = decode(handler.api.request_class, header.api_version, frame, position)
        elif handler.key is not ApiKey.API_VERSIONS:
            raise ProtocolError(f"version {header.api_version} of {handler.key.name} is not supported")
        if handler.key is ApiKey.API_VERSIONS and supported:
            login.state = LoginState.ASKED
        now_ms = self._scheduler.now_ms
        request: Request[Any] = Request(connection, handler, header, body, now_ms, frame_bytes=len(frame))
        connection.in_flight.append(request)
        self._run(request, now_ms)

    def _unexpected(self, connection: Connection, login: Login, key: int, frame_bytes: int) -> None:
        """A request that has no place here: nothing of it is decoded."""
        api = API_BY_NUMBER.get(key)
        name = "something that is no request" if api is None else api.name
        if login.state is LoginState.DONE:
            login.counters.expired += 1
            self._close(connection, f"its login has expired (connections.max.reauth.ms), and it sent {name}")
        elif login.state is LoginState.BEGUN:
            connection.frame_bytes -= frame_bytes
            self._fail(connection, login, f"{name} instead of a token", None)
        else:
            self._close(connection, f"{name} before login: is the client set up for {connection.listener} with SASL?")

    def _bare_token(self, connection: Connection, login: Login, token: bytes) -> None:
        """A token without a header, and its answer, after a handshake of version 0."""
        bare = BareToken(len(token))
        connection.in_flight.append(bare)

        def answered(outcome: Evaluated) -> Outcome:
            if isinstance(outcome, LoginFailed):
                return self._failed(connection, login, outcome, None)
            framed = len(outcome[0]).to_bytes(LENGTH_BYTES, "big") + outcome[0]
            connection.answered(bare, (framed,), self._scheduler.effects)
            return LATER

        evaluate = partial(self._evaluate, connection, login, token, answered, lambda answer, at_ms: None)
        try:
            evaluate()
        except NotResident as missing:  # a bare token is no request that could wait for the data of a lane
            missing.was_read(missing.read(None))
            evaluate()

    # Requests: see node/handlers/sasl.py

    def handshake(self, request: Request[SaslHandshakeRequest]) -> Outcome:
        """The client names a mechanism, to log in or to do so again."""
        connection, login = request.connection, request.connection.login
        of_listener = self._mechanisms.of(connection.listener)
        mechanism = request.body.mechanism
        illegal = SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
        if login is None or of_listener is None or login.state is LoginState.FAILED:
            return illegal
        if login.state is LoginState.BEGUN:
            return self._fail(connection, login, "a second handshake", request, illegal)
        if login.state is LoginState.DONE and not self._begin_again(connection, login):
            return illegal
        names = list(of_listener.mechanisms)
        if mechanism not in of_listener.mechanisms:
            answer = SaslHandshakeResponse(error_code=ErrorCode.UNSUPPORTED_SASL_MECHANISM, mechanisms=names)
            return self._fail(connection, login, "the mechanism is not enabled", request, answer, mechanism=mechanism)
        login.state = LoginState.BEGUN
        login.headers = request.version > 0
        login.problem = ""
        if login.again and mechanism != login.mechanism:
            login.problem = (
                f"SASL mechanism '{mechanism}' requested by client is not supported for re-authentication of mechanism "
                f"'{login.mechanism}'"
            )
        login.server = self._mechanisms.server(connection.listener, mechanism, self._wall_ms)
        return SaslHandshakeResponse(mechanisms=names)

    def authenticate(self, request: Request[SaslAuthenticateRequest]) -> Outcome:
        """A token of the client."""
        connection, login = request.connection, request.connection.login
        if login is None or login.state is not LoginState.BEGUN:
            sentence = "SaslAuthenticate request received after successful authentication"
            return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=sentence)
        login.knows_lifetimes = login.knows_lifetimes or request.version > 0

        def answered(outcome: Evaluated) -> Outcome:
            if isinstance(outcome, LoginFailed):
                return self._failed(connection, login, outcome, request)
            answer, lifetime_ms = outcome
            return SaslAuthenticateResponse(auth_bytes=answer, session_lifetime_ms=lifetime_ms)

        send = partial(self._exit.answer, request)
        return self._evaluate(connection, login, bytes(request.body.auth_bytes), answered, send)

    def _evaluate(
        self,
        connection: Connection,
        login: Login,
        token: bytes,
        answered: Callable[[Evaluated], Outcome],
        send: Callable[[Message, int], None],
    ) -> Outcome:
        """Returns what `answered` makes of the answer to a token, or after a step in a lane has that sent."""
        server = login.server
        assert server is not None, "a login that has begun has a mechanism"
        try:
            if login.problem:
                raise LoginFailed("another mechanism than before", login.problem)
            answer = server.evaluate(token)
            if not isinstance(answer, Slow):
                return answered((answer, self._lifetime_ms(connection, login, server)))
            if self._steps >= LOGIN_STEPS_MAX:
                raise LoginInterrupted(f"{LOGIN_STEPS_MAX} steps of logins wait already")
        except LoginFailed as failed:
            return answered(failed)

        def stepped(result: bytes | LoginFailed, at_ms: int) -> None:
            self._steps -= 1
            if connection.closed:
                return
            try:
                if isinstance(result, LoginFailed):
                    raise result
                outcome = answered((result, self._lifetime_ms(connection, login, server)))
            except LoginFailed as failed:
                outcome = answered(failed)
            if isinstance(outcome, Message):
                send(outcome, at_ms)
            self._release(connection, at_ms)

        self._steps += 1
        self._hold(connection)
        order = f"login of connection {connection.id}"
        tenant = None if connection.tenant is None else connection.tenant.key
        self._scheduler.effects.append(Run(LoginStep(order, answer, stepped, lambda: not connection.closed, tenant)))
        return LATER

    def _lifetime_ms(self, connection: Connection, login: Login, server: SaslServer) -> int:
        """How long the login lasts, if it is over by this answer; 0: for ever, or it goes on. Raises LoginFailed."""
        return self._succeed(connection, login, server) if server.complete else 0

    def _failed(
        self,
        connection: Connection,
        login: Login,
        failed: LoginFailed,
        request: Request[SaslAuthenticateRequest] | None,
    ) -> Outcome:
        """Ends a login: with an answer, if it is a request that has failed."""
        if isinstance(failed, LoginInterrupted):
            return self._fail(connection, login, str(failed), None)
        sentence = failed.told or (
            f"Authentication failed during {'re-' if login.again else ''}authentication due to invalid credentials "
            f"with SASL mechanism {'' if login.server is None else login.server.mechanism}"
        )
        refusal = SaslAuthenticateResponse(error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=sentence)
        return self._fail(connection, login, str(failed), request, refusal)

    # Ends

    def _succeed(self, connection: Connection, login: Login, server: SaslServer) -> int:
        """The client is logged in. For how many ms; 0: for ever."""
        principal = self._identities.logged_in(connection, server)
        if login.again and principal != connection.principal:
            raise LoginFailed(
                "another principal than before",
                f"Cannot change principals during re-authentication from {dotted(connection.principal)}: "
                f"{dotted(principal)}",
            )
        of_listener = self._mechanisms.of(connection.listener)
        of_mechanism = of_listener and of_listener.mechanisms.get(server.mechanism)
        lifetimes_ms = [of_mechanism.max_reauth_ms] if of_mechanism and of_mechanism.max_reauth_ms else []
        if server.expires_at_ms is not None:
            left_ms = server.expires_at_ms - self._wall_ms()
            if left_ms <= 0 and server.token_authenticated:
                raise LoginFailed("the delegation token has just ended")
            lifetimes_ms.append(max(0, left_ms))
        lifetime_ms = min(lifetimes_ms, default=0)
        login.expires = bool(lifetimes_ms)
        login.until_ms = self._elapsed_ms + lifetime_ms if lifetimes_ms else FOR_EVER_MS
        login.ends_ms = login.until_ms
        login.state = LoginState.DONE
        login.mechanism = server.mechanism
        login.server = None
        self._disarm(login)
        connection.principal, connection.named = principal, UNNAMED
        login.counters.succeeded(again=login.again, knows_lifetimes=login.knows_lifetimes)
        if not login.again:
            self._scheduler.effects.append(LetIn(connection.id))
        login.again = True
        return lifetime_ms

    def ring(self, source: KeySource) -> KeyRing:
        """The keys of a source of OAUTHBEARER: whoever fetches them puts them there."""
        return self._mechanisms.ring(source)

    def _wall_ms(self) -> int:
        return self._scheduler.wall.at(self._scheduler.now_ms)

    @property
    def _elapsed_ms(self) -> int:
        """What sessions go by: a node that stood still lets none last longer."""
        return self._scheduler.wall.elapsed(self._scheduler.now_ms)

    def is_over(self, connection: Connection) -> bool:
        """Whether the login of a connection has ended, so that what still waits for data gets none."""
        login = connection.login
        return login is not None and self._elapsed_ms >= login.ends_ms

    def _begin_again(self, connection: Connection, login: Login) -> bool:
        """Whether a client that is logged in may log in again: not if its login never ends, nor all the time."""
        now_ms = self._elapsed_ms
        if not login.expires or now_ms - login.again_ms < LOGIN_AGAIN_PAUSE_MS:
            return False
        login.again_ms = now_ms
        login.until_ms = 0
        self._limit(connection, login, self._scheduler.now_ms)
        return True

    def _fail(
        self,
        connection: Connection,
        login: Login,
        why: str,
        request: Request[Any] | None,
        answer: Message | None = None,
        *,
        mechanism: str = "",
    ) -> Outcome:
        """Ends a login: the connection does nothing more, is answered after a while, and closed."""
        server, login.server = login.server, None
        login.state = LoginState.FAILED
        login.until_ms = 0
        self._disarm(login)
        connection.mute(self._scheduler.effects)
        login.counters.failed(again=login.again)
        self._journal.login_failed(
            connection, why, mechanism or ("" if server is None else server.mechanism), server.user if server else ""
        )
        end = partial(self._end, connection, request, answer)
        self._scheduler.timers.at(self._scheduler.now_ms + self._delay_ms, end)
        return LATER

    def _end(self, connection: Connection, request: Request[Any] | None, answer: Message | None, now_ms: int) -> None:
        if connection.closed:
            return
        if request is not None and answer is not None:
            self._exit.answer(request, answer, now_ms)
        self._close(connection, "its login failed")

    def _limit(self, connection: Connection, login: Login, since_ms: int) -> None:
        """Sets the deadline of a login, which counts from `since_ms`."""

        def late(now_ms: int) -> None:
            login.timer = None
            if not connection.closed:
                login.counters.failed(again=login.again)
                self._close(connection, f"no login within {self._timeout_ms} ms (penstock.receive.timeout.ms)")

        login.timer = self._scheduler.timers.at(since_ms + self._timeout_ms, late)

    def _disarm(self, login: Login) -> None:
        if login.timer is not None:
            self._scheduler.timers.cancel(login.timer)
            login.timer = None

    def forget(self, connection: Connection) -> None:
        """The connection is closed."""
        if connection.login is not None:
            self._disarm(connection.login)


def dotted(principal: Principal) -> str:
    """A principal as Kafka writes it in an error."""
    return f"{principal.type}.{principal.name}"
