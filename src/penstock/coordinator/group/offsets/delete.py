"""OffsetDelete (key 47), version 0: deletes offsets of a group, except those of topics that it subscribes to."""

from __future__ import annotations

from penstock.coordinator.group import records
from penstock.coordinator.group.state import GroupState
from penstock.coordinator.runtime.result import CoordinatorRecord, Result
from penstock.errors import ErrorCode, RequestError
from penstock.protocol.messages.offset_delete_request import OffsetDeleteRequest
from penstock.protocol.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def delete_offsets(state: GroupState, request: OffsetDeleteRequest, now_ms: int) -> Result[OffsetDeleteResponse]:
    """OffsetDelete. A partition without an offset is no error; one of a subscribed topic GROUP_SUBSCRIBED_TO_TOPIC.

    Raises RequestError: INVALID_GROUP_ID, GROUP_ID_NOT_FOUND; NON_EMPTY_GROUP if its topics cannot be known.
    """
    if not request.group_id:
        raise RequestError(ErrorCode.INVALID_GROUP_ID, "a group id is needed to delete offsets")
    group = state.groups.get(request.group_id)
    group.check_delete_offsets()
    answers = []
    tombstones: dict[tuple[str, int], CoordinatorRecord] = {}
    for topic in request.topics:
        code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if group.is_subscribed(topic.name) else ErrorCode.NONE
        for partition in topic.partitions:
            place = (topic.name, partition.partition_index)
            if not code and is_kept(state, request.group_id, *place):
                tombstones[place] = records.offset_commit_tombstone(request.group_id, *place)
        partitions = [
            OffsetDeleteResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in topic.partitions
        ]
        answers.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return Result(OffsetDeleteResponse(topics=answers), list(tombstones.values()))


def is_kept(state: GroupState, group_id: str, topic: str, partition: int) -> bool:
    """Whether there is an offset, committed or in a transaction."""
    offsets = state.offsets
    return offsets.committed.get(group_id, topic, partition) is not None or offsets.pending.has(
        group_id, topic, partition
    )


def all_tombstones(state: GroupState, group_id: str) -> list[CoordinatorRecord]:
    """The end of all offsets of a group, those in transactions included."""
    offsets = state.offsets
    places = {(topic, partition): None for topic, partition, _ in offsets.committed.each(group_id)}
    places.update(dict.fromkeys(offsets.pending.of_group(group_id)))
    return [records.offset_commit_tombstone(group_id, *place) for place in places]
