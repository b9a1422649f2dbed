"""`/v1/brokers?cluster=NAME`: the brokers of a cluster as the leader sees them, and what is in the cluster in all."""

from __future__ import annotations

from collections import Counter
from typing import Any

from penstock.guardian.core.calls import NOT_FOUND, OK, Call, Known, Refused, Reply, Resource
from penstock.guardian.core.resources.seen import Asked
from penstock.guardian.core.sight import DISKS, ClusterSight, of_broker


class Brokers(Resource):
    """See the module's head."""

    path = "/v1/brokers"
    live = True

    def read(self, known: Known, call: Call, name: str) -> Reply:
        if name:
            raise Refused(NOT_FOUND, f"{self.path} has no parts")
        asked = Asked(known, call)
        counts = Counts(asked.seen)
        rows = [broker_row(asked, counts, broker) for broker in counts.brokers]
        return Reply(OK, {**asked.head(), "summary": counts.summary(), "brokers": rows})


class Counts:
    """What there is in a cluster, counted. Attributes: `brokers`, ids of all that are alive or have replicas."""

    def __init__(self, seen: ClusterSight) -> None:
        self.replicas: Counter[int] = Counter()
        self.leaders: Counter[int] = Counter()
        self._seen = seen
        self._partitions = self._behind = self._without_leader = self._below_minimum = 0
        for topic in seen.topics.values():
            for each in topic.partitions:
                self.replicas.update(each.replicas)
                self.leaders[each.leader] += 1
                self._partitions += 1
                self._behind += len(each.in_sync) < len(each.replicas)
                self._without_leader += each.leader < 0
                self._below_minimum += len(each.in_sync) < (topic.min_insync_replicas or 0)
        self.brokers = sorted({*seen.brokers, *self.replicas})

    def summary(self) -> dict[str, int]:
        """The figures of the whole cluster."""
        seen = self._seen
        return {
            "brokers": len(seen.brokers),
            "brokers_gone": len(self.brokers) - len(seen.brokers),
            "disks": len(seen.disks),
            "disks_failed": sum(1 for each in seen.disks.values() if each.error),
            "topics": len(seen.topics),
            "partitions": self._partitions,
            "replicas": self.replicas.total(),
            "under_replicated": self._behind,
            "below_min_insync": self._below_minimum,
            "without_leader": self._without_leader,
            "bytes": sum(each.size_bytes for each in seen.replicas.values()),
        }


def broker_row(asked: Asked, counts: Counts, broker: int) -> dict[str, Any]:
    """A broker as answers have it; one that only replicas name is not alive."""
    seen = asked.seen
    found = seen.brokers.get(broker)
    return {
        "id": broker,
        "host": found.host if found is not None else None,
        "port": found.port if found is not None else None,
        "rack": found.rack if found is not None else None,
        "alive": found is not None,
        "controller": broker == seen.controller,
        "replicas": counts.replicas[broker],
        "leaders": counts.leaders[broker],
        "bytes": sum(each.size_bytes for each in seen.on_broker.get(broker, {}).values()),
        "disks_age_ms": asked.age_ms(of_broker(DISKS, broker)),
    }
