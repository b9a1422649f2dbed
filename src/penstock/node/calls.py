"""Calls to other nodes and to this node itself, and the suspicion that a broker has died or stands still."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.metadata.image import MetadataImage
from penstock.node.frozen import FrozenBrokers
from penstock.node.liveness import Liveness
from penstock.node.loopback import Loopback
from penstock.node.outgoing import Outgoing
from penstock.node.own_calls import OwnCalls
from penstock.node.peer_logins import PeerLogins
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.suspects import Suspects
from penstock.node.verification import Verifier
from penstock.security.mechanisms import Mechanisms

if TYPE_CHECKING:
    from penstock.node.controller import ControllerNode

OWN_CALL_ROUNDS_MAX = 16
"""Steps of calls to ourselves within one turn of the loop; a call and its answer are two."""


class Calls:
    """See the module's head. `process_gone(broker_id, broker_epoch, now_ms)` for brokers whose process has ended.

    Attributes:
        outgoing: calls over connections. loopback: the connections of this node to itself.
        suspects: brokers that may have died. liveness: checks whether a broker's process is still there.
        frozen: finds brokers whose process stands still. verifier: asks the coordinators of transactions. own: calls
        that this node may answer itself, without frames.
    """

    __slots__ = ("_scheduler", "_state", "frozen", "liveness", "loopback", "outgoing", "own", "suspects", "verifier")

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        loopback: Loopback,
        *,
        mechanisms: Mechanisms,
        process_gone: Callable[[int, int, int], None],
        controller: Callable[[], ControllerNode],
    ) -> None:
        settings = state.settings
        self._scheduler = scheduler
        self._state = state
        self.loopback = loopback
        self.outgoing = Outgoing(
            state.node_id,
            timers=scheduler.timers,
            random=scheduler.random,
            report=scheduler.bugs.of("call"),
            emit=scheduler.emit,
            emit_own=loopback.carry_out,
            idle_ms=settings.connections_max_idle_ms,
            setup_timeout_ms=settings.socket_connection_setup_timeout_ms,
            setup_timeout_max_ms=settings.socket_connection_setup_timeout_max_ms,
            logins=PeerLogins(mechanisms, scheduler.emit, state.metadata_directory.index),
        )
        self.suspects = Suspects(self.outgoing)
        self.own = OwnCalls(state, self.outgoing, loopback, scheduler.bugs.of("call"))
        self.verifier = Verifier(state, scheduler, self.own)
        self.liveness = Liveness(self.outgoing, scheduler.timers, state.peer, process_gone)
        self.frozen = FrozenBrokers(
            state.node_id,
            self.outgoing,
            scheduler.timers,
            state.peer,
            session_timeout_ms=settings.broker_session_timeout_ms,
            controller=controller,
        )

    def published(self, old: MetadataImage, new: MetadataImage, now_ms: int) -> None:
        """Gives up the connections to earlier processes of brokers that have started anew.

        A machine that has lost power never closes them, and what was asked over them would be waited for in vain, a
        fetch of a follower for replica.socket.timeout.ms.
        """
        if new.brokers is old.brokers:
            return
        listener = self._state.settings.inter_broker_listener
        for broker in new.brokers.values():
            before = old.brokers.get(broker.id)
            anew = before is None or before.incarnation_id != broker.incarnation_id
            if anew and broker.id != self._state.node_id:
                self.outgoing.hang_up_all(broker.id, listener, "the broker has started anew", now_ms)

    def proceed(self, now_ms: int) -> None:
        """Reports calls that failed at once, and executes calls of this node to itself."""
        guarded = self._scheduler.guarded
        for _ in range(OWN_CALL_ROUNDS_MAX):
            if not (self.outgoing.unreported or self.loopback.events):
                break
            guarded("call", "calls that failed", self.outgoing.proceed, now_ms)
            guarded("call", "calls to this node itself", self.loopback.proceed, now_ms)
