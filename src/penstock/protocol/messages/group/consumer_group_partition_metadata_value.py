"""ConsumerGroupPartitionMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ConsumerGroupPartitionMetadataValue(Message, key=4, versions=(0, 0), flexible_from=0):
    """ConsumerGroupPartitionMetadataValue, versions 0 to 0."""

    topics: list[TopicMetadata] = ABSENT


class TopicMetadata(Struct):
    topic_id: UUID = ZERO_UUID
    topic_name: str = ''
    num_partitions: int = 0
    partition_metadata: list[PartitionMetadata] = ABSENT


class PartitionMetadata(Struct):
    partition: int = 0
    racks: list[str] = ABSENT
