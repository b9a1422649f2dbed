"""One client connection: what it may have in flight, and in which order its requests execute and are answered.

A request has two phases. *Execute* runs the handler, strictly in the order of arrival: while a request is held (a read
that is not resident, a deferred append, a barrier such as authentication or throttling), and until the connection has
its turn (`penstock.node.turns`), later frames wait undecoded. *Complete* happens in any order, but answers leave in the
order of the requests. So the next produce request is appended while the last one waits for replicas.

Reading stops at `max_in_flight` requests or `max_in_flight_bytes` of frames and goes on at half of either.
"""

from __future__ import annotations

import ipaddress
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from penstock.config.server import Settings
from penstock.errors import NotResident
from penstock.log.disk import FileSlice
from penstock.node.effects import Chunk, Close, Effect, PauseReading, ResumeReading, Send
from penstock.node.limits import CONNECTION_SHARE_MS
from penstock.node.login import Login
from penstock.node.telemetry.client_counters import ClientCounters
from penstock.quota.usages import Usage
from penstock.security.authorizer import ANONYMOUS, Principal
from penstock.security.certificates import Shown

if TYPE_CHECKING:
    from penstock.node.line import Tenant
    from penstock.node.timers import Timer

Steps = Iterator[NotResident | None]
"""Long work: yields None after a step, or what it needs in memory for the next one."""
UNNAMED: Final = object()
"""Stands for the client id of a connection that has sent no request yet as who it is."""


class LateAnswer:
    """An answer that waits for those before it, and is written when it leaves: for how long the connection is mute then
    is not known before.
    """

    __slots__ = ("write",)

    def __init__(self, write: Callable[[], Sequence[Chunk]]) -> None:
        self.write = write


Answer = Sequence[Chunk] | LateAnswer
"""What is sent; nothing for no response frame."""


class InFlight(Protocol):
    """The part of a request (`penstock.node.request`) that a connection needs."""

    answer: Answer
    done: bool
    frame_bytes: int
    abandoned: Callable[[], None] | None


