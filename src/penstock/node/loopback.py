"""Calls of a node to itself: the same frames through the same handlers as another node's, without a socket.

`Outgoing` gives the effects of a connection to this node to `carry_out` instead of the shell. A link becomes a
connection of the node like a client's, with the node as its principal; its requests are executed, and its answers
delivered, by `proceed` at the end of the turn. So a controller that is also a broker heartbeats to itself as to
others, and nothing of a request is shared with its answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.node.connection import Connection, InFlight
from penstock.node.effects import Chunk, Dial, Effect, HangUp, Send, SendTo
from penstock.node.limits import PEER_IN_FLIGHT_MAX
from penstock.node.outgoing import Outgoing
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.security.authorizer import Principal

NODE_PRINCIPAL_TYPE = "Node"
"""Type of the principal of a node's calls to itself, which no client can have. Its name is the node id."""
LENGTH_BYTES = 4


class OwnConnection(Connection):
    """The serving end of a link to ourselves. Its number is the link's, negated: clients have numbers above 0."""

    __slots__ = ("loopback",)

    def __init__(self, loopback: Loopback, state: NodeState, dial: Dial) -> None:
        super().__init__(
            -dial.link,
            dial.listener,
            f"node {state.node_id}",
            max_in_flight=PEER_IN_FLIGHT_MAX,
            max_in_flight_bytes=state.settings.penstock_connection_max_in_flight_bytes,
        )
        self.principal = Principal(NODE_PRINCIPAL_TYPE, str(state.node_id))
        self.loopback = loopback

    def answered(self, request: InFlight, chunks: Sequence[Chunk], effects: list[Effect]) -> None:
        """The answers whose turn has come go to the link."""
        sent: list[Effect] = []
        super().answered(request, chunks, sent)
        for effect in sent:
            assert isinstance(effect, Send)
            self.loopback.answer(-self.id, effect.chunks)

    def close(self, reason: str, effects: list[Effect]) -> None:
        """The node has closed the connection: the link is lost."""
        self.loopback.lose(-self.id, reason)

    def pause_if_full(self, effects: list[Effect]) -> None:
        """Never: the calling end has the same bound."""


class Ends(Protocol):
    """What a node is as the serving end of its calls, and as the calling one."""

    connections: dict[int, Connection]

    @property
    def outgoing(self) -> Outgoing: ...

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None: ...

    def disconnected(self, connection: int, now_ms: int) -> None: ...


class Loopback:
    """All links of a node to itself."""

    def __init__(self, ends: Ends, state: NodeState, scheduler: Scheduler) -> None:
        self._ends = ends
        self._state = state
        self._scheduler = scheduler
        self._events: deque[Callable[[int], None]] = deque()

    @property
    def pending(self) -> bool:
        """Whether `proceed` has something to do."""
        return bool(self._events)

    def proceed(self, now_ms: int) -> None:
        """Delivers what has been sent so far, requests and answers."""
        for _ in range(len(self._events)):
            self._events.popleft()(now_ms)

    def carry_out(self, effect: Effect) -> None:
        """Does what the shell does for links to other nodes."""
        ends = self._ends
        if isinstance(effect, Dial):
            connection = OwnConnection(self, self._state, effect)
            ends.connections[connection.id] = connection
            link = effect.link
            self._events.append(lambda now_ms: ends.outgoing.link_up(link, now_ms))
        elif isinstance(effect, SendTo):
            number = -effect.link
            for frame in frames_of(effect.chunks):
                self._events.append(lambda now_ms, request=frame: ends.received(number, request, now_ms))  # type: ignore[misc]
        else:
            assert isinstance(effect, HangUp)
            ends.disconnected(-effect.link, self._scheduler.now_ms)

    def answer(self, link: int, chunks: Sequence[Chunk]) -> None:
        """Answers of our own handlers, on their way to the link."""
        outgoing = self._ends.outgoing
        for frame in frames_of(chunks):
            self._events.append(lambda now_ms, answer=frame: outgoing.link_received(link, answer, now_ms))  # type: ignore[misc]

    def lose(self, link: int, reason: str) -> None:
        """The node has closed its end."""
        self._events.append(lambda now_ms: self._ends.outgoing.link_lost(link, reason, now_ms))


def frames_of(chunks: Sequence[Chunk]) -> list[memoryview]:
    """The frames in what is sent at once, each in writable memory and without its length."""
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
