"""Dead log directories: their broker says that it cannot use them, and their cluster has their replicas out of sync.

The broker's word (DescribeLogDirs) is one vantage point, the controller's metadata the other: as long as it counts a
replica in that directory as in sync, the broker is not believed. A directory of which nobody knows what lies in it is
only told of.
"""

from __future__ import annotations

from penstock.guardian.core.alarms.census import Census
from penstock.guardian.core.alarms.finding import (
    BLIND,
    DEAD_DISK,
    Detector,
    Finding,
    Subject,
    Verdicts,
    counted,
    fresh,
    metadata_ms,
)
from penstock.guardian.core.sight import DISKS, ClusterSight, SeenDisk, of_broker


class DeadDisks(Detector):
    """See the module's head."""

    kind = DEAD_DISK

    def look(self, seen: ClusterSight, census: Census, wall_ms: int) -> Verdicts:
        counted_ms = metadata_ms(seen, census, wall_ms)
        if counted_ms is None:
            return BLIND
        findings = {}
        for (broker, path), disk in sorted(seen.disks.items()):
            stamp_ms = disks_seen_ms(seen, broker, wall_ms)
            if disk.error and stamp_ms is not None and broker in census.brokers:
                said, agreed = controllers_view(seen, census, disk)
                told = f"broker {broker} says that it cannot use {path} (error {disk.error})"
                findings[Subject(broker, path)] = Finding(min(stamp_ms, counted_ms), (told, said), agreed)

        def well_ms(subject: Subject) -> int | None:
            if subject.broker in census.brokers:
                return disks_seen_ms(seen, subject.broker, wall_ms)
            return None if subject.broker in census.missing else counted_ms

        return Verdicts(findings, well_ms)


def disks_seen_ms(seen: ClusterSight, broker: int, wall_ms: int) -> int | None:
    """When a broker told of its disks; None: not lately, or not so that it could be believed."""
    part = of_broker(DISKS, broker)
    stamp_ms = seen.seen_ms.get(part)
    return stamp_ms if fresh(stamp_ms, wall_ms) and part not in seen.failures else None


def controllers_view(seen: ClusterSight, census: Census, disk: SeenDisk) -> tuple[str, bool]:
    """What the cluster's metadata says of the replicas that a dead directory must hold, and whether it agrees."""
    behind = census.behind.get(disk.broker)
    in_sync = sum(1 for topic, index in lying_in(seen, disk) if still_in_sync(seen, topic, index, disk.broker))
    if in_sync:
        return f"the cluster's metadata has {counted(in_sync, 'replica')} in that directory in sync", False
    if behind is None:
        return "the cluster's metadata has every replica of the broker in sync", True
    return f"the cluster's metadata has {counted(behind.count, 'replica')} of the broker out of sync", True


def lying_in(seen: ClusterSight, disk: SeenDisk) -> list[tuple[str, int]]:
    """The partitions with a replica in a directory, as far as it was told."""
    held = seen.on_broker.get(disk.broker, {})
    return [(topic, index) for (topic, index, _), each in held.items() if each.path == disk.path]


def still_in_sync(seen: ClusterSight, topic: str, index: int, broker: int) -> bool:
    """Whether the cluster's metadata counts a replica as in sync."""
    partition = seen.partition(topic, index)
    return partition is not None and broker in partition.in_sync
