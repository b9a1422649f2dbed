"""Calls to brokers that this node answers itself, without frames, where the API has a way to.

    calls.own.call(peer, WriteTxnMarkersRequest(...), timeout_ms=30_000, done=answered, now_ms=now_ms)

A call to another node goes through `Outgoing`. So does one to this node that its handler does not take directly
(`Handler.direct`), as it is too large for one step or needs something that is not in memory. Else the request and the
answer are passed as they are: neither end may change what it is given. As in the loopback, the request is handled at
the end of the turn, and the answer delivered by another event. The handler sees to it that there is one in time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from penstock.errors import Report
from penstock.node.outgoing import Done, Outgoing, Peer
from penstock.protocol.message import Message

if TYPE_CHECKING:
    from penstock.node.loopback import Loopback
    from penstock.node.state import NodeState


class Asked(Protocol):
    """Who waits for an answer: a request, or a call of this node itself."""

    @property
    def done(self) -> bool:
        """Whether it has been answered, or ended otherwise."""

    def answer(self, message: Message, now_ms: int) -> None:
        """Gives the answer, once."""

    def guard(self, go_on: Callable[..., None]) -> Callable[..., None]:
        """What calls `go_on`; an exception ends what was asked."""

    def broke(self, error: Exception, now_ms: int) -> None:
        """A bug ends what was asked."""


class OwnCall:
    """A call that this node answers itself: `Asked`."""

    __slots__ = ("_calls", "_done", "name")

    def __init__(self, calls: OwnCalls, name: str, done: Done) -> None:
        self._calls = calls
        self._done: Done | None = done
        self.name = name

    @property
    def done(self) -> bool:
        return self._done is None

    def answer(self, message: Message | None, now_ms: int) -> None:
        done, self._done = self._done, None
        if done is not None:
            self._calls.soon(partial(self._tell, done, message))

    def _tell(self, done: Done, message: Message | None, now_ms: int) -> None:
        """Calls `done`; if that raises over the answer, again without one, as `Outgoing` does."""
        try:
            done(message, None if message is not None else "it broke this node", now_ms)
        except Exception as error:
            if message is not None:
                self._tell(done, None, now_ms)
            self._calls.report(f"{self.name} of this node itself", error)

    def guard(self, go_on: Callable[..., None]) -> Callable[..., None]:
        def guarded(*what: Any) -> None:
            try:
                go_on(*what)
            except Exception as error:
                self.broke(error, 0)

        return guarded

    def broke(self, error: Exception, now_ms: int) -> None:
        self.answer(None, now_ms)
        self._calls.report(f"{self.name} of this node itself", error)


Direct = Callable[[Any, OwnCall, int], bool]
"""`direct(request, call, now_ms)`, see `Handler`."""


class OwnCalls:
    """See the module's head. `direct`: how requests are answered, by their class. `report`: gets bugs."""

    def __init__(self, state: NodeState, outgoing: Outgoing, loopback: Loopback, report: Report) -> None:
        self._state = state
        self._outgoing = outgoing
        self._loopback = loopback
        self.report = report
        self.direct: dict[type[Message], Direct] = {}

    def call(
        self, peer: Peer, message: Message, *, timeout_ms: int, done: Done, now_ms: int, channel: str = ""
    ) -> None:
        """As `Outgoing.call`, for who does not cancel."""
        direct = self.direct.get(type(message)) if peer.node_id == self._outgoing.node_id else None

        def send(at_ms: int) -> None:
            self._outgoing.call(peer, message, timeout_ms=timeout_ms, done=done, now_ms=at_ms, channel=channel)

        if direct is None or self._state.stopping:
            send(now_ms)
        else:
            self.soon(partial(self._handle, direct, message, OwnCall(self, type(message).__name__, done), send))

    def soon(self, event: Callable[[int], None]) -> None:
        """Has something done at the end of the turn."""
        self._loopback.events.append(event)

    def _handle(
        self, direct: Direct, message: Message, call: OwnCall, send: Callable[[int], None], now_ms: int
    ) -> None:
        try:
            taken = direct(message, call, now_ms)
        except Exception as error:
            call.broke(error, now_ms)
        else:
            if not taken:
                send(now_ms)
