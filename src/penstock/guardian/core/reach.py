"""Calls to the brokers of a registered cluster.

A broker is named by its id, once the cluster's metadata has told where it is; or it is ANY (one of those that are
known, or of the bootstrap servers, in turn, but for those that are known to be gone) or the CONTROLLER (the broker to
which changes of the cluster are sent; any where that is not known: brokers hand such requests on). Every call ends
once, with an answer or with the reason for having none, and never before `ask` returns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.config.guardian_credentials import CREDENTIALS, Credentials
from penstock.config.listeners import split_address
from penstock.guardian.core.sight import ClusterSight, Sight
from penstock.guardian.core.state import Cluster
from penstock.node.outgoing import Outgoing, Peer
from penstock.node.timers import TimerWheel
from penstock.protocol.message import Message

ANY, CONTROLLER = -1, -2
LISTENER = "CLUSTER"
"""The listener of clusters that are registered without credentials: neither TLS nor a login."""
TIMEOUT_MS = 10_000

Ended = Callable[[Message | None, str | None, int], None]
"""`ended(answer, None, now_ms)`, or `ended(None, reason, now_ms)`."""


class Reach:
    """See the module's head. `sight` tells where brokers are; `credentials`, how this node logs in, by name."""

    def __init__(
        self, outgoing: Outgoing, timers: TimerWheel, sight: Sight, credentials: Mapping[str, Credentials]
    ) -> None:
        self._credentials = credentials
        self._outgoing = outgoing
        self._timers = timers
        self._sight = sight

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
        listener = self._listener(cluster)
        peer = None if listener is None else self._peer(cluster, broker, listener)
        if peer is None:
            reason = f"broker {broker} of {cluster.name} is not known"
            if listener is None:
                name = cluster.credentials
                reason = f"this node has no credentials {name}: its file needs {CREDENTIALS}{name}.security.protocol"
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

    def kafka_id(self, cluster: Cluster) -> str:
        """Kafka's id of a cluster to which something may be done. "": it was not seen yet, is registered twice, or is
        another one than it was.
        """
        seen = self._sight.clusters.get(cluster.id)
        return "" if seen is None or seen.twice else seen.kafka_id

    def _listener(self, cluster: Cluster) -> str | None:
        """The listener under which the brokers of a cluster are dialled; None for credentials that are not here."""
        if cluster.credentials is None:
            return LISTENER
        found = self._credentials.get(cluster.credentials)
        return None if found is None else found.listener

    def _peer(self, cluster: Cluster, broker: int, listener: str) -> Peer | None:
        seen = self._sight.clusters.get(cluster.id) or ClusterSight()
        if broker == CONTROLLER and seen.controller in seen.brokers:
            broker = seen.controller
        found = seen.brokers.get(broker) or seen.departed.get(broker)
        if found is not None:
            return Peer(-1, found.host, found.port, listener)
        if broker >= 0:
            return None
        seen.turn += 1
        gone = {(each.host, each.port) for each in seen.departed.values() if each.id not in seen.brokers}
        bootstrap = [split_address(each, "bootstrap", "10.0.0.7:9092") for each in cluster.bootstrap]
        addresses = [each for each in bootstrap if each not in gone] or bootstrap
        addresses += [(each.host, each.port) for each in seen.brokers.values()]
        host, port = addresses[seen.turn % len(addresses)]
        return Peer(-1, host, port, listener)
