"""Where the replicas of what is dead are to go: a small placement that needs no history of loads.

Each replica of a dead broker, or of a dead log directory, gets a place on the living broker that has the least after
all the moves so far: by bytes where the sizes are known, by replicas otherwise. No broker gets a second replica of a
partition, and a partition has afterwards as many racks as before, or as many as still live. A copy needs a source, so a
partition without a living replica in sync is left alone; nor does a broker count that says it has no room.
The replicas in sync stay where they are, so that no ISR shrinks by this.

What comes out is a plan as `guardian.plan.document` describes it, which `kafka-reassign-partitions` reads. A partition
that is being reassigned already is left to whoever does that.
"""

from __future__ import annotations

import json
from bisect import insort
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import Any

from penstock.guardian.core.alarms.census import PartitionKey
from penstock.guardian.core.alarms.dead_disks import lying_in
from penstock.guardian.core.alarms.finding import Subject
from penstock.guardian.core.limits import GUARDIAN_EVACUATED_MAX
from penstock.guardian.core.sight import CANARY_TOPIC, ClusterSight, SeenPartition
from penstock.guardian.core.state import Cluster, GuardianState

VERSION = 1
"""Of Kafka's file."""
ANY = "any"

Load = tuple[int, int, int]
"""Bytes, replicas, and the broker's id."""


@dataclass(slots=True)
class Broker:
    """A living broker as a target. `room`: usable bytes on the disk of it that has most, None where it is not told."""

    id: int
    rack: str | None
    size_bytes: int = 0
    replicas: int = 0
    room: int | None = None


@dataclass(slots=True)
class Evacuation:
    """The plan as it grows. Attributes: `order`: all brokers, the one with the least first."""

    brokers: dict[int, Broker]
    racks: frozenset[str | None]
    by_size: bool
    partitions: list[dict[str, Any]] = field(default_factory=list)
    moves: list[dict[str, Any]] = field(default_factory=list)
    violations: list[dict[str, Any]] = field(default_factory=list)
    order: list[Load] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.order = sorted(map(self._load, self.brokers.values()))

    def add(self, seen: ClusterSight, subject: Subject, partition: SeenPartition) -> None:
        """Finds another place for the replica of one partition."""
        name = f"{partition.topic}-{partition.index}"
        if partition.adding or partition.removing:
            self.leave("in flight", f"{name} is being reassigned already")
            return
        if not any(each in self.brokers for each in partition.in_sync if each != subject.broker):
            self.leave("source", f"{name} has no other living replica in sync: nothing can be copied")
            return
        size_bytes = size_of(seen, partition)
        target = self._target(seen, subject, partition, size_bytes)
        if target is None:
            why = "each has one, is full, or its rack has one"
            self.leave("racks", f"{name}: no living broker may get a replica: {why}")
            return
        replicas = [target.id if each == subject.broker else each for each in partition.replicas]
        target.size_bytes += size_bytes
        target.replicas += 1
        if target.room is not None:
            target.room -= size_bytes
        insort(self.order, self._load(target))
        self.partitions.append({
            "topic": partition.topic, "partition": partition.index, "replicas": replicas,
            "log_dirs": [ANY] * len(replicas),
        })  # fmt: skip
        self.moves.append({
            "id": len(self.moves) + 1, "topic": partition.topic, "partition": partition.index, "kind": "replica",
            "from": {"broker": subject.broker, "dir": subject.path or ANY},
            "to": {"broker": target.id, "dir": ANY},
            "bytes": size_bytes,
            "why": f"{subject} is dead; broker {target.id} has the least of those that may have it",
        })  # fmt: skip

    def leave(self, rule: str, text: str) -> None:
        """One more replica stays where it is."""
        self.violations.append({"rule": rule, "text": text, "conflict": [rule]})

    def _target(self, seen: ClusterSight, subject: Subject, partition: SeenPartition, size_bytes: int) -> Broker | None:
        """The broker that is to get a replica, taken out of the order; None if nobody may."""
        stay = [each for each in partition.replicas if each != subject.broker]
        racks = {rack_of(seen, each) for each in stay}
        before = racks | {rack_of(seen, subject.broker)} if knows(seen, subject.broker) else None
        count = len(partition.replicas) if before is None else len(before)
        needed = min(count, len(self.racks))
        for at, (_, _, broker) in enumerate(self.order):
            each = self.brokers[broker]
            if each.id in partition.replicas or (each.room is not None and each.room <= size_bytes):
                continue
            if len(racks | {each.rack}) >= needed:
                del self.order[at]
                return each
        return None

    def _load(self, broker: Broker) -> Load:
        return broker.size_bytes if self.by_size else 0, broker.replicas, broker.id


