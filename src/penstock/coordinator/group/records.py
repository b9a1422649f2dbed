"""The records of classic groups and of offsets in `__consumer_offsets`, in the versions that Apache Kafka 4.3 writes.

GroupMetadata: value version 3, whatever the metadata.version (all that 4.3 runs with know it). OffsetCommit: version 4,
which has the topic's id; version 1 when the client asked for a retention of its own (OffsetCommit up to version 4), as
later ones have no such field.
"""

from __future__ import annotations

from penstock.coordinator.group.offsets.committed import CommittedOffset
from penstock.coordinator.runtime.result import CoordinatorRecord
from penstock.protocol.messages.group.group_metadata_key import GroupMetadataKey
from penstock.protocol.messages.group.group_metadata_value import GroupMetadataValue
from penstock.protocol.messages.group.offset_commit_key import OffsetCommitKey
from penstock.protocol.messages.group.offset_commit_value import OffsetCommitValue

GROUP_METADATA_VERSION = 3
OFFSET_COMMIT_VERSION = 4
OFFSET_COMMIT_WITH_EXPIRY_VERSION = 1
NO_TIMESTAMP = -1


def group_metadata(group_id: str, value: GroupMetadataValue) -> CoordinatorRecord:
    """A generation of a classic group, or a group that has just been made."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id), value, GROUP_METADATA_VERSION)


def group_metadata_tombstone(group_id: str) -> CoordinatorRecord:
    """The end of a classic group."""
    return CoordinatorRecord(GroupMetadataKey(group=group_id))


def offset_commit(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> CoordinatorRecord:
    expires = committed.expire_timestamp_ms != NO_TIMESTAMP
    return CoordinatorRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=partition),
        offset_value(committed),
        OFFSET_COMMIT_WITH_EXPIRY_VERSION if expires else OFFSET_COMMIT_VERSION,
    )


def offset_value(committed: CommittedOffset) -> OffsetCommitValue:
    """What the record of an offset says."""
    return OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.commit_timestamp_ms,
        expire_timestamp=committed.expire_timestamp_ms,
        topic_id=committed.topic_id,
    )


def offset_commit_tombstone(group_id: str, topic: str, partition: int) -> CoordinatorRecord:
    """The end of a committed offset."""
    return CoordinatorRecord(OffsetCommitKey(group=group_id, topic=topic, partition=partition))
