"""Calls to the brokers of a registered cluster.

A broker is named by its id, once the cluster's metadata has told where it is; or it is ANY (one of those that are
known, or of the bootstrap servers, in turn) or the CONTROLLER (the broker to which changes of the cluster are sent; any
where that is not known: brokers hand such requests on). ANY passes over brokers that are known to be gone, and
addresses that have just not answered: by turns alone, who asks in step with others would meet a dead one every time.
Every call ends once, with an answer or with the reason for having none, and never before `ask` returns.
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
SILENT_MS = 30_000
"""How long an address that has not answered is passed over, when any will do and there are others."""

Address = tuple[str, int]
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
        peer = None if listener is None else self._peer(cluster, broker, listener, now_ms)
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
            done=ended if broker >= 0 else self._noted(cluster, peer, ended),
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

    def _peer(self, cluster: Cluster, broker: int, listener: str, now_ms: int) -> Peer | None:
        seen = self._sight.clusters.get(cluster.id) or ClusterSight()
        if broker == CONTROLLER and seen.controller in seen.brokers:
            broker = seen.controller
        found = seen.brokers.get(broker) or seen.departed.get(broker)
        if found is not None:
            return Peer(-1, found.host, found.port, listener)
        if broker >= 0:
            return None
        host, port = self._next_address(cluster, seen, now_ms)
        return Peer(-1, host, port, listener)

    def _next_address(self, cluster: Cluster, seen: ClusterSight, now_ms: int) -> Address:
        """The one whose turn it is of those that may answer."""
        seen.turn += 1
        gone = {(each.host, each.port) for each in seen.departed.values() if each.id not in seen.brokers}
        bootstrap = [split_address(each, "bootstrap", "10.0.0.7:9092") for each in cluster.bootstrap]
        addresses = [each for each in bootstrap if each not in gone] or bootstrap
        addresses += [(each.host, each.port) for each in seen.brokers.values()]
        heard = [each for each in addresses if seen.silent.get(each, now_ms) <= now_ms]
        addresses = heard or addresses
        return addresses[seen.turn % len(addresses)]

    def _noted(self, cluster: Cluster, peer: Peer, ended: Ended) -> Ended:
        """`ended`, which also has it noted whether an address that any stood for has answered."""
        address = peer.host, peer.port

        def noted(answer: Message | None, reason: str | None, now_ms: int) -> None:
            seen = self._sight.clusters.get(cluster.id)
            if seen is not None and answer is not None:
                seen.silent.pop(address, None)
            elif seen is not None:
                silent = {each: until_ms for each, until_ms in seen.silent.items() if until_ms > now_ms}
                seen.silent = {**silent, address: now_ms + SILENT_MS}
            ended(answer, reason, now_ms)

        return noted
