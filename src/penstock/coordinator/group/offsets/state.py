"""The offsets by group, topic and partition, as replicated state.

An offset that is committed in a transaction waits in a store of its producer until the marker comes. Then it counts,
unless an offset was committed after it without a transaction: the record that is later in the log wins.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple
from uuid import UUID

from penstock.coordinator.group.by_topic import GroupsByTopic
from penstock.metadata.timeline import Timeline, TimelineMap
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.group.legacy_offset_commit_key import LegacyOffsetCommitKey
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

NO_PRODUCER_ID = -1


class CommittedOffset(NamedTuple):
    """An offset as it was committed.

    Attributes:
        leader_epoch: of the last record that was consumed; -1: unknown.
        metadata: a text of the client's.
        commit_timestamp_ms: when it was committed.
        expire_timestamp_ms: when it expires if the client has said so; -1: as the settings say.
        topic_id: of the topic; zero in records of older releases.
        record_offset: of its record in the coordinator's log; -1 before it is replayed.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp_ms: int = -1
    expire_timestamp_ms: int = -1
    topic_id: UUID = ZERO_UUID
    record_offset: int = -1


OffsetKey = OffsetCommitKey | LegacyOffsetCommitKey
"""The second is of very old brokers; it means the same."""
Partitions = TimelineMap[int, CommittedOffset]
Topics = TimelineMap[str, Partitions]


class OffsetStore:
    """Offsets of many groups. A group or topic without offsets is not in it."""

    __slots__ = ("_by_topic", "_groups", "_timeline")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._groups: TimelineMap[str, Topics] = TimelineMap(timeline)
        self._by_topic = GroupsByTopic(timeline)

    def __len__(self) -> int:
        return len(self._groups)

    def groups(self) -> list[str]:
        return list(self._groups)

    def topics(self, group_id: str, *, at: int | None = None) -> Topics | None:
        """The offsets of a group by topic, now or at a kept offset of the timeline."""
        return self._groups.get(group_id, at=at)

    def get(self, group_id: str, topic: str, partition: int, *, at: int | None = None) -> CommittedOffset | None:
        """One offset, now or at a kept offset of the timeline."""
        topics = self._groups.get(group_id, at=at)
        partitions = None if topics is None else topics.get(topic, at=at)
        return None if partitions is None else partitions.get(partition, at=at)

    def put(self, group_id: str, topic: str, partition: int, committed: CommittedOffset) -> None:
        """Replaces or adds an offset."""
        self._partitions(group_id, topic)[partition] = committed

    def put_all(self, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Replaces or adds offsets of one topic, at least one, by partition."""
        self._partitions(group_id, topic).update(offsets)

    def _partitions(self, group_id: str, topic: str) -> Partitions:
        """The offsets of a topic, which is about to have some."""
        topics = self._groups.get(group_id)
        if topics is None:
            topics = self._groups[group_id] = TimelineMap(self._timeline)
        partitions = topics.get(topic)
        if partitions is None:
            partitions = topics[topic] = TimelineMap(self._timeline)
            self._by_topic.add(topic, group_id)
        return partitions

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """Removes an offset; one that is not there is no error."""
        topics = self._groups.get(group_id)
        partitions = None if topics is None else topics.get(topic)
        if topics is None or partitions is None:
            return
        partitions.pop(partition)
        if not len(partitions):
            topics.pop(topic)
            self._by_topic.remove(topic, group_id)
            if not len(topics):
                self._groups.pop(group_id)

    def each(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """The offsets of a group: topic, partition, offset. They must not change meanwhile."""
        topics = self._groups.get(group_id)
        if topics is not None:
            for topic, partitions in topics.items():
                for partition, committed in partitions.items():
                    yield topic, partition, committed

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """The offsets of a topic in all groups: group, partition, offset. They must not change meanwhile."""
        for group_id in self._by_topic.of(topic):
            for partition, committed in self._groups[group_id][topic].items():
                yield group_id, partition, committed


class Offsets:
    """All offsets of a partition of the coordinator.

    Attributes:
        committed: those that count.
    """

    __slots__ = ("_open", "_pending", "_timeline", "committed")

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.committed = OffsetStore(timeline)
        self._pending: TimelineMap[int, OffsetStore] = TimelineMap(timeline)
        self._open: TimelineMap[str, TimelineMap[int, None]] = TimelineMap(timeline)

    # Transactions

    def in_transaction(self, group_id: str) -> bool:
        """Whether a transaction that has not ended yet has offsets of the group."""
        return group_id in self._open

    def is_pending(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended yet has an offset for the partition."""
        return any(store.get(group_id, topic, partition) is not None for store in self._stores(group_id))

    def pending(self, group_id: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """The offsets of a group that wait for the end of a transaction."""
        for store in self._stores(group_id):
            yield from store.each(group_id)

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """The offsets of a topic in all groups, those in transactions included."""
        yield from self.committed.of_topic(topic)
        for _, store in self._pending.items():
            yield from store.of_topic(topic)

    def _stores(self, group_id: str) -> Iterator[OffsetStore]:
        for producer_id in self._open.get(group_id) or ():
            store = self._pending.get(producer_id)
            if store is not None:
                yield store

    # Replay

    def replay(self, key: OffsetKey, value: OffsetCommitValue | None, offset: int, producer_id: int) -> None:
        """Applies a record."""
        group_id, topic, partition = key.group, key.topic, key.partition
        if value is None:
            self.committed.remove(group_id, topic, partition)
            for store in self._stores(group_id):
                store.remove(group_id, topic, partition)
            return
        committed = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
            offset,
        )
        if producer_id == NO_PRODUCER_ID:
            self.committed.put(group_id, topic, partition, committed)
            return
        pending = self._pending.get(producer_id)
        if pending is None:
            pending = self._pending[producer_id] = OffsetStore(self._timeline)
        pending.put(group_id, topic, partition, committed)
        producers = self._open.get(group_id)
        if producers is None:
            producers = self._open[group_id] = TimelineMap(self._timeline)
        producers[producer_id] = None

    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None:
        """Ends a producer's transaction: its pending offsets become committed, or are dropped."""
        store = self._pending.pop(producer_id)
        if store is None:
            return
        for group_id, producers in self._open_with(producer_id):
            producers.pop(producer_id)
            if not len(producers):
                self._open.pop(group_id)
            if committed:
                self._materialize(group_id, store)

    def _open_with(self, producer_id: int) -> list[tuple[str, TimelineMap[int, None]]]:
        return [(group_id, producers) for group_id, producers in self._open.items() if producer_id in producers]

    def _materialize(self, group_id: str, store: OffsetStore) -> None:
        for topic, partition, committed in store.each(group_id):
            present = self.committed.get(group_id, topic, partition)
            if present is None or present.record_offset < committed.record_offset:
                self.committed.put(group_id, topic, partition, committed)
