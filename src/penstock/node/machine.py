"""A node as its shell sees it: events in, effects out. What is the same for a broker (`node.broker`) and for a node of
Guardian (`guardian.core.node`): connections, links to other nodes, ends of operations, time.

Nothing here is kept: the parts that are used belong to who derives from it. Each event may wake everything else, so the
scheduler is told, except for what arrives on a connection and for a write that has succeeded: those say by themselves
whom they concern.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

from penstock.log.disk import Operation
from penstock.log.operations import Write
from penstock.node.bugs import Bugs
from penstock.node.connection import Connection
from penstock.node.dispatcher import Dispatcher
from penstock.node.outgoing import Outgoing
from penstock.node.request import Kept, Request
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.protocol.message import Message
from penstock.security.certificates import Shown


class NodeMachine(ABC):
    """See the module's head. `now_ms` never goes back.

    Attributes:
        stopped: a clean stop is complete.
        failure: why the node cannot go on; None while it can. The shell ends the process then.
    """

    state: NodeState
    scheduler: Scheduler
    connections: dict[int, Connection]
    dispatcher: Dispatcher

    @property
    @abstractmethod
    def outgoing(self) -> Outgoing:
        """Calls to other nodes."""

    def _event_ended(self, now_ms: int) -> None:  # noqa: B027 - not every node has something to do
        """Called when an operation has ended, and after each tick."""

    @property
    def stopped(self) -> bool:
        return self.state.stopped

    @property
    def node_id(self) -> int:
        return self.state.node_id

    @property
    def bugs(self) -> Bugs:
        return self.scheduler.bugs

    @property
    def failure(self) -> Exception | None:
        return self.state.failure

    def bug(self, place: str, what: str, error: Exception) -> None:
        """Reports an error that should never happen."""
        self.scheduler.bug(place, what, error)

    def answer(self, request: Request[Any], message: Message | Kept | None, now_ms: int) -> None:
        """Answers a request for which the handler returned LATER. None closes the connection."""
        self.dispatcher.exit.answer(request, message, now_ms)

    def quorum_stirred(self) -> None:
        """What a quorum has to do, or when, may have changed."""
        self.scheduler.stirred = True

    # Connections of clients and of other nodes

    def connected(
        self, connection: int, listener: str, peer: str, now_ms: int, shown: Shown | None = None, *, since_ms: int = -1
    ) -> None:
        """A client connected. `connection` is a number never used again, `shown` the certificate it has shown; its
        deadline to log in counts from `since_ms`, when its handshake began (-1: from now).
        """
        assert connection not in self.connections
        self.scheduler.now_ms = now_ms
        found = Connection.of(self.state.settings, connection, listener, peer)
        if self.dispatcher.logins.connected(found, now_ms if since_ms < 0 else since_ms, shown):
            self.connections[connection] = found

    def tenant_of(self, connection: int) -> Hashable:
        """In whose turn of a lane bytes for a connection are read; None: in the node's own."""
        found = self.connections.get(connection)
        return None if found is None else self.dispatcher.turns.tenants.of(found)

    def received(self, connection: int, frame: memoryview, now_ms: int) -> None:
        """Handles one frame, without its length prefix, in a writable buffer; keeps views of it while they are needed.

        A frame of a connection that the node has closed is ignored.
        """
        self.scheduler.now_ms = now_ms
        found = self.connections.get(connection)
        if found is not None:
            self.dispatcher.received(found, frame, now_ms)

    def disconnected(self, connection: int, now_ms: int) -> None:
        """The connection is gone. Frames that arrived before are still executed; then parked requests are dropped."""
        self._happens(now_ms)
        found = self.connections.get(connection)
        if found is not None:
            self.dispatcher.turns.leave(found)

    # Links to other nodes

    def link_up(self, link: int, now_ms: int) -> None:
        """A connection that `Dial` asked for has been made."""
        self._happens(now_ms)
        self.scheduler.guarded("call", "a connection to another node", self.outgoing.link_up, link, now_ms)

    def link_received(self, link: int, frame: memoryview, now_ms: int) -> None:
        """An answer of another node, without its length prefix. Views of it are kept while its bytes are needed."""
        self._happens(now_ms)
        self.scheduler.guarded("call", "an answer of another node", self.outgoing.link_received, link, frame, now_ms)

    def link_lost(self, link: int, reason: str, now_ms: int) -> None:
        """A connection to another node broke, or could not be made; `reason` is for people."""
        self._happens(now_ms)
        what = "a lost connection to another node"
        self.scheduler.guarded("call", what, self.outgoing.link_lost, link, reason, now_ms)

    def _happens(self, now_ms: int) -> None:
        self.scheduler.now_ms = now_ms
        self.scheduler.stirred = True

    # Disks

    def operation_completed(self, operation: Operation, result: Any, now_ms: int) -> None:
        """An operation of a `Run` effect has succeeded."""
        self._operation_ended(operation, operation.owner.operation_completed, result, now_ms)

    def operation_failed(self, operation: Operation, error: OSError, now_ms: int) -> None:
        """An operation of a `Run` effect has raised an error of the disk."""
        self._operation_ended(operation, operation.owner.operation_failed, error, now_ms)

    def operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """An operation of a `Run` effect has raised something else than OSError: a bug, not a fault of the disk."""
        self._operation_ended(operation, self._operation_broke, error, now_ms)

    def _operation_ended(self, operation: Operation, tell: Callable[..., None], outcome: Any, now_ms: int) -> None:
        self.scheduler.now_ms = now_ms
        if type(operation) is not Write or isinstance(outcome, Exception):
            self.scheduler.stirred = True
        try:
            tell(operation, outcome, now_ms)
        except Exception as error:
            self._operation_broke(operation, error, now_ms)
        self._event_ended(now_ms)

    def _operation_broke(self, operation: Operation, error: Exception, now_ms: int) -> None:
        """Ends what the operation was for: a request, a replica or a move; for a quorum's log, the node."""
        what = f"{type(operation).__name__} of {operation.order}"
        self.scheduler.guarded("operation", what, operation.owner.operation_broke, operation, error, now_ms)
        self.scheduler.bug("operation", what, error)

    # Time

    def tick(self, now_ms: int) -> None:
        """Called at `next_deadline_ms`: fires timers, serves connections in line, does one step of long work."""
        scheduler = self.scheduler
        scheduler.now_ms = now_ms
        scheduler.tick(now_ms)
        scheduler.guarded("request", "the turns of connections", self.dispatcher.turns.serve)
        if scheduler.working:
            scheduler.guarded("work", "long work", scheduler.step)
        self._event_ended(now_ms)
