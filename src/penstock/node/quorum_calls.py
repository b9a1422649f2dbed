"""Calls of a quorum to its other nodes, and how it learns that its leader is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from penstock.node.outgoing import NotServed, Outgoing, Peer
from penstock.protocol.message import Message
from penstock.protocol.messages.fetch_request import FetchRequest
from penstock.raft.effects import Target
from penstock.raft.messages import unsupported

RAFT_CHANNEL, FETCH_CHANNEL = "raft", "raft fetch"
"""Channels of the quorum: a vote must not wait behind a fetch that waits for records."""


class Caller(Protocol):
    """The quorum that calls."""

    @property
    def leader_id(self) -> int | None: ...

    def leader_link_lost(self, now_ms: int) -> None:
        """The connection over which the log is fetched from the leader broke."""

    def leader_gone(self, now_ms: int) -> None:
        """Nothing listens at the leader's address: its process has ended."""


class QuorumCalls:
    """See the module's head."""

    def __init__(self, outgoing: Outgoing, quorum: Callable[[], Caller]) -> None:
        self._outgoing = outgoing
        self._quorum = quorum
        outgoing.on_link_lost.append(self._link_lost)

    def call(
        self,
        target: Target,
        request: Message,
        timeout_ms: int,
        done: Callable[[Message | None, int], None],
        now_ms: int,
    ) -> None:
        """Sends a request to another node of the quorum; calls `done` later with the answer, or None."""
        channel = FETCH_CHANNEL if isinstance(request, FetchRequest) else RAFT_CHANNEL
        peer = Peer(target.node_id, target.host, target.port, target.listener)

        def ended(answer: Message | None, reason: str | None, at_ms: int) -> None:
            if isinstance(reason, NotServed):
                answer = unsupported(request)
            done(answer, at_ms)
            if self._is_leaders(peer, channel) and self._outgoing.is_gone(peer, reason):
                self._quorum().leader_gone(at_ms)

        self._outgoing.call(peer, request, timeout_ms=timeout_ms, done=ended, now_ms=now_ms, channel=channel)

    def _link_lost(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        if self._is_leaders(peer, channel):
            self._quorum().leader_link_lost(now_ms)

    def _is_leaders(self, peer: Peer, channel: str) -> bool:
        return channel == FETCH_CHANNEL and peer.node_id == self._quorum().leader_id