def evacuation(seen: ClusterSight, subject: Subject, moving: Collection[PartitionKey] = frozenset()) -> dict[str, Any]:
    """The plan that takes everything off a dead broker or log directory. `moving`: partitions that other plans move.

    Its `violations` are the replicas that are left where they are, each with the reason.
    """
    brokers = targets(seen, subject)
    racks: frozenset[str | None] = frozenset(each.rack for each in brokers.values())
    found = Evacuation(brokers, racks, by_size=any(each.size_bytes for each in brokers.values()))
    before = {each.id: each.replicas for each in brokers.values()}
    affected = sorted(affected_by(seen, subject), key=lambda each: (-size_of(seen, each), each.topic, each.index))
    for partition in affected[:GUARDIAN_EVACUATED_MAX]:
        if (partition.topic, partition.index) in moving:
            found.leave("in flight", f"{partition.topic}-{partition.index} is in another plan that has not ended")
        else:
            found.add(seen, subject, partition)
    if len(affected) > GUARDIAN_EVACUATED_MAX:
        more = len(affected) - GUARDIAN_EVACUATED_MAX
        found.violations.append({"rule": "size", "text": f"{more} more replicas: plan again after", "conflict": []})
    estimates = [] if found.by_size else ["sizes of replicas are not known: brokers are compared by their number"]
    after = {each.id: each.replicas for each in brokers.values()}
    plan = {
        "version": VERSION,
        "partitions": found.partitions,
        "leaders": [],
        "moves": found.moves,
        "before": {"brokers": [{"broker": each, "replicas": count} for each, count in before.items()]},
        "after": {"brokers": [{"broker": each, "replicas": count} for each, count in after.items()]},
        "violations": found.violations,
        "estimates": estimates,
        "seed": 0,
    }
    return {**plan, "digest": "sha256:" + sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()}


def moving(state: GuardianState, cluster: Cluster) -> frozenset[PartitionKey]:
    """Partitions of a cluster that plans are about to move."""
    plans = state.work.worked_plans(cluster.id)
    return frozenset(move.key for plan in plans for move in plan.moves if not move.ended)


def targets(seen: ClusterSight, subject: Subject) -> dict[int, Broker]:
    """The living brokers but the one that is, or has, what is dead, with what is on each."""
    found = {
        each.id: Broker(each.id, each.rack) for _, each in sorted(seen.brokers.items()) if each.id != subject.broker
    }
    counts: Counter[int] = Counter()
    for topic in seen.topics.values():
        counts.update(chain.from_iterable(each.replicas for each in topic.partitions))
    for each in found.values():
        each.replicas = counts[each.id]
    for broker, held in seen.on_broker.items():
        if broker in found:
            found[broker].size_bytes = sum(each.size_bytes for each in held.values())
    for (broker, _), disk in seen.disks.items():
        if broker in found and not disk.error and disk.usable_bytes >= 0:
            found[broker].room = max(found[broker].room or 0, disk.usable_bytes)
    return found


def affected_by(seen: ClusterSight, subject: Subject) -> Iterator[SeenPartition]:
    """The partitions with a replica on what is dead.

    A broker does not tell what lay in a directory that it cannot use. So a replica of it that is out of sync, and lies
    in no other directory as far as it has told, counts as lying there.
    """
    here = dict.fromkeys(lying_in_subject(seen, subject))
    held = seen.on_broker.get(subject.broker, {})
    for topic in [each for each in seen.topics.values() if each.name != CANARY_TOPIC]:
        for each in topic.partitions:
            if subject.broker not in each.replicas:
                continue
            told = (each.topic, each.index, subject.broker) in held
            lost = subject.broker not in each.in_sync and ((each.topic, each.index) in here or not told)
            if not subject.path or lost:
                yield each


def lying_in_subject(seen: ClusterSight, subject: Subject) -> list[tuple[str, int]]:
    disk = seen.disks.get((subject.broker, subject.path))
    return lying_in(seen, disk) if disk is not None else []


def size_of(seen: ClusterSight, partition: SeenPartition) -> int:
    """The size of a partition in bytes, by its largest replica; 0 where nobody has told."""
    sizes = (seen.replicas.get((partition.topic, partition.index, each)) for each in partition.replicas)
    return max((each.size_bytes for each in sizes if each is not None), default=0)


def knows(seen: ClusterSight, broker: int) -> bool:
    """Whether the rack of a broker is known, or that it has none."""
    return broker in seen.brokers or broker in seen.departed


def rack_of(seen: ClusterSight, broker: int) -> str | None:
    found = seen.brokers.get(broker) or seen.departed.get(broker)
    return found.rack if found is not None else None
