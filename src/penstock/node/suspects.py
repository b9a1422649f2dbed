"""Brokers that may have died: this node's connection for replication to them broke, and there is no new one yet.

A client whose broker dies asks at once who leads now. The metadata does not know yet, and told of the old leader the
client believes it: librdkafka looks again after one or two seconds. So for as long as the controller may take to
decide, partitions that such a broker leads are answered as being without a leader, which clients ask again about within
100 ms. If the broker lives, it is connected again long before.
"""

from __future__ import annotations

from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.node.outgoing import Outgoing, Peer

NOBODY: frozenset[int] = frozenset()


class Suspects:
    """See the module's head."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        self._lost: dict[int, tuple[Peer, str, int]] = {}

    def link_lost(self, peer: Peer, channel: str, now_ms: int) -> None:
        """A connection over which replicas are fetched broke."""
        self._lost[peer.node_id] = (peer, channel, now_ms)

    def brokers(self, now_ms: int) -> frozenset[int]:
        """The brokers that are suspected now."""
        if not self._lost:
            return NOBODY
        for broker_id, (peer, channel, since_ms) in list(self._lost.items()):
            if now_ms - since_ms > LOST_CONNECTION_GRACE_MS or self._outgoing.connected(peer, channel):
                del self._lost[broker_id]
        return frozenset(self._lost)
