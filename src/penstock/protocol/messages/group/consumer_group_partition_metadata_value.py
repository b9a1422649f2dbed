"""ConsumerGroupPartitionMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ConsumerGroupPartitionMetadataValue(Message):
    """ConsumerGroupPartitionMetadataValue, versions 0 to 0."""

    __slots__ = ("topics",)

    NAME = "ConsumerGroupPartitionMetadataValue"
    KEY = 4
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        topics: list[TopicMetadata] = ABSENT,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics


class TopicMetadata(Struct):
    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata",)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = '',
        num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is ABSENT else partition_metadata


class PartitionMetadata(Struct):
    __slots__ = ("partition", "racks",)

    def __init__(
        self,
        *,
        partition: int = 0,
        racks: list[str] = ABSENT,
    ) -> None:
        self.partition = partition
        self.racks = [] if racks is ABSENT else racks
