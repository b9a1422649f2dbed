"""One client connection: what it may have in flight, and in which order its requests execute and are answered.

A request has two phases. *Execute* runs the handler, strictly in the order in which the frames came: while one request
is held (a read that is not resident, a deferred append, a barrier such as authentication or throttling), and until the
connection has its turn (`penstock.node.turns`), later frames wait undecoded. *Complete* comes in any order; the answers
leave in the order of the requests. So the next produce request is appended while the last one waits for replicas.

Reading stops at `max_in_flight` requests or `max_in_flight_bytes` of frames and goes on at half of either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from penstock.errors import NotResident
from penstock.node.effects import Chunk, Close, Effect, PauseReading, ResumeReading, Send
from penstock.node.limits import ROUND_SHARE_MS
from penstock.security.authorizer import ANONYMOUS, Principal

Steps = Iterator[NotResident | None]
"""Long work: yields None after a step, or what it needs in memory for the next one."""


class InFlight(Protocol):
    """What a connection knows of a request (`penstock.node.request`)."""

    answer: Sequence[Chunk]
    done: bool
    frame_bytes: int
    abandoned: Callable[[], None] | None


class Connection:
    """State of one connection. The dispatcher drives it.

    Attributes:
        in_flight: executed or executing requests whose answer has not left, oldest first.
        waiting: frames that came while a request was held, or before the connection's turn.
        holds: how many reasons keep later requests from executing.
        closed: it has been closed or lost; answers to it go nowhere.
        round, share_ms, in_line, work: of `penstock.node.turns`: the round that it last had a share of, what is left of
            that, whether it waits for its turn, and its long work that can go on.
        client_host: the peer's address as Kafka writes it, with a slash: `/127.0.0.1`.
    """

    __slots__ = (
        "client_host",
        "closed",
        "frame_bytes",
        "holds",
        "id",
        "in_flight",
        "in_line",
        "listener",
        "max_in_flight",
        "max_in_flight_bytes",
        "paused",
        "peer",
        "principal",
        "round",
        "share_ms",
        "software_name",
        "software_version",
        "waiting",
        "work",
    )

    def __init__(
        self,
        number: int,
        listener: str,
        peer: str,
        *,
        max_in_flight: int,
        max_in_flight_bytes: int,
    ) -> None:
        self.id = number
        self.listener = listener
        self.peer = peer
        self.client_host = f"/{peer.rpartition(':')[0].strip('[]')}"
        self.principal: Principal = ANONYMOUS
        self.software_name = ""
        self.software_version = ""
        self.max_in_flight = max_in_flight
        self.max_in_flight_bytes = max_in_flight_bytes
        self.in_flight: deque[InFlight] = deque()
        self.waiting: deque[memoryview] = deque()
        self.work: deque[Work] = deque()
        self.round = 0
        self.share_ms = float(ROUND_SHARE_MS)
        self.in_line = False
        self.frame_bytes = 0
        self.holds = 0
        self.paused = False
        self.closed = False

    def answered(self, request: InFlight, chunks: Sequence[Chunk], effects: list[Effect]) -> None:
        """Takes the answer of a request and sends all whose turn has come. No chunks: nothing is sent for it."""
        assert not request.done, "a request is answered once"
        request.answer = chunks
        request.done = True
        in_flight = self.in_flight
        while in_flight and in_flight[0].done:
            first = in_flight.popleft()
            self.frame_bytes -= first.frame_bytes
            if first.answer:
                effects.append(Send(self.id, first.answer))
        if self.paused and self._has_room():
            self.paused = False
            effects.append(ResumeReading(self.id))

    def close(self, reason: str, effects: list[Effect]) -> None:
        """The node has closed it and forgotten its requests: has the socket closed."""
        effects.append(Close(self.id, reason))

    def ask_next_controller(self) -> bool:
        """Whether who asks here turns to the next controller by itself, and has just been told to."""
        return False

    def pause_if_full(self, effects: list[Effect]) -> None:
        """Stops reading when the connection has as much in flight as it may."""
        if not self.paused and (
            len(self.in_flight) + len(self.waiting) >= self.max_in_flight
            or self.frame_bytes >= self.max_in_flight_bytes
        ):
            self.paused = True
            effects.append(PauseReading(self.id))

    def _has_room(self) -> bool:
        requests = len(self.in_flight) + len(self.waiting)
        return requests <= self.max_in_flight // 2 and self.frame_bytes <= self.max_in_flight_bytes // 2


class Work:
    """Long work of a connection, after its first step. `needs_place`: it counts among LONG_REQUESTS_MAX."""

    __slots__ = ("connection", "has_place", "needs_place", "steps")

    def __init__(self, connection: Connection, steps: Steps, *, needs_place: bool) -> None:
        self.connection = connection
        self.steps = steps
        self.needs_place = needs_place
        self.has_place = False
