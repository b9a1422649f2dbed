"""Requests to other nodes: one connection a (peer, channel), dialled when it is needed, and every call ends once.

    node.outgoing.call(peer, VoteRequest(...), timeout_ms=2_000, done=answered, now_ms=now_ms, channel="raft")

    def answered(answer, reason, now_ms):        # an answer, or None and why there is none

Part of the state machine: connections are asked for by effects (`Dial`, `SendTo`, `HangUp`), and what becomes of them
comes back as events (`link_up`, `link_received`, `link_lost`).

- Requests of one channel leave in the order of their calls, several at a time; answers come in the order of the
  requests, as Kafka's brokers give them. Who must not wait behind another's long poll takes a channel of its own.
- The versions of the other side are asked for (ApiVersions) before the first request that leaves its version open.
- A connection that breaks, or cannot be made, ends all calls of its channel: whether a request was executed is then
  unknown. It is dialled again when the next call comes, RECONNECT_BACKOFF_MS after the last attempt and twice as long
  after each further failure; calls made meanwhile wait for that, as long as their own timeouts allow.
- A request that is not answered in time ends alone while an earlier one of its connection is still waited for, which
  may explain the silence. When it is the oldest, nothing behind it can be answered either: as in Kafka, the connection
  is given up with all its calls.
- A peer that is this node itself is reached in the same way, through `node.loopback` instead of a socket.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

from penstock import __version__
from penstock.errors import ErrorCode, ProtocolError, Report, raise_it
from penstock.node.effects import REFUSED, Dial, Effect, HangUp, SendTo
from penstock.node.limits import PEER_CALLS_MAX, PEER_CHANNELS_MAX, PEER_IN_FLIGHT_MAX
from penstock.node.timers import Timer, TimerWheel
from penstock.protocol.api import API_BY_NUMBER, APIS, Api, ApiKey
from penstock.protocol.frames import decode_response, encode_request
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest
from penstock.protocol.messages.api_versions_response import ApiVersionsResponse

RECONNECT_BACKOFF_MS = 50
RECONNECT_BACKOFF_MAX_MS = 500
"""As Kafka's between voters, where these are not settings."""
BACKOFF_JITTER = 0.2
IDLE_SHARE = 0.9
"""We close an idle connection a little before the other side does, so that no request meets its closing."""
SOFTWARE_NAME = "penstock"
API_VERSIONS = APIS[ApiKey.API_VERSIONS]
UNSUPPORTED_VERSION_BYTES = int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big")


class NotServed(str):
    """The reason why a call was not even sent: the other side serves no version of the API that could say it."""

    __slots__ = ()


Done = Callable[[Message | None, str | None, int], None]
"""`done(answer, None, now_ms)`, or `done(None, reason, now_ms)`; `NotServed` is a reason of its own kind."""
LinkLost = Callable[["Peer", str, str, int], None]
"""`lost(peer, channel, reason, now_ms)`."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Another node, or this one, at one of its listeners. `node_id` is -1 for an address out of the configuration."""

    node_id: int
    host: str
    port: int
    listener: str

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.node_id < 0 else f"node {self.node_id} at {host}:{self.port}"


class Call:
    """One request under way. `Outgoing.cancel` takes it back."""

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


class PeerConnection:
    """The connection to one peer for one channel.

    Attributes:
        link: of the connection that is up or being made; None while there is none.
        versions: what the other side serves, by API key; None until it has said so.
        waiting: calls that have not been sent. in_flight: sent, oldest first; one without `done` was given up.
        failures: attempts in a row that ended without an answer. attempt_ms: when the last one began.
    """

    __slots__ = (
        "asking",
        "attempt_ms",
        "correlation_id",
        "emit",
        "failures",
        "in_flight",
        "link",
        "name",
        "peer",
        "redial",
        "setup",
        "up",
        "used_ms",
        "versions",
        "waiting",
    )

    def __init__(self, peer: Peer, name: str, emit: Callable[[Effect], None], now_ms: int) -> None:
        self.peer = peer
        self.name = name
        self.emit = emit
        self.link: int | None = None
        self.up = False
        self.versions: Mapping[int, tuple[int, int]] | None = None
        self.asking = False
        self.waiting: deque[Call] = deque()
        self.in_flight: deque[Call] = deque()
        self.correlation_id = 0
        self.failures = 0
        self.attempt_ms = 0
        self.used_ms = now_ms
        self.redial: Timer | None = None
        self.setup: Timer | None = None


