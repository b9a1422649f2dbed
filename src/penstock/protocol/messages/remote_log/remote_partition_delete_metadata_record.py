"""RemotePartitionDeleteMetadataRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RemotePartitionDeleteMetadataRecord(Message):
    """RemotePartitionDeleteMetadataRecord, versions 0 to 0."""

    __slots__ = ("topic_id_partition", "broker_id", "event_timestamp_ms", "remote_partition_delete_state",)

    NAME = "RemotePartitionDeleteMetadataRecord"
    KEY = 2
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topic_id_partition: TopicIdPartitionEntry = ABSENT,
        broker_id: int = 0,
        event_timestamp_ms: int = 0,
        remote_partition_delete_state: int = 0,
    ) -> None:
        self.topic_id_partition = TopicIdPartitionEntry() if topic_id_partition is ABSENT else topic_id_partition
        self.broker_id = broker_id
        self.event_timestamp_ms = event_timestamp_ms
        self.remote_partition_delete_state = remote_partition_delete_state


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
