"""RemotePartitionDeleteMetadataRecord. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class RemotePartitionDeleteMetadataRecord(Message, key=2, versions=(0, 0), flexible_from=0):
    """RemotePartitionDeleteMetadataRecord, versions 0 to 0."""

    topic_id_partition: TopicIdPartitionEntry = ABSENT
    broker_id: int = 0
    event_timestamp_ms: int = 0
    remote_partition_delete_state: int = 0


class TopicIdPartitionEntry(Struct):
    name: str = ''
    id: UUID = ZERO_UUID
    partition: int = 0