class Outgoing:
    """All calls of one node to others. See the module's head.

    Args:
        node_id: our own; a peer with it is reached by `emit_own` instead of `emit`.
        idle_ms: connections.max.idle.ms; negative: connections stay.
        setup_timeout_ms, setup_timeout_max_ms: socket.connection.setup.timeout.ms and .max.ms.

    Attributes:
        on_link_lost: called when a connection that was up breaks or is given up, after its calls have ended; not when
            it is closed because it is idle or by `hang_up`.
        calls, failed: how many requests there were, ApiVersions among them, and how many ended without an answer.
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
        self._connections: dict[tuple[Peer, str], PeerConnection] = {}
        self._links: dict[int, PeerConnection] = {}
        self._reached: dict[Peer, None] = {}
        self._last_link = 0
        self._failed: deque[tuple[Call, str]] = deque()
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
            message: a request, which the caller leaves alone from now on: it may be sent later.
            timeout_ms: for all of it: connecting, waiting for its turn, the answer.
            version: of the API; None takes the highest that both sides know.
            channel: calls of the same name to the same peer share a connection and its order.
        """
        self.calls += 1
        found = self._connections.get((peer, channel)) or self._new_connection(peer, channel, now_ms)
        call = Call(found, message, version, timeout_ms, done)
        if self._stopped:
            self._failed.append((call, "this node is stopping"))
        elif len(found.waiting) + len(found.in_flight) >= PEER_CALLS_MAX:
            self._failed.append((call, f"{peer}: {PEER_CALLS_MAX} calls are waiting already"))
        elif len(self._connections) > PEER_CHANNELS_MAX:
            del self._connections[peer, channel]
            self._failed.append((call, f"{peer}: there are {PEER_CHANNELS_MAX} channels already"))
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
        """Nobody waits for the answer any more: `done` is not called. What was sent is not taken back."""
        call.done = None
        if not call.sent and call in call.connection.waiting:
            call.connection.waiting.remove(call)
            self._disarm(call)

    def hang_up(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        """Closes a connection that is not needed any more; its calls end, with `reason`, soon after this returns."""
        found = self._connections.pop((peer, channel), None)
        if found is not None:
            self._failed.extend((call, reason) for call in self._clear(found))

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
        """The connection to a node, if it is up or being made."""
        for (peer, name), found in self._connections.items():
            if peer.node_id == node_id and name == channel:
                return found.link
        return None

    def is_gone(self, peer: Peer, reason: str | None) -> bool:
        """Whether a call that failed for this reason says that the peer's process is no more.

        Nobody listens at its address any more, where we have been connected before: so no firewall speaks for it.
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
            answer = decoded(call, frame)
        except ProtocolError as error:
            self._give_up(connection, f"its answer to {call.api.name} is broken: {error}", now_ms)
            return
        except Exception as error:
            self._give_up(connection, f"its answer to {call.api.name} broke the decoder", now_ms)
            self._report(f"{call.api.name} of {connection.peer}", error)
            return
        connection.in_flight.popleft()
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

    def _end(self, call: Call, done: Done, answer: Message | None, reason: str | None, now_ms: int) -> None:
        """Tells the caller. One that breaks over the answer is told that there was none, and does what it does then:
        nearly all ask again after a while.
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

    @property
    def pending(self) -> bool:
        """Whether calls have failed whose callers have not been told yet: `proceed` tells them."""
        return bool(self._failed)

    def proceed(self, now_ms: int) -> None:
        """Tells the callers of calls that failed at once."""
        for _ in range(len(self._failed)):
            call, reason = self._failed.popleft()
            self._fail(call, reason, now_ms)

    # Sending

    def _send(self, connection: PeerConnection, now_ms: int) -> None:
        """Sends waiting calls whose version is known, as long as there is room."""
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
        """Asks what the other side serves; in a lower version again if it does not know ours (it answers in 0)."""

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

        self.calls += 1
        connection.asking = True
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        call = Call(connection, request, version, self._setup_timeout_ms, answered)
        self._wait_again(call, now_ms)
        self._send_one(call)

    def _refuse(self, call: Call, reason: str) -> None:
        self._disarm(call)
        self._failed.append((call, reason))

    # Connections

    def _new_connection(self, peer: Peer, channel: str, now_ms: int) -> PeerConnection:
        own = self._emit_own if peer.node_id == self.node_id else None
        connection = PeerConnection(peer, channel, own or self._emit, now_ms)
        self._connections[peer, channel] = connection
        if self._idle_ms >= 0 and not own:
            self._check_idle_at(connection, now_ms + self._idle_ms)
        return connection

    def _check_idle_at(self, connection: PeerConnection, deadline_ms: int) -> None:
        """Closes and forgets the connection if it has been idle by then, and looks again later if it has not."""
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
        """Dials now, or when the time since the last attempt is long enough."""
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
        """Ends all calls of a connection that is gone. Their callers may call again at once."""
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
        """Forgets the link; gives the calls that were on it or waited for it, in order."""
        if connection.link is not None:
            del self._links[connection.link]
            connection.link = None
        self._disarm_setup(connection)
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
        """Gives a call its time (again): one that was given up and is now the oldest decides on the connection."""
        call.timer = self._timers.at(now_ms + call.timeout_ms, lambda at_ms: self._timed_out(call, at_ms))

    def _disarm(self, call: Call) -> None:
        if call.timer is not None:
            self._timers.cancel(call.timer)
            call.timer = None

    def _disarm_setup(self, connection: PeerConnection) -> None:
        if connection.setup is not None:
            self._timers.cancel(connection.setup)
            connection.setup = None


def decoded(call: Call, frame: memoryview) -> Message:
    """The answer to a call. Raises ProtocolError for broken bytes, and for an answer to another request."""
    assert call.version is not None
    correlation_id = int.from_bytes(frame[:4], "big", signed=True)
    if correlation_id != call.correlation_id:
        raise ProtocolError(f"it answers request {correlation_id}, {call.correlation_id} was next")
    version = call.version
    if call.api is API_VERSIONS and frame[4:6] == UNSUPPORTED_VERSION_BYTES:
        version = 0
    return decode_response(call.api, version, frame)[1]


def common_version(api: Api, served: Mapping[int, tuple[int, int]]) -> int:
    """The highest version that both sides know. Raises ProtocolError, which says what they serve, if there is none."""
    lowest, highest = served.get(api.key, (0, -1))
    version = min(highest, api.stable_max_version)
    if version < max(lowest, api.min_version):
        theirs = f"versions {lowest} to {highest}" if highest >= 0 else "no version"
        raise ProtocolError(f"serves {theirs} of {api.name}, we know {api.min_version} to {api.stable_max_version}")
    return version