@dataclass(slots=True, eq=False)
class Connection:
    """State of one connection. The dispatcher drives it.

    Attributes:
        in_flight: executed or executing requests whose answer has not left, oldest first.
        waiting: frames that arrived while a request was held, or before the connection's turn.
        holds: how many reasons keep later requests from executing.
        paused: nothing is read because too much is in flight. muted_until_ms: because of a quota, until then; else 0.
        mute_timer: ends that.
        closed: it has been closed or lost; answers to it are dropped.
        round, share_ms, in_line, work: for `penstock.node.turns`: the round in which it last got a share, the
            rest of that share, whether it waits for its turn, and its long work that can go on.
        tenant: in whose turn its requests execute; None before the first. named: the client id of the latest request,
            or what is none if its tenant is to be found anew (`penstock.node.tenants`).
        address: the peer's address as Java writes it, which is what ACLs say: `127.0.0.1`, `0:0:0:0:0:0:0:1`.
        client_host: the same as Kafka shows it, with a slash: `/127.0.0.1`.
        time_usage: what the work of its latest request counts for, if its client may take the loop's time only so much.
        shown: the peer's certificate; kept where a login is followed by a function that names principals.
        unproven: a client has shown no credentials of any kind, whatever principal a function has given it.
        traffic: counts for whose connection it is (`penstock.node.telemetry.clients`).
        login: where the login stands, on a listener that asks for one; None: there is none.
    """

    id: int
    listener: str
    peer: str
    _: KW_ONLY
    max_in_flight: int
    max_in_flight_bytes: int
    address: str = field(init=False)
    client_host: str = field(init=False)
    principal: Principal = ANONYMOUS
    shown: Shown | None = None
    unproven: bool = False
    login: Login | None = None
    time_usage: Usage | None = None
    software_name: str = ""
    software_version: str = ""
    traffic: ClientCounters = field(default_factory=ClientCounters)
    in_flight: deque[InFlight] = field(default_factory=deque)
    waiting: deque[memoryview] = field(default_factory=deque)
    work: deque[Work] = field(default_factory=deque)
    round: int = 0
    share_ms: float = CONNECTION_SHARE_MS
    in_line: bool = False
    tenant: Tenant | None = None
    named: object = UNNAMED
    frame_bytes: int = 0
    holds: int = 0
    paused: bool = False
    muted_until_ms: int = 0
    mute_timer: Timer | None = None
    closed: bool = False

    @classmethod
    def of(cls, settings: Settings, number: int, listener: str, peer: str) -> Connection:
        """A client's connection, with the bounds that the settings give it."""
        return cls(
            number,
            listener,
            peer,
            max_in_flight=settings.penstock_connection_max_in_flight,
            max_in_flight_bytes=settings.penstock_connection_max_in_flight_bytes,
        )

    def __post_init__(self) -> None:
        self.address = java_address(self.peer.rpartition(":")[0].strip("[]"))
        self.client_host = f"/{self.address}"

    def answered(self, request: InFlight, answer: Answer, effects: list[Effect]) -> None:
        """Takes the answer of a request and sends all answers that are next in order."""
        assert not request.done, "a request is answered once"
        request.answer = answer
        request.done = True
        in_flight = self.in_flight
        while in_flight and in_flight[0].done:
            first = in_flight.popleft()
            self.frame_bytes -= first.frame_bytes
            chunks = first.answer
            if isinstance(chunks, LateAnswer):
                chunks = chunks.write()
            if chunks:
                effects.append(Send(self.id, chunks))
                size_bytes = 0
                for chunk in chunks:
                    size_bytes += chunk.length if isinstance(chunk, FileSlice) else len(chunk)
                self.traffic.bytes_out += size_bytes
        if self.paused and self._has_room():
            self.paused = False
            if not self.muted_until_ms:
                effects.append(ResumeReading(self.id))

    def close(self, reason: str, effects: list[Effect]) -> None:
        """Has the socket closed; the node has already forgotten the connection and its requests."""
        effects.append(Close(self.id, reason))

    def ask_next_controller(self) -> bool:
        """Returns True after telling the requester to ask the next controller itself; a client's connection cannot."""
        return False

    def pause_if_full(self, effects: list[Effect]) -> None:
        """Stops reading when the connection has as much in flight as it may."""
        if not self.paused and (
            len(self.in_flight) + len(self.waiting) >= self.max_in_flight
            or self.frame_bytes >= self.max_in_flight_bytes
        ):
            self.paused = True
            effects.append(PauseReading(self.id))

    def mute(self, effects: list[Effect]) -> None:
        """Executes and reads nothing until `unmute`; requests that have executed are answered."""
        self.holds += 1
        effects.append(PauseReading(self.id))

    def unmute(self, effects: list[Effect]) -> None:
        """Executes and reads again, unless something else is in the way."""
        self.holds -= 1
        self.muted_until_ms = 0
        if not self.paused:
            effects.append(ResumeReading(self.id))

    def _has_room(self) -> bool:
        requests = len(self.in_flight) + len(self.waiting)
        return requests <= self.max_in_flight // 2 and self.frame_bytes <= self.max_in_flight_bytes // 2


def java_address(host: str) -> str:
    """An address as Java's getHostAddress prints it: IPv6 in eight groups without leading zeros, an IPv4 address within
    IPv6 as IPv4. What is no address stays as it is.
    """
    if ":" not in host:
        return host
    text, percent, scope = host.partition("%")
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    groups = (f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return ":".join(groups) + percent + scope


class Work:
    """Long work of a connection, after its first step.

    `needs_place`: it counts towards LONG_REQUESTS_MAX. `place`: the tenant among whose work it is counted, while it is.
    """

    __slots__ = ("connection", "needs_place", "place", "steps")

    def __init__(self, connection: Connection, steps: Steps, *, needs_place: bool) -> None:
        self.connection = connection
        self.steps = steps
        self.needs_place = needs_place
        self.place: Tenant | None = None
