"""OffsetFetch (key 9), versions 1-10: the offsets of a group, all or those of some partitions.

Where nothing is committed, and for a group that does not exist, the offset is -1 and no error. `require_stable`
(version 7, KIP-447): an offset that a transaction may change is UNSTABLE_OFFSET_COMMIT, and what has been committed but
not replicated is waited for; the caller does that (it runs the fetch as a write without records). A topic that was
deleted and made again has none of the earlier one's offsets: the ids tell them apart. (Kafka tells a client the earlier
one's that asks by name, if no coordinator was there to remove them when the topic was deleted.)
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.group.state import GroupState
from penstock.errors import ErrorCode
from penstock.protocol.message import ZERO_UUID
from penstock.protocol.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from penstock.protocol.messages.offset_fetch_response import (
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)

NO_OFFSET = -1


def fetch_offsets(
    state: GroupState, group: OffsetFetchRequestGroup, committed_offset: int | None, *, require_stable: bool
) -> OffsetFetchResponseGroup:
    """The offsets of a group; all that it has when the request names no topics.

    `committed_offset`: up to where the state is told, None: all of it. Topics have names here; the caller has looked
    up ids. Raises RequestError as `Group.check_fetch` does: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
    """
    found = state.groups.find(group.group_id, at=committed_offset)
    if found is not None:
        found.check_fetch(group.member_id, group.member_epoch, committed_offset)
    reader = Reader(state, group.group_id, committed_offset, exists=found is not None, require_stable=require_stable)
    topics = reader.all() if group.topics is None else reader.some(group.topics)
    return OffsetFetchResponseGroup(group_id=group.group_id, topics=topics)


class Reader:
    """Reads the offsets of one group at one point of the timeline."""

    def __init__(self, state: GroupState, group_id: str, at: int | None, *, exists: bool, require_stable: bool) -> None:
        self._offsets = state.offsets
        self._image = state.image
        self._group_id = group_id
        self._at = at
        self._topics = state.offsets.committed.topics(group_id, at=at) if exists else None
        self._stable = require_stable and state.offsets.pending.has_group(group_id)

    def all(self) -> list[OffsetFetchResponseTopics]:
        if self._topics is None:
            return []
        answers = []
        for name, partitions in self._topics.items(at=self._at):
            topic_id = self._id_of(name, ZERO_UUID)
            found = [
                self._answer(name, index, committed, topic_id)
                for index, committed in partitions.items(at=self._at)
                if not is_of_another(committed.topic_id, topic_id)
            ]
            if found:
                answers.append(OffsetFetchResponseTopics(name=name, partitions=found))
        return answers

    def _id_of(self, topic: str, asked: UUID) -> UUID:
        """The requested id, or the id of the topic that now has the name; zero if there is none."""
        present = self._image.topics_by_name.get(topic) if asked == ZERO_UUID else None
        return asked if present is None else present.id

    def some(self, topics: Sequence[OffsetFetchRequestTopics]) -> list[OffsetFetchResponseTopics]:
        """The offsets that are asked for."""
        answers = []
        for topic in topics:
            partitions = None if self._topics is None else self._topics.get(topic.name, at=self._at)
            topic_id = self._id_of(topic.name, topic.topic_id)
            found = []
            for index in topic.partition_indexes:
                committed = None if partitions is None else partitions.get(index, at=self._at)
                found.append(self._answer(topic.name, index, committed, topic_id))
            answers.append(OffsetFetchResponseTopics(name=topic.name, topic_id=topic.topic_id, partitions=found))
        return answers

    def _answer(
        self, topic: str, index: int, committed: CommittedOffset | None, topic_id: UUID
    ) -> OffsetFetchResponsePartitions:
        if self._stable and self._offsets.pending.has(self._group_id, topic, index):
            return OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=NO_OFFSET, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
            )
        if committed is None or is_of_another(committed.topic_id, topic_id):
            return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )


def is_of_another(kept: UUID, asked: UUID) -> bool:
    """Whether an offset belongs to an earlier topic of the same name."""
    return kept not in (asked, ZERO_UUID) and asked != ZERO_UUID
