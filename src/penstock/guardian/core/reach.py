"""Calls to the brokers of a registered cluster.

A broker is named by its id, once the cluster's metadata has told where it is; or it is ANY (one of those that are
known, or of the bootstrap servers, in turn) or the CONTROLLER (the broker to which changes of the cluster are sent; any
where that is not known: brokers hand such requests on). Every call ends once, with an answer or with the reason for
having none, and never before `ask` returns.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.config.listeners import split_address
from penstock.guardian.core.sight import ClusterSight, Sight
from penstock.guardian.core.state import Cluster
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message

ANY, CONTROLLER = -1, -2
LISTENER = "CLUSTER"
"""The name of other clusters' listeners, as in `listener.name.cluster.sasl.jaas.config`."""
TIMEOUT_MS = 10_000

Ended = Callable[[Message | None, str | None, int], None]
"""`ended(answer, None, now_ms)`, or `ended(None, reason, now_ms)`."""


class Reach:
    """See the module's head. `sight` tells where brokers are."""

    def __init__(self, outgoing: Outgoing, timers: TimerWheel, sight: Sight) -> None:
        self._outgoing = outgoing
        self._timers = timers
        self._sight = sight
        self._turn = 0

    def ask(
        self,
        cluster: Cluster,
        broker: int,
        message: Message,
        ended: Ended,
        now_ms: int,
        *,
        timeout_ms: int = TIMEOUT_MS,
        channel: str = "",
    ) -> None:
        """Sends a request to a broker, see the module's head; `channel`: requests of one are answered in order."""
        peer = self._peer(cluster, broker)
        if peer is None:
            reason = f"broker {broker} of {cluster.name} is not known"
            self._timers.at(now_ms, lambda at_ms: ended(None, reason, at_ms))
            return
        self._outgoing.call(
            peer,
            message,
            timeout_ms=timeout_ms,
            done=ended,
            now_ms=now_ms,
            channel=f"{cluster.id} {channel}",
        )

    def knows(self, cluster: Cluster, broker: int) -> bool:
        """Whether it is known where a broker is."""
        seen = self._sight.clusters.get(cluster.id)
        return seen is not None and broker in seen.brokers

    def _peer(self, cluster: Cluster, broker: int) -> Peer | None:
        seen = self._sight.clusters.get(cluster.id) or ClusterSight()
        if broker == CONTROLLER and seen.controller in seen.brokers:
            broker = seen.controller
        found = seen.brokers.get(broker) or seen.departed.get(broker)
        if found is not None:
            return Peer(-1, found.host, found.port, LISTENER)
        if broker >= 0:
            return None
        self._turn += 1
        addresses = [split_address(each, "bootstrap", "10.0.0.7:9092") for each in cluster.bootstrap]
        addresses += [(each.host, each.port) for each in seen.brokers.values()]
        host, port = addresses[self._turn % len(addresses)]
        return Peer(-1, host, port, LISTENER)
