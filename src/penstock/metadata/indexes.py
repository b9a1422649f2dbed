"""What the image cannot answer cheaply: which partitions a broker leads or has in sync, and which need attention.

30,000 partitions may lose their leader at once, and each heartbeat asks whether a broker still leads any. So the cost
of such a question is the size of its answer, never a walk over all topics. The sets are in timeline maps and are undone
together with the appends that changed them.

A partition is one integer here, `partition_key`: half the memory of a pair, and it hashes fast.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from penstock.metadata.delta import MetadataDelta
from penstock.metadata.image import MetadataImage, PartitionRegistration
from penstock.metadata.timeline import Timeline, TimelineMap

INDEX_BITS = 32
INDEX_MASK = (1 << INDEX_BITS) - 1

PartitionSet = TimelineMap[int, bool]
"""Partition keys; the values mean nothing."""


def partition_key(topic_id: UUID, index: int) -> int:
    return topic_id.int << INDEX_BITS | index


def topic_number(key: int) -> int:
    """The integer of the topic's id of a key."""
    return key >> INDEX_BITS


def partition_index(key: int) -> int:
    return key & INDEX_MASK


class PartitionIndexes:
    """Sets of partitions, kept up with the image.

    Attributes:
        leaderless: partitions that nobody leads.
        imbalanced: partitions that are not led by their preferred, that is first, replica.
        reassigning: partitions with replicas that are being added or removed.
    """

    def __init__(self, timeline: Timeline, image: MetadataImage) -> None:
        self._timeline = timeline
        self._led: dict[int, PartitionSet] = {}
        self._in_sync: dict[int, PartitionSet] = {}
        self._eligible: dict[int, PartitionSet] = {}
        self._nothing: PartitionSet = TimelineMap(timeline)
        self.leaderless: PartitionSet = TimelineMap(timeline)
        self.imbalanced: PartitionSet = TimelineMap(timeline)
        self.reassigning: PartitionSet = TimelineMap(timeline)
        for topic in image.topics_by_id.values():
            for index, partition in enumerate(topic.partitions):
                self._update(partition_key(topic.id, index), None, partition)

    def led_by(self, broker_id: int) -> PartitionSet:
        return self._led.get(broker_id, self._nothing)

    def in_sync_on(self, broker_id: int) -> PartitionSet:
        """The partitions that have a broker among their in-sync replicas."""
        return self._in_sync.get(broker_id, self._nothing)

    def eligible_on(self, broker_id: int) -> PartitionSet:
        """The partitions that have a broker among their eligible leader replicas (KIP-966)."""
        return self._eligible.get(broker_id, self._nothing)

    def apply(self, delta: MetadataDelta) -> None:
        """Applies the changes of a delta."""
        for topic in delta.deleted_topics.values():
            for index, partition in enumerate(topic.partitions):
                self._update(partition_key(topic.id, index), partition, None)
        for changed in delta.topics.values():
            before = changed.image.partitions
            for index, partition in changed.partitions.items():
                earlier = before[index] if index < len(before) else None
                self._update(partition_key(changed.id, index), earlier, partition)

    def _update(self, key: int, before: PartitionRegistration | None, after: PartitionRegistration | None) -> None:
        self._move(self._in_sync, key, before.isr if before else (), after.isr if after else ())
        self._move(self._eligible, key, before.elr if before else (), after.elr if after else ())
        self._move(self._led, key, leaders(before), leaders(after))
        put(self.leaderless, key, after is not None and after.leader < 0)
        put(self.imbalanced, key, after is not None and after.leader != after.replicas[0])
        reassigning = after is not None and bool(after.adding_replicas or after.removing_replicas)
        put(self.reassigning, key, reassigning)

    def _move(self, sets: dict[int, PartitionSet], key: int, before: Iterable[int], after: Iterable[int]) -> None:
        """Moves a partition from the sets of some brokers to those of others."""
        if before == after:
            return
        for broker_id in before:
            if broker_id not in after:
                sets[broker_id].pop(key)
        for broker_id in after:
            if broker_id not in before:
                members = sets.get(broker_id)
                if members is None:
                    members = sets[broker_id] = TimelineMap(self._timeline)
                members[key] = True


def leaders(partition: PartitionRegistration | None) -> tuple[int, ...]:
    """The leader of a partition, if there are both."""
    return () if partition is None or partition.leader < 0 else (partition.leader,)


def put(members: PartitionSet, key: int, wanted: bool) -> None:
    """Adds a partition to a set, or removes it."""
    if wanted:
        if key not in members:
            members[key] = True
    else:
        members.pop(key)
