"""Offsets that wait for the end of the transaction they were committed in, as replicated state.

They are kept twice: by producer, since a marker ends the transaction of one, and by place, since everybody else asks
about a group and a partition. So either costs what it touches, however many groups and transactions there are. What is
here is bounded by what transactions have written that are still open, and those end by their timeouts. There is no
other limit, as there is none for offsets that are committed: those of one client may be as many, and stay for longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.offsets.places import ByPlace
from penstock.metadata.timeline import Timeline, TimelineMap

Place = tuple[str, str, int]
"""Group, topic, partition."""


class PendingOffsets:
    """See the module's head. A group, partition or producer without pending offsets is not in it."""

    __slots__ = ("_of_producer", "_producers", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._of_producer: TimelineMap[int, TimelineMap[Place, CommittedOffset]] = TimelineMap(timeline)
        self._producers: ByPlace[TimelineMap[int, None]] = ByPlace(timeline)

    def __len__(self) -> int:
        """How many transactions have pending offsets."""
        return len(self._of_producer)

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction may change the offset of a partition."""
        return self._producers.get(group_id, topic, partition) is not None

    def has_group(self, group_id: str) -> bool:
        """Whether a transaction may change any offset of a group."""
        return group_id in self._producers

    def of_group(self, group_id: str) -> Iterator[tuple[str, int]]:
        """Topic and partition of the group's pending offsets, each once. They must not change meanwhile."""
        for topic, partition, _ in self._producers.each(group_id):
            yield topic, partition

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """The pending offsets of a topic: group, partition, offset. They must not change meanwhile."""
        for group_id, partition, producers in self._producers.of_topic(topic):
            for producer_id in producers:
                yield group_id, partition, self._of_producer[producer_id][group_id, topic, partition]

    def put_all(self, producer_id: int, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Adds offsets of one topic, at least one, by partition, to the producer's transaction."""
        pending = self._of_producer.get(producer_id)
        if pending is None:
            pending = self._of_producer[producer_id] = TimelineMap(self._timeline)
        pending.update({(group_id, topic, partition): committed for partition, committed in offsets.items()})
        partitions = self._producers.partitions(group_id, topic)
        for partition in offsets:
            producers = partitions.get(partition)
            if producers is None:
                producers = partitions[partition] = TimelineMap(self._timeline)
            if producer_id not in producers:
                producers[producer_id] = None

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Removes a partition's offset from all transactions; one that is not there is no error."""
        for producer_id in self._producers.remove(group_id, topic, partition) or ():
            pending = self._of_producer[producer_id]
            pending.pop((group_id, topic, partition))
            if not len(pending):
                self._of_producer.pop(producer_id)

    def end(self, producer_id: int) -> Iterator[tuple[Place, CommittedOffset]]:
        """Removes the offsets of a producer's transaction, which has ended, and yields them as it goes."""
        pending = self._of_producer.pop(producer_id)
        if pending is None:
            return
        for place, committed in pending.items():
            producers = self._producers.get(*place)
            assert producers is not None, f"{place} is pending for no producer"
            producers.pop(producer_id)
            if not len(producers):
                self._producers.remove(*place)
            yield place, committed
