"""Requests to other nodes: one connection for each (peer, channel), dialled when needed, and every call ends once.

    node.outgoing.call(peer, VoteRequest(...), timeout_ms=2_000, done=answered, now_ms=now_ms, channel="raft")

    def answered(answer, reason, now_ms):        # an answer, or None and the reason for having none

Part of the state machine: connections are asked for by effects (`Dial`, `SendTo`, `HangUp`), and what becomes of them
comes back as events (`link_up`, `link_received`, `link_lost`).

- Requests of one channel leave in the order of their calls, several at a time; answers come in the order of the
  requests, as Kafka's brokers give them. Calls that must not wait behind a long poll use a channel of their own.
- The versions of the other side are asked for (ApiVersions) before the first request that leaves its version open.
- Where the other side's listener asks for a login, nothing is sent before that is over (`node.peer_logins`).
- A connection that breaks, or cannot be made, ends all calls of its channel, executed or not.
  It is dialled again with the next call, RECONNECT_BACKOFF_MS after the last attempt and twice as long after each
  further failure; calls wait for that as long as their own timeouts allow.
- A request that times out ends alone while an earlier one of its connection is still unanswered, which may explain the
  silence. If it is the oldest, nothing behind it can be answered either, and the connection is closed with all its
  calls, as in Kafka.
- A peer that is this node itself is reached in the same way, through `node.loopback` instead of a socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random

from penstock import __version__
from penstock.errors import ErrorCode, ProtocolError, Report, raise_it
from penstock.node.effects import REFUSED, Dial, Effect, HangUp, SendTo
from penstock.node.limits import PEER_CALLS_MAX, PEER_CHANNELS_MAX, PEER_IN_FLIGHT_MAX
from penstock.node.peer_answers import API_VERSIONS, common_version, decoded
from penstock.node.peer_logins import LoginLink, PeerLogins
from penstock.node.timers import Timer, TimerWheel
from penstock.protocol.api import API_BY_NUMBER, SOFTWARE_NAME, Api
from penstock.protocol.frames import encode_request
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse

RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MAX_MS = 500
"""As Kafka's between voters, where these are not settings."""
BACKOFF_JITTER = 0.2
RENEWED_AT = (0.85, 0.95)
"""After which share of its time a login is renewed: somewhere between, as Kafka's clients do it."""
IDLE_SHARE = 0.9
"""We close an idle connection a little before the other side does, so that no request meets its closing."""


class NotServed(str):
    """The reason for not sending a call: the other side serves no version of the API that can express it."""

    __slots__ = ()


Done = Callable[[Message | None, str | None, int], None]
"""`done(answer, None, now_ms)`, or `done(None, reason, now_ms)`; `NotServed` is a reason of its own kind."""
LinkLost = Callable[["Peer", str, str, int], None]
"""`lost(peer, channel, reason, now_ms)`."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A node, perhaps this one, at one of its listeners. `node_id` is -1 for an address from the configuration."""

    node_id: int
    host: str
    port: int
    listener: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.node_id < 0 else f"node {self.node_id} at {host}:{self.port}"


class Call:
    """One request under way. `Outgoing.cancel` cancels it."""

    __slots__ = ("api", "connection", "correlation_id", "done", "message", "sent", "timeout_ms", "timer", "version")

    def __init__(
        self, connection: PeerConnection, message: Message, version: int | None, timeout_ms: int, done: Done
    ) -> None:
        self.connection = connection
        self.message: Message | None = message
        self.api: Api = API_BY_NUMBER[message.KEY]
        self.version = version
        self.timeout_ms = timeout_ms
        self.done: Done | None = done
        self.correlation_id = -1
        self.sent = False
        self.timer: Timer | None = None


@dataclass(slots=True, eq=False)
class PeerConnection:
    """The connection to one peer for one channel.

    Attributes:
        link: of the connection that is up or being made; None while there is none.
        versions: what the other side serves, by API key; None until that is known.
        waiting: calls that have not been sent. in_flight: sent, oldest first; one without `done` was cancelled.
        logging_in: this node has not logged in yet, or does so again. login_ends: it must do so before anything else is
            sent. renewal: when that comes.
        failures: attempts in a row that ended without an answer. attempt_ms: when the last one began.
    """

    peer: Peer
    name: str
    emit: Callable[[Effect], None]
    used_ms: int
    link: int | None = None
    up: bool = False
    versions: Mapping[int, tuple[int, int]] | None = None
    asking: bool = False
    waiting: deque[Call] = field(default_factory=deque)
    in_flight: deque[Call] = field(default_factory=deque)
    correlation_id: int = 0
    failures: int = 0
    attempt_ms: int = 0
    redial: Timer | None = None
    setup: Timer | None = None
    logging_in: bool = False
    login_ends: bool = False
    renewal: Timer | None = None


