"""Checks whether the process of a broker is still there: it has ended when nothing listens at its address.

A lost connection proves nothing. A process that is dying closes its connections one by one, and may accept another one
meanwhile, which then breaks too; so the check is repeated a few times if it gets no answer.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message
from penstock.protocol.messages.api_versions_request import ApiVersionsRequest

CHANNEL = "liveness"
TRIES_MAX = 4
RETRY_MS = 20


class Liveness:
    """Checks brokers by connecting. `gone(broker_id, broker_epoch, now_ms)` is called for a process that has ended."""

    def __init__(
        self,
        outgoing: Outgoing,
        timers: TimerWheel,
        peer_of: Callable[[int], Peer | None],
        gone: Callable[[int, int, int], None],
    ) -> None:
        self._outgoing = outgoing
        self._timers = timers
        self._peer_of = peer_of
        self._gone = gone

    def check(self, broker_id: int, broker_epoch: int, now_ms: int, *, tries: int = TRIES_MAX) -> None:
        """Checks that a broker answers, or reports it as gone. Does nothing for a broker without a known address."""
        peer = self._peer_of(broker_id)
        if peer is None:
            return

        def again(later_ms: int) -> None:
            self.check(broker_id, broker_epoch, later_ms, tries=tries - 1)

        def answered(answer: Message | None, reason: str | None, at_ms: int) -> None:
            self._outgoing.hang_up(peer, CHANNEL, "the check whether the broker still listens is over", at_ms)
            if answer is None and self._outgoing.is_gone(peer, reason):
                self._gone(broker_id, broker_epoch, at_ms)
            elif answer is None and tries > 1:
                self._timers.at(at_ms + RETRY_MS, again)

        self._outgoing.call(
            peer,
            ApiVersionsRequest(),
            version=0,
            timeout_ms=LOST_CONNECTION_GRACE_MS,
            done=answered,
            now_ms=now_ms,
            channel=CHANNEL,
        )
