"""Brokers that may have died: this node's replication connection to them broke and has not been made again.

A client whose broker dies asks at once for the new leader. The metadata does not know it yet, and librdkafka, told the
old leader, asks again only after one or two seconds. So for the time that the controller may need to decide, partitions
led by such a broker are answered as having no leader, which makes clients ask again within 100 ms. If the broker is
alive, it is connected again long before.
"""

from __future__ import annotations

from penstock.metadata.limits import LOST_CONNECTION_GRACE_MS
from penstock.node.followers import REPLICATION_CHANNEL
from penstock.node.outgoing import Outgoing, Peer

NOBODY: frozenset[int] = frozenset()


class Suspects:
    """See the module's head."""

    def __init__(self, outgoing: Outgoing) -> None:
        self._outgoing = outgoing
        outgoing.on_link_lost.append(self.link_lost)
        self._lost: dict[int, tuple[Peer, str, int]] = {}

    def link_lost(self, peer: Peer, channel: str, reason: str, now_ms: int) -> None:
        """A connection broke: that of a fetcher of replicas counts."""
        if channel.startswith(REPLICATION_CHANNEL):
            self._lost[peer.node_id] = (peer, channel, now_ms)

    def brokers(self, now_ms: int) -> frozenset[int]:
        """The ids of the brokers that are suspected now."""
        if not self._lost:
            return NOBODY
        for broker_id, (peer, channel, since_ms) in list(self._lost.items()):
            if now_ms - since_ms > LOST_CONNECTION_GRACE_MS or self._outgoing.connected(peer, channel):
                del self._lost[broker_id]
        return frozenset(self._lost)