class Outgoing:
    """All calls of one node to others. See the module's head.

    Args:
        node_id: our own; a peer with it is reached by `emit_own` instead of `emit`.
        idle_ms: connections.max.idle.ms; negative: idle connections are never closed.
        logins: at other nodes; None: none of them asks for one.
        setup_timeout_ms, setup_timeout_max_ms: socket.connection.setup.timeout.ms and .max.ms.

    Attributes:
        on_link_lost: called when a connection that was up breaks or is given up, after its calls have ended; not when
            it is closed because it is idle or by `hang_up`.
        calls, failed: how many requests there were, including ApiVersions, and how many got no answer.
        unreported: calls that have failed at once; `proceed` tells their callers.
    """

    def __init__(
        self,
        node_id: int,
        *,
        timers: TimerWheel,
        random: Random,
        report: Report = raise_it,
        emit: Callable[[Effect], None],
        emit_own: Callable[[Effect], None] | None = None,
        idle_ms: int = 600_000,
        setup_timeout_ms: int = 10_000,
        setup_timeout_max_ms: int = 30_000,
        logins: PeerLogins | None = None,
    ) -> None:
        self.node_id = node_id
        self.on_link_lost: list[LinkLost] = []
        self.calls = 0
        self.failed = 0
        self._timers = timers
        self._random = random
        self._report = report
        self._emit = emit
        self._emit_own = emit_own
        self._idle_ms = int(idle_ms * IDLE_SHARE)
        self._setup_timeout_ms = setup_timeout_ms
        self._setup_timeout_max_ms = setup_timeout_max_ms
        self._logins = logins
        self._connections: dict[tuple[Peer, str], PeerConnection] = {}
        self._links: dict[int, PeerConnection] = {}
        self._reached: dict[Peer, None] = {}
        self._last_link = 0
        self.unreported: deque[tuple[Call, str]] = deque()
        self._stopped = False

    # For the parts of the node

    def call(
        self,
        peer: Peer,
        message: Message,
        *,
        timeout_ms: int,
        done: Done,
        now_ms: int,
        version: int | None = None,
        channel: str = "",
    ) -> Call:
        """Sends one request; `done` is called once, never before this returns.

        Args:
            message: the request; it may be sent later, so the caller must not change it any more.
            timeout_ms: for all of it: connecting, waiting for its turn, the answer.
            version: of the API; None takes the highest that both sides know.
            channel: calls of the same name to the same peer share a connection and its order.
        """
        self.calls += 1
        found = self._connections.get((peer, channel)) or self._new_connection(peer, channel, now_ms)
        call = Call(found, message, version, timeout_ms, done)
        if self._stopped:
            self.unreported.append((call, "this node is stopping"))
        elif len(found.waiting) + len(found.in_flight) >= PEER_CALLS_MAX:
            self.unreported.append((call, f"{peer}: {PEER_CALLS_MAX} calls are waiting already"))
        elif len(self._connections) > PEER_CHANNELS_MAX:
            del self._connections[peer, channel]
            self.unreported.append((call, f"{peer}: there are {PEER_CHANNELS_MAX} channels already"))
        else:
            call.timer = self._timers.at(now_ms + timeout_ms, lambda at_ms: self._timed_out(call, at_ms))
            found.used_ms = now_ms
            found.waiting.append(call)
            if found.up:
                self._send(found, now_ms)
            elif found.link is None and found.redial is None:
                self._dial_when_allowed(found, now_ms)
        return call

    def cancel(self, call: Call) -> None:
        """Cancels a call: `done` is not called. A request that was sent is not taken back."""
        call.done = None
        if not call.sent and call in call.connection.waiting:
            call.connection.waiting.remove(call)
            self._disarm(call)

    def hang_up(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        """Closes a connection that is not needed any more; its calls end, with `reason`, soon after this returns."""
        found = self._connections.pop((peer, channel), None)
        if found is not None:
            self.unreported.extend((call, reason) for call in self._clear(found))

    def hang_up_all(self, node_id: int, listener: str | None, reason: str, now_ms: int) -> None:
        """Closes all connections to a listener of a node, as `hang_up` does."""
        for peer, channel in list(self._connections):
            if peer.node_id == node_id and peer.listener == listener:
                self.hang_up(peer, channel, reason, now_ms)

    def stop(self) -> None:
        """Closes all connections; their calls, and all later ones, end soon after."""
        self._stopped = True
        for peer, channel in list(self._connections):
            self.hang_up(peer, channel, "this node is stopping", 0)

    def connected(self, peer: Peer, channel: str = "") -> bool:
        """Whether the connection is up."""
        found = self._connections.get((peer, channel))
        return found is not None and found.up

    def link(self, node_id: int, channel: str) -> int | None:
        """The number of the connection to a node, if it is up or being made."""
        for (peer, name), found in self._connections.items():
            if peer.node_id == node_id and name == channel:
                return found.link
        return None

    def is_gone(self, peer: Peer, reason: str | None) -> bool:
        """Whether the reason of a failed call proves that the peer's process has ended.

        It does if nothing listens at an address where we have been connected before: then it is no firewall.
        """
        return reason is not None and reason.endswith(REFUSED) and peer in self._reached

    # Events

    def link_up(self, link: int, now_ms: int) -> None:
        """The connection has been made."""
        connection = self._links.get(link)
        if connection is None:
            return
        assert not connection.up
        self._disarm_setup(connection)
        connection.up = True
        if len(self._reached) < PEER_CHANNELS_MAX:
            self._reached[connection.peer] = None
        logins, peer = self._logins, connection.peer
        if logins is not None and peer.node_id != self.node_id and logins.needed(peer.listener):
            self._log_in(connection, logins, now_ms)
        else:
            self._send(connection, now_ms)

    def link_received(self, link: int, frame: memoryview, now_ms: int) -> None:
        """Handles one answer, without its length prefix. The decoded message keeps views of its bytes."""
        connection = self._links.get(link)
        if connection is None:
            return
        if not connection.in_flight:
            self._give_up(connection, "it answered what was not asked", now_ms)
            return
        call = connection.in_flight[0]
        try:
            answer = decoded(call.api, call.version, call.correlation_id, frame)
        except ProtocolError as error:
            self._give_up(connection, f"its answer to {call.api.name} is broken: {error}", now_ms)
            return
        except Exception as error:
            self._give_up(connection, f"its answer to {call.api.name} broke the decoder", now_ms)
            self._report(f"{call.api.name} of {connection.peer}", error)
            return
        connection.in_flight.popleft()
        if not connection.logging_in:
            connection.failures = 0
        connection.used_ms = now_ms
        self._disarm(call)
        if connection.in_flight and connection.in_flight[0].timer is None:
            self._wait_again(connection.in_flight[0], now_ms)
        if connection.waiting:
            self._send(connection, now_ms)
        done, call.done = call.done, None
        if done is not None:
            self._end(call, done, answer, None, now_ms)
        if connection.login_ends and not connection.in_flight:
            self._renew(connection, now_ms)

    def _end(self, call: Call, done: Done, answer: Message | None, reason: str | None, now_ms: int) -> None:
        """Calls `done`. If that raises over the answer, it is called again without one, after which nearly all callers
        ask again.
        """
        try:
            done(answer, reason, now_ms)
        except Exception as error:
            if answer is not None:
                self._end(call, done, None, f"its answer to {call.api.name} broke this node", now_ms)
            self._report(f"{call.api.name} to {call.connection.peer}", error)

    def link_lost(self, link: int, reason: str, now_ms: int) -> None:
        """The connection broke, or could not be made."""
        connection = self._links.get(link)
        if connection is not None:
            self._lost(connection, reason, now_ms)

    def proceed(self, now_ms: int) -> None:
        """Tells callers about calls that failed at once."""
        for _ in range(len(self.unreported)):
            call, reason = self.unreported.popleft()
            self._fail(call, reason, now_ms)

    # Sending

    def _send(self, connection: PeerConnection, now_ms: int) -> None:
        """Sends waiting calls whose version is known, as long as there is room."""
        if connection.logging_in or connection.login_ends:
            return
        waiting, in_flight = connection.waiting, connection.in_flight
        while waiting and len(in_flight) < PEER_IN_FLIGHT_MAX:
            call = waiting[0]
            if call.version is None:
                if connection.versions is None:
                    if not connection.asking:
                        self._ask_versions(connection, API_VERSIONS.stable_max_version, now_ms)
                    return
                try:
                    call.version = common_version(call.api, connection.versions)
                except ProtocolError as error:
                    self._refuse(waiting.popleft(), NotServed(f"{connection.peer} {error}"))
                    continue
            self._send_one(waiting.popleft())

    def _send_one(self, call: Call) -> None:
        connection = call.connection
        link, version, message = connection.link, call.version, call.message
        assert link is not None
        assert version is not None
        assert message is not None
        correlation_id = connection.correlation_id = (connection.correlation_id + 1) & 0x7FFFFFFF
        try:
            chunks = encode_request(call.api, version, correlation_id, SOFTWARE_NAME, message)
        except ProtocolError as error:
            self._refuse(call, NotServed(f"version {version} of {call.api.name} cannot say this: {error}"))
            return
        call.correlation_id = correlation_id
        call.sent = True
        call.message = None
        connection.in_flight.append(call)
        connection.emit(SendTo(link, chunks))  # type: ignore[arg-type]

    def _ask_versions(self, connection: PeerConnection, version: int, now_ms: int) -> None:
        """Asks what the other side serves; if it does not know our version, again in the highest that it knows."""

        def answered(answer: Message | None, reason: str | None, at_ms: int) -> None:
            if answer is None:
                return
            assert isinstance(answer, ApiVersionsResponse)
            served = {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}
            highest = served.get(API_VERSIONS.key, (0, 0))[1]
            if answer.error_code == ErrorCode.UNSUPPORTED_VERSION and highest < version:
                self._ask_versions(connection, highest, at_ms)
            elif answer.error_code:
                self._give_up(connection, f"it refuses ApiVersions: {ErrorCode(answer.error_code).name}", at_ms)
            else:
                connection.versions = served
                connection.asking = False
                self._send(connection, at_ms)

        connection.asking = True
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self._ask(connection, request, version, answered, now_ms)

    def _ask(self, connection: PeerConnection, request: Message, version: int, done: Done, now_ms: int) -> None:
        """Sends a request of our own before all calls that wait."""
        self.calls += 1
        call = Call(connection, request, version, self._setup_timeout_ms, done)
        self._wait_again(call, now_ms)
        self._send_one(call)

    # Logins

    def _log_in(self, connection: PeerConnection, logins: PeerLogins, now_ms: int) -> None:
        connection.logging_in = True
        connection.login_ends = False
        number = connection.link
        link = LoginLink(partial(self._ask, connection), lambda: number is not None and connection.link == number)

        def over(reason: str | None, lifetime_ms: int, at_ms: int) -> None:
            if not link.alive():
                return
            if reason is not None:
                self._give_up(connection, reason, at_ms)
                return
            connection.logging_in = False
            if lifetime_ms > 0:
                due_ms = at_ms + int(lifetime_ms * self._random.uniform(*RENEWED_AT))
                connection.renewal = self._timers.at(due_ms, lambda when_ms: self._login_ends(connection, when_ms))
            self._send(connection, at_ms)

        peer = connection.peer
        logins.begin(peer.listener, str(peer), link, over, now_ms, host=peer.host)

    def _login_ends(self, connection: PeerConnection, now_ms: int) -> None:
        connection.renewal = None
        connection.login_ends = True
        if not connection.in_flight:
            self._renew(connection, now_ms)

    def _renew(self, connection: PeerConnection, now_ms: int) -> None:
        assert self._logins is not None, "a login that ends was made"
        self._log_in(connection, self._logins, now_ms)

    def _refuse(self, call: Call, reason: str) -> None:
        self._disarm(call)
        self.unreported.append((call, reason))

    # Connections

    def _new_connection(self, peer: Peer, channel: str, now_ms: int) -> PeerConnection:
        own = self._emit_own if peer.node_id == self.node_id else None
        connection = PeerConnection(peer, channel, own or self._emit, now_ms)
        self._connections[peer, channel] = connection
        if self._idle_ms >= 0 and not own:
            self._check_idle_at(connection, now_ms + self._idle_ms)
        return connection

    def _check_idle_at(self, connection: PeerConnection, deadline_ms: int) -> None:
        """Closes and forgets the connection if it is idle by then; otherwise checks again later."""
        key = (connection.peer, connection.name)

        def check(now_ms: int) -> None:
            if self._connections.get(key) is not connection:
                return
            if connection.in_flight or connection.waiting:
                self._check_idle_at(connection, now_ms + self._idle_ms)
            elif now_ms - connection.used_ms < self._idle_ms:
                self._check_idle_at(connection, connection.used_ms + self._idle_ms)
            else:
                del self._connections[key]
                self._clear(connection)

        self._timers.at(deadline_ms, check, duty=True)

    def _dial_when_allowed(self, connection: PeerConnection, now_ms: int) -> None:
        """Dials now, or later if the last attempt was too recent."""
        wait_ms = 0
        if connection.failures:
            backoff_ms = min(RECONNECT_BACKOFF_MAX_MS, RECONNECT_BACKOFF_MS << min(connection.failures - 1, 10))
            wait_ms = connection.attempt_ms + self._jittered(backoff_ms) - now_ms
        if wait_ms > 0:
            connection.redial = self._timers.at(now_ms + wait_ms, lambda at_ms: self._redial(connection, at_ms))
        else:
            self._dial(connection, now_ms)

    def _redial(self, connection: PeerConnection, now_ms: int) -> None:
        connection.redial = None
        if connection.waiting:
            self._dial(connection, now_ms)

    def _dial(self, connection: PeerConnection, now_ms: int) -> None:
        self._last_link += 1
        link = connection.link = self._last_link
        self._links[link] = connection
        connection.attempt_ms = now_ms
        setup_ms = min(self._setup_timeout_max_ms, self._setup_timeout_ms << min(connection.failures, 10))
        timeout_ms = self._jittered(setup_ms)
        reason = f"no connection within {timeout_ms} ms"
        connection.setup = self._timers.at(now_ms + timeout_ms, lambda at_ms: self._give_up(connection, reason, at_ms))
        peer = connection.peer
        connection.emit(Dial(link, peer.host, peer.port, peer.listener))

    def _jittered(self, duration_ms: int) -> int:
        return int(duration_ms * (1 + BACKOFF_JITTER * (2 * self._random.random() - 1)))

    def _give_up(self, connection: PeerConnection, reason: str, now_ms: int) -> None:
        assert connection.link is not None
        connection.emit(HangUp(connection.link))
        self._lost(connection, reason, now_ms)

    def _lost(self, connection: PeerConnection, reason: str, now_ms: int) -> None:
        """Ends all calls of a lost connection. Their callers may call again at once."""
        was_up = connection.up
        connection.failures += 1
        text = f"{connection.peer}: {reason}"
        for call in self._disconnect(connection):
            self._fail(call, text, now_ms)
        if was_up:
            for listener in list(self.on_link_lost):
                try:
                    listener(connection.peer, connection.name, reason, now_ms)
                except Exception as error:
                    self._report(f"the lost connection to {connection.peer}", error)

    def _clear(self, connection: PeerConnection) -> list[Call]:
        """Closes the connection; returns its calls, which the caller must end."""
        if connection.link is not None:
            connection.emit(HangUp(connection.link))
        if connection.redial is not None:
            self._timers.cancel(connection.redial)
            connection.redial = None
        return self._disconnect(connection)

    def _disconnect(self, connection: PeerConnection) -> list[Call]:
        """Forgets the link; returns the calls that were sent on it or waited for it, in order."""
        if connection.link is not None:
            del self._links[connection.link]
            connection.link = None
        self._disarm_setup(connection)
        if connection.renewal is not None:
            self._timers.cancel(connection.renewal)
            connection.renewal = None
        connection.logging_in = connection.login_ends = False
        connection.up = False
        connection.versions = None
        connection.asking = False
        calls = [*connection.in_flight, *connection.waiting]
        connection.in_flight.clear()
        connection.waiting.clear()
        for call in calls:
            self._disarm(call)
        return calls

    # Time

    def _timed_out(self, call: Call, now_ms: int) -> None:
        connection = call.connection
        call.timer = None
        reason = f"no answer to {call.api.name} within {call.timeout_ms} ms"
        if not call.sent:
            connection.waiting.remove(call)
        elif connection.in_flight[0] is call:
            self._give_up(connection, reason, now_ms)
            return
        self._fail(call, f"{connection.peer}: {reason}", now_ms)

    def _fail(self, call: Call, reason: str, now_ms: int) -> None:
        """Ends a call without an answer, unless it was cancelled or has ended already."""
        done, call.done = call.done, None
        if done is not None:
            self.failed += 1
            self._end(call, done, None, reason, now_ms)

    def _wait_again(self, call: Call, now_ms: int) -> None:
        """Restarts the timeout of a call; for an oldest call that timed out, it decides on the connection."""
        call.timer = self._timers.at(now_ms + call.timeout_ms, lambda at_ms: self._timed_out(call, at_ms))

    def _disarm(self, call: Call) -> None:
        if call.timer is not None:
            self._timers.cancel(call.timer)
            call.timer = None

    def _disarm_setup(self, connection: PeerConnection) -> None:
        if connection.setup is not None:
            self._timers.cancel(connection.setup)
            connection.setup = None
