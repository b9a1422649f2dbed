"""Clusters as Guardian sees them, made by hand: who lives, where replicas lie, and what a lookout makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import MappingProxyType
from typing import Any
from uuid import UUID

from penstock.guardian.core.alarms.alarm import ACTING, NO_ALARMS, Alarm, Alarms
from penstock.guardian.core.alarms.census import census_of
from penstock.guardian.core.alarms.finding import KINDS
from penstock.guardian.core.alarms.lifecycle import Times
from penstock.guardian.core.alarms.lookout import Look, Lookout
from penstock.guardian.core.sight import (
    DISKS,
    METADATA,
    ClusterSight,
    Contact,
    SeenBroker,
    SeenDisk,
    SeenPartition,
    SeenReplica,
    SeenTopic,
    of_broker,
)
from penstock.guardian.core.state import Cluster

EVERY_MS = 10_000
START_MS = 1_800_000_000_000
TIMES = Times(confirm_ms=30_000, delay_ms=60_000, calm_ms=600_000)
HORIZON_MS = 24 * 3_600_000
CLUSTER = Cluster(UUID(int=7), "clicks", "kafka", ("b1:9092",))


def partition(index: int, *replicas: int, leader: int | None = None, topic: str = "t", **more: Any) -> SeenPartition:
    """A partition, all of whose replicas are in sync unless `in_sync` says otherwise."""
    more = {"in_sync": replicas, **more}
    return SeenPartition(topic, index, replicas[0] if leader is None else leader, 1, replicas, **more)


def sight_of(brokers: Iterable[int], *partitions: SeenPartition, wall_ms: int = START_MS, **racks: str) -> ClusterSight:
    """A cluster of these living brokers, seen at a time; `b3="north"` gives one a rack."""
    seen = ClusterSight(controller=-1)
    topics: dict[str, list[SeenPartition]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each)
    seen.topics = {name: SeenTopic(name, UUID(int=1), tuple(each)) for name, each in topics.items()}
    live(seen, brokers, **racks)
    seen.seen_ms[METADATA] = wall_ms
    return seen


def live(seen: ClusterSight, brokers: Iterable[int], **racks: str) -> None:
    """From now on these live."""
    seen.brokers = {each: SeenBroker(each, f"b{each}", 9092, racks.get(f"b{each}")) for each in brokers}
    seen.departed.update(seen.brokers)


def hold(seen: ClusterSight, broker: int, path: str = "/d", *, size_bytes: int = 100, **disk: Any) -> None:
    """A broker tells of its one disk, on which all its replicas lie."""
    replicas = {
        (topic.name, each.index, broker): SeenReplica(path, size_bytes)
        for topic in seen.topics.values()
        for each in topic.partitions
        if broker in each.replicas
    }
    seen.disks[broker, path] = SeenDisk(broker, path, **disk)
    if not disk.get("error"):
        seen.on_broker[broker] = replicas
        seen.replicas.update(replicas)
    seen.seen_ms[of_broker(DISKS, broker)] = seen.seen_ms[METADATA]


class Looker:
    """Looks at one cluster every ten seconds, and does what its leader would: alarms are as they were written.

    Attributes: `acts`, the alarms whose intent was written, in order; `said`: the states of all that was written.
    """

    def __init__(self, mode: str = "act", times: Times = TIMES, can_heal: Iterable[str] = KINDS) -> None:
        self.cluster = Cluster(CLUSTER.id, "clicks", "kafka", ("b1:9092",), modes=MappingProxyType({"heal": mode}))
        self.times = times
        self.can_heal = frozenset(can_heal)
        self.alarms: Alarms = NO_ALARMS
        self.wall_ms = START_MS
        self.acts: list[Alarm] = []
        self.said: list[str] = []
        self.ids = 0
        self.lookout = self.new_lookout()

    def new_lookout(self) -> Lookout:
        """That of a new leader: it remembers nothing."""
        return Lookout(self.cluster, self.times, HORIZON_MS, self.can_heal)

    def mode(self, mode: str) -> None:
        self.cluster = Cluster(CLUSTER.id, "clicks", "kafka", ("b1:9092",), modes=MappingProxyType({"heal": mode}))
        self.lookout.cluster = self.cluster

    def new_id(self) -> UUID:
        self.ids += 1
        return UUID(int=self.ids)

    def look(self, seen: ClusterSight) -> Look:
        result = self.lookout.look(seen, census_of(seen), self.alarms, self.wall_ms, self.new_id)
        for each in result.changed:
            self.alarms = self.alarms.with_alarm(each)
            self.said.append(each.state)
            if each.state == ACTING:
                self.acts.append(each)
        return result

    def run(
        self,
        seen: ClusterSight,
        span_ms: int,
        *,
        fresh: bool = True,
        contact: bool | None = False,
        each: Callable[[ClusterSight], None] = lambda seen: None,
    ) -> None:
        """Looks every ten seconds for a while. `fresh`: it is seen anew each time. `contact`: whether missing brokers
        answer Guardian; None: nobody has called them.
        """
        for _ in range(span_ms // EVERY_MS):
            self.wall_ms += EVERY_MS
            if fresh:
                for part in seen.seen_ms:
                    seen.seen_ms[part] = self.wall_ms
            each(seen)
            seen.contacts.clear()
            missing = census_of(seen).missing
            if contact is not None and fresh:
                seen.contacts.update(
                    {broker: Contact(self.wall_ms, contact, f"broker {broker} was called") for broker in missing}
                )
            self.look(seen)

    def only(self) -> Alarm:
        """The one alarm that there is."""
        (found,) = self.alarms.by_id.values()
        return found
