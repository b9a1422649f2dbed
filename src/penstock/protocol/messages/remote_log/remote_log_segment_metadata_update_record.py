"""RemoteLogSegmentMetadataUpdateRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RemoteLogSegmentMetadataUpdateRecord(Message, key=1, versions=(0, 0), flexible_from=0):
    """RemoteLogSegmentMetadataUpdateRecord, versions 0 to 0."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = ABSENT
    broker_id: int = 0
    event_timestamp_ms: int = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int = 0


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = ABSENT
    id: UUID = ZERO_UUID


class TopicIdPartitionEntry(Struct):
    name: str = ''
    id: UUID = ZERO_UUID
    partition: int = 0
