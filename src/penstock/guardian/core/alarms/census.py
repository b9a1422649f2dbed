"""The census: one walk over all partitions of a cluster counts what several detectors need. It is done in steps, so
that a cluster with a million partitions holds up nobody. The canaries' topic is Guardian's own and is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from penstock.guardian.core.limits import GUARDIAN_CENSUS_NAMED_MAX, GUARDIAN_CENSUS_PER_STEP
from penstock.guardian.core.sight import CANARY_TOPIC, METADATA, ClusterSight, SeenPartition

PartitionKey = tuple[str, int]


@dataclass(slots=True)
class Counted:
    """Partitions: how many, and the first of them by name."""

    count: int = 0
    named: list[PartitionKey] = field(default_factory=list)

    def add(self, topic: str, index: int) -> None:
        self.count += 1
        if len(self.named) < GUARDIAN_CENSUS_NAMED_MAX:
            self.named.append((topic, index))


@dataclass(slots=True)
class Census:
    """See the module's head.

    Attributes:
        stamp_ms: when the metadata was seen that it counts; None: nothing has been counted yet.
        brokers: those that lived. missing: replicas by broker that is assigned some and does not live. leaderless:
            partitions without a leader.
        behind: partitions by living broker whose replica is out of sync, without those that a reassignment is to fill.
        preferred: how many partitions by living broker prefer it as their leader. away: those of them that another
            broker leads although this one is in sync.
        moving: partitions that are being reassigned.
    """

    stamp_ms: int | None = None
    brokers: frozenset[int] = frozenset()
    missing: dict[int, Counted] = field(default_factory=dict)
    behind: dict[int, Counted] = field(default_factory=dict)
    preferred: dict[int, int] = field(default_factory=dict)
    away: dict[int, Counted] = field(default_factory=dict)
    leaderless: int = 0
    moving: int = 0

    def count(self, topic: str, partition: SeenPartition) -> None:
        """Counts one partition."""
        index, in_sync = partition.index, partition.in_sync
        self.leaderless += partition.leader < 0
        if partition.adding or partition.removing:
            self.moving += 1
        for broker in partition.replicas:
            if broker not in self.brokers:
                self.missing.setdefault(broker, Counted()).add(topic, index)
            elif broker not in in_sync and broker not in partition.adding:
                self.behind.setdefault(broker, Counted()).add(topic, index)
        first = partition.replicas[0] if partition.replicas else -1
        if first in self.brokers:
            self.preferred[first] = self.preferred.get(first, 0) + 1
            if first in in_sync and partition.leader not in (first, -1) and not partition.adding:
                self.away.setdefault(first, Counted()).add(topic, index)


def take_census(seen: ClusterSight, into: Census) -> Iterator[None]:
    """Counts everything, a step a `next`; `into` is complete at the end.

    Metadata that is seen anew meanwhile does not count: its stamp would be that of the next census.
    """
    into.brokers = frozenset(seen.brokers)
    stamp_ms = seen.seen_ms.get(METADATA)
    done = 0
    for topic in [each for each in seen.topics.values() if each.name != CANARY_TOPIC]:
        for partition in topic.partitions:
            into.count(topic.name, partition)
            done += 1
            if done % GUARDIAN_CENSUS_PER_STEP == 0:
                yield
    into.stamp_ms = stamp_ms


def census_of(seen: ClusterSight) -> Census:
    """The census, all at once."""
    found = Census()
    for _ in take_census(seen, found):
        pass
    return found
