"""Calls to other nodes and to this one itself, and what is known of those at the other end."""

from __future__ import annotations

from collections.abc import Callable

from penstock.node.liveness import Liveness
from penstock.node.loopback import Loopback
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.scheduler import Scheduler
from penstock.node.state import NodeState
from penstock.node.suspects import Suspects

OWN_CALL_ROUNDS_MAX = 16
"""Steps of calls to ourselves within one turn of the loop; a call and its answer are two."""


class Calls:
    """See the module's head. `link_lost(peer, channel, reason, now_ms)` is told of broken connections,
    `process_gone(broker_id, broker_epoch, now_ms)` of brokers whose process is no more.

    Attributes:
        outgoing: calls by connections. loopback: the connections of this node to itself.
        suspects: brokers that may have died. liveness: asks whether they have.
    """

    __slots__ = ("_scheduler", "liveness", "loopback", "outgoing", "suspects")

    def __init__(
        self,
        state: NodeState,
        scheduler: Scheduler,
        loopback: Loopback,
        *,
        link_lost: Callable[[Peer, str, str, int], None],
        process_gone: Callable[[int, int, int], None],
    ) -> None:
        settings = state.settings
        self._scheduler = scheduler
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
        )
        self.outgoing.on_link_lost.append(link_lost)
        self.suspects = Suspects(self.outgoing)
        self.liveness = Liveness(self.outgoing, scheduler.timers, state.peer, process_gone)

    def proceed(self, now_ms: int) -> None:
        """Tells of calls that failed at once, and executes those to this node."""
        guarded = self._scheduler.guarded
        for _ in range(OWN_CALL_ROUNDS_MAX):
            if not (self.outgoing.pending or self.loopback.pending):
                break
            guarded("call", "calls that failed", self.outgoing.proceed, now_ms)
            guarded("call", "calls to this node itself", self.loopback.proceed, now_ms)
