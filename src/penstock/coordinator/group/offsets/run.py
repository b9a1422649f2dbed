"""The offsets of one commit as records that are encoded and replayed together.

A commit of a thousand partitions differs from record to record in the partition, the offset and the leader epoch only:
the rest of keys and values is encoded once for each topic, and the state takes the offsets of a topic at once. What is
left for a partition is done column by column, without a step of the interpreter for each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, repeat
from operator import add, attrgetter
from typing import Any, NamedTuple, overload
from uuid import UUID

from penstock.coordinator.group import records
from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.offsets.replay import ensure_group
from penstock.coordinator.group.offsets.state import NO_PRODUCER_ID
from penstock.coordinator.group.offsets.stored import (
    FLEXIBLE,
    FLEXIBLE_HEAD,
    NO_TEXT,
    PARTITION,
    flexible_tail,
)
from penstock.coordinator.group.records import NO_TIMESTAMP, OFFSET_COMMIT_VERSION
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord, Encoded, RecordRun
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.offset_commit_request import OffsetCommitRequestPartition
from penstock.protocol.messages.txn_offset_commit_request import TxnOffsetCommitRequestPartition
from penstock.protocol.record_frames import encode_coordinator_key, encode_coordinator_value

Partition = OffsetCommitRequestPartition | TxnOffsetCommitRequestPartition
Partitions = Sequence[OffsetCommitRequestPartition] | Sequence[TxnOffsetCommitRequestPartition]
COLUMNS = attrgetter("partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata")


class TopicOffsets(NamedTuple):
    """The offsets of one topic."""

    topic: str
    topic_id: UUID
    partitions: Partitions


class OffsetRun(RecordRun):
    """See the module's head. They are committed at `wall_ms`, in the transaction of a producer if one is given, and
    expire as the settings say."""

    __slots__ = ("_group_id", "_producer_id", "_state", "_topics", "_wall_ms")

    def __init__(
        self,
        state: GroupState,
        group_id: str,
        topics: Sequence[TopicOffsets],
        wall_ms: int,
        producer_id: int = NO_PRODUCER_ID,
    ) -> None:
        self._state = state
        self._group_id = group_id
        self._topics = topics
        self._wall_ms = wall_ms
        self._producer_id = producer_id

    # One by one

    def __len__(self) -> int:
        return sum(len(each.partitions) for each in self._topics)

    def __iter__(self) -> Iterator[CoordinatorRecord]:
        return one_by_one(self._group_id, self._topics, self._wall_ms)

    @overload
    def __getitem__(self, index: int) -> CoordinatorRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[CoordinatorRecord]: ...
    def __getitem__(self, index: int | slice) -> CoordinatorRecord | Sequence[CoordinatorRecord]:
        return list(self)[index]

    # Together

    def encoded(self) -> list[Encoded]:
        """Keys and values in their stored form."""
        found: list[Encoded] = []
        for topic, topic_id, partitions in self._topics:
            head = encode_coordinator_key(OffsetCommitKey(group=self._group_id, topic=topic))[: -PARTITION.size]
            indexes, offsets, epochs, texts = columns_of(partitions)
            values: Iterable[bytes]
            if any(texts):
                values = [self._encoded_value(each, topic_id) for each in partitions]
            else:
                heads = map(FLEXIBLE_HEAD.pack, repeat(FLEXIBLE), offsets, epochs, repeat(NO_TEXT))
                values = map(add, heads, repeat(flexible_tail(self._wall_ms, topic_id)))
            found += zip(map(add, repeat(head), map(PARTITION.pack, indexes)), values, strict=True)
        return found

    def _encoded_value(self, partition: Partition, topic_id: UUID) -> bytes:
        message = records.offset_value(committed_of(partition, topic_id, self._wall_ms))
        return encode_coordinator_value(message, OFFSET_COMMIT_VERSION)

    def replay(self, offset: int) -> None:
        """Applies the offsets to the state; the first record has this offset."""
        for topic, topic_id, partitions in self._topics:
            ensure_group(self._state, self._group_id)
            indexes, offsets, epochs, texts = columns_of(partitions)
            fields = zip(
                offsets,
                epochs,
                (text or "" for text in texts) if None in texts else texts,
                repeat(self._wall_ms),
                repeat(NO_TIMESTAMP),
                repeat(topic_id),
                count(offset),
            )
            committed = dict(zip(indexes, map(tuple.__new__, repeat(CommittedOffset), fields), strict=True))
            self._state.offsets.put_all(self._producer_id, self._group_id, topic, committed)
            offset += len(partitions)


def columns_of(partitions: Partitions) -> Any:
    """Partition indexes, offsets, leader epochs and texts, each as a tuple. There is at least one partition."""
    return zip(*map(COLUMNS, partitions), strict=True)


def one_by_one(
    group_id: str, topics: Iterable[TopicOffsets], wall_ms: int, expire_timestamp_ms: int = NO_TIMESTAMP
) -> Iterator[CoordinatorRecord]:
    """The records of offsets that are committed now."""
    for topic, topic_id, partitions in topics:
        for partition in partitions:
            committed = committed_of(partition, topic_id, wall_ms)._replace(expire_timestamp_ms=expire_timestamp_ms)
            yield records.offset_commit(group_id, topic, partition.partition_index, committed)


def committed_of(partition: Partition, topic_id: UUID, wall_ms: int, record_offset: int = -1) -> CommittedOffset:
    """An offset that is committed now, and does not expire by itself."""
    return CommittedOffset(
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
        wall_ms,
        NO_TIMESTAMP,
        topic_id,
        record_offset,
    )
