"""Calls of a node to itself: the same frames through the same handlers as another node's, without a socket.

`Outgoing` passes the effects of a connection to this node to `carry_out` instead of the shell. A link becomes a
connection like a client's, with the node as its principal; `proceed` executes its requests and delivers the answers at
the end of the turn. So a broker that is also the controller sends heartbeats to itself as to others, and request and
answer share no objects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from penstock.node.connection import Answer, Connection, InFlight
from penstock.node.effects import Chunk, Dial, Effect, HangUp, Send, SendTo
from penstock.node.limits import PEER_IN_FLIGHT_MAX
from penstock.node.outgoing import Outgoing
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.security.authorizer import OwnPrincipal

NODE_PRINCIPAL_TYPE = "Node"
"""Type of the principal of a node's calls to itself, which no client can have. Its name is the node id."""
LENGTH_BYTES = 4


class OwnConnection(Connection):
    """The serving end of a link of the node to itself. Its number is that of the link, negated."""

    __slots__ = ("loopback",)

    def __init__(self, loopback: Loopback, state: NodeState, dial: Dial) -> None:
        super().__init__(
            -dial.link,
            dial.listener,
            f"node {state.node_id}",
            max_in_flight=PEER_IN_FLIGHT_MAX,
            max_in_flight_bytes=state.settings.penstock_connection_max_in_flight_bytes,
        )
        self.principal = OwnPrincipal(NODE_PRINCIPAL_TYPE, str(state.node_id))
        self.loopback = loopback

    def answered(self, request: InFlight, answer: Answer, effects: list[Effect]) -> None:
        """Passes the answers that are next in order to the link."""
        sent: list[Effect] = []
        super().answered(request, answer, sent)
        for effect in sent:
            assert isinstance(effect, Send)
            self.loopback.answer(-self.id, effect.chunks)

    def close(self, reason: str, effects: list[Effect]) -> None:
        """The node has closed the connection: the link is lost."""
        self.loopback.lose(-self.id, reason)

    def pause_if_full(self, effects: list[Effect]) -> None:
        """Does nothing: the calling end has the same bound."""


class Ends(Protocol):
    """The node as the serving end of its calls to itself, and as the calling end."""

    connections: dict[int, Connection]

    @property
    def outgoing(self) -> Outgoing: ...

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None: ...

    def disconnected(self, connection: int, now_ms: int) -> None: ...


class Loopback:
    """All links of a node to itself. `events`: what `proceed` has to deliver."""

    def __init__(self, ends: Ends, state: NodeState, scheduler: Scheduler) -> None:
        self._ends = ends
        self._state = state
        self._scheduler = scheduler
        self.events: deque[Callable[[int], None]] = deque()

    def proceed(self, now_ms: int) -> None:
        """Delivers the requests and answers that have been sent so far."""
        for _ in range(len(self.events)):
            self.events.popleft()(now_ms)

    def carry_out(self, effect: Effect) -> None:
        """Does what the shell does for links to other nodes."""
        ends = self._ends
        if isinstance(effect, Dial):
            connection = OwnConnection(self, self._state, effect)
            ends.connections[connection.id] = connection
            self.events.append(partial(ends.outgoing.link_up, effect.link))
        elif isinstance(effect, SendTo):
            for frame in frames_of(effect.chunks):
                self.events.append(partial(ends.received, -effect.link, frame))
        else:
            assert isinstance(effect, HangUp)
            ends.disconnected(-effect.link, self._scheduler.now_ms)

    def answer(self, link: int, chunks: Sequence[Chunk]) -> None:
        """Takes answers of our own handlers for the link."""
        outgoing = self._ends.outgoing
        for frame in frames_of(chunks):
            self.events.append(partial(outgoing.link_received, link, frame))

    def lose(self, link: int, reason: str) -> None:
        """The node has closed its end: the link is lost."""
        self.events.append(partial(self._ends.outgoing.link_lost, link, reason))


def frames_of(chunks: Sequence[Chunk]) -> list[memoryview]:
    """The frames in what is sent at once, each in writable memory and without its length prefix."""
    data = bytearray()
    for chunk in chunks:
        assert isinstance(chunk, bytes | bytearray | memoryview), "a node does not ask itself for ranges of files"
        data += chunk
    found, position = [], 0
    while position < len(data):
        end = position + LENGTH_BYTES + int.from_bytes(data[position : position + LENGTH_BYTES], "big")
        assert end <= len(data), "only whole frames are sent"
        found.append(memoryview(data)[position + LENGTH_BYTES : end])
        position = end
    return found
