"""The offsets by group, topic and partition, as replicated state.

An offset that is committed in a transaction is pending until the marker comes. Then it counts, unless an offset was
committed after it without a transaction: the record that is later in the log wins, also when compaction has removed
what was between them. A tombstone ends an offset for good, in transactions as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.offsets.pending import PendingOffsets
from penstock.coordinator.group.offsets.places import ByPlace
from penstock.metadata.timeline import Timeline
from penstock.protocol.messages.group.legacy_offset_commit_key import LegacyOffsetCommitKey
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

NO_PRODUCER_ID = -1

OffsetKey = OffsetCommitKey | LegacyOffsetCommitKey
"""The second is of very old brokers; it means the same."""


class Offsets:
    """All offsets of a partition of the coordinator.

    Attributes:
        committed: those that count. pending: those of transactions that are open.
    """

    __slots__ = ("committed", "pending")

    def __init__(self, timeline: Timeline) -> None:
        self.committed: ByPlace[CommittedOffset] = ByPlace(timeline)
        self.pending = PendingOffsets(timeline)

    def of_topic(self, topic: str) -> Iterator[tuple[str, int, CommittedOffset]]:
        """The offsets of a topic in all groups, the pending ones included."""
        yield from self.committed.of_topic(topic)
        yield from self.pending.of_topic(topic)

    # Replay

    def put_all(self, producer_id: int, group_id: str, topic: str, offsets: Mapping[int, CommittedOffset]) -> None:
        """Applies offsets of one topic, at least one, by partition, that a producer's transaction has committed; with
        NO_PRODUCER_ID none.
        """
        if producer_id == NO_PRODUCER_ID:
            self.committed.put_all(group_id, topic, offsets)
        else:
            self.pending.put_all(producer_id, group_id, topic, offsets)

    def replay(self, key: OffsetKey, value: OffsetCommitValue | None, offset: int, producer_id: int) -> None:
        """Applies a record."""
        group_id, topic, partition = key.group, key.topic, key.partition
        if value is None:
            self.committed.remove(group_id, topic, partition)
            self.pending.remove(group_id, topic, partition)
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
        self.put_all(producer_id, group_id, topic, {partition: committed})

    def replay_end_marker(self, producer_id: int, *, committed: bool) -> None:
        """Ends a producer's transaction: its pending offsets become committed, or are dropped."""
        for place, ended in self.pending.end(producer_id):
            present = self.committed.get(*place) if committed else None
            if committed and (present is None or present.record_offset < ended.record_offset):
                self.committed.put(*place, ended)
