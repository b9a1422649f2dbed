"""RemoteLogSegmentMetadataUpdateRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RemoteLogSegmentMetadataUpdateRecord(Message):
    """RemoteLogSegmentMetadataUpdateRecord, versions 0 to 0."""

    __slots__ = ("remote_log_segment_id", "broker_id", "event_timestamp_ms", "custom_metadata", "remote_log_segment_state",)

    NAME = "RemoteLogSegmentMetadataUpdateRecord"
    KEY = 1
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        remote_log_segment_id: RemoteLogSegmentIdEntry = ABSENT,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        custom_metadata: bytes | None = None,
        remote_log_segment_state: int = 0,
    ) -> None:
        self.remote_log_segment_id = RemoteLogSegmentIdEntry() if remote_log_segment_id is ABSENT else remote_log_segment_id
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.custom_metadata = custom_metadata
        self.remote_log_segment_state = remote_log_segment_state


class RemoteLogSegmentIdEntry(Struct):
    __slots__ = ("topic_id_partition", "id",)

    def __init__(
        self,
        *,
        topic_id_partition: TopicIdPartitionEntry = ABSENT,
        id: UUID = ZERO_UUID,
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is ABSENT else topic_id_partition
        self.id = id


class TopicIdPartitionEntry(Struct):
    __slots__ = ("name", "id", "partition",)

    def __init__(
        self,
        *,
        name: str = '',
        id: UUID = ZERO_UUID,
        partition: int = 0,
    ) -> None:
        self.name = name
        self.id = id
        self.partition = partition
