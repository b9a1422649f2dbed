"""Values by group, topic and partition, as replicated state: a revert brings back what they were."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from penstock.coordinator.group.by_topic import GroupsByTopic
from penstock.metadata.timeline import Timeline, TimelineMap

V = TypeVar("V")


class ByPlace(Generic[V]):
    """See the module's head. A group or topic without values is not in it."""

    __slots__ = ("_by_topic", "_groups", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._groups: TimelineMap[str, TimelineMap[str, TimelineMap[int, V]]] = TimelineMap(timeline)
        self._by_topic = GroupsByTopic(timeline)

    def __len__(self) -> int:
        return len(self._groups)

    def __contains__(self, group_id: str) -> bool:
        return group_id in self._groups

    def groups(self) -> list[str]:
        return list(self._groups)

    def topics(self, group_id: str, *, at: int | None = None) -> TimelineMap[str, TimelineMap[int, V]] | None:
        """The values of a group by topic, now or at a kept offset of the timeline."""
        return self._groups.get(group_id, at=at)

    def get(self, group_id: str, topic: str, partition: int, *, at: int | None = None) -> V | None:
        """One value, now or at a kept offset of the timeline."""
        topics = self._groups.get(group_id, at=at)
        partitions = None if topics is None else topics.get(topic, at=at)
        return None if partitions is None else partitions.get(partition, at=at)

    def put(self, group_id: str, topic: str, partition: int, value: V) -> None:
        """Replaces or adds a value."""
        self.partitions(group_id, topic)[partition] = value

    def put_all(self, group_id: str, topic: str, values: Mapping[int, V]) -> None:
        """Replaces or adds values of one topic, at least one, by partition."""
        self.partitions(group_id, topic).update(values)

    def partitions(self, group_id: str, topic: str) -> TimelineMap[int, V]:
        """The values of a topic, which is about to have some."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = TimelineMap(self._timeline)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = TimelineMap(self._timeline)
            self._by_topic.add(topic, group_id)
        return partitions

    def remove(self, group_id: str, topic: str, partition: int) -> V | None:
        """Removes a value and returns it; one that is not there is no error."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return None
        removed = partitions.pop(partition)
        if not len(partitions):
            topics.pop(topic)
            self._by_topic.remove(topic, group_id)
            if not len(topics):
                self._groups.pop(group_id)
        return removed

    def each(self, group_id: str) -> Iterator[tuple[str, int, V]]:
        """The values of a group: topic, partition, value. They must not change meanwhile."""
        topics = self._groups.get(group_id)
        if topics is not None:
            for topic, partitions in topics.items():
                for partition, value in partitions.items():
                    yield topic, partition, value

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, V]]:
        """The values of a topic in all groups: group, partition, value. They must not change meanwhile."""
        for group_id in self._by_topic.of(topic):
            for partition, value in self._groups[group_id][topic].items():
                yield group_id, partition, value
