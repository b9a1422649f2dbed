"""ShareGroupStatePartitionMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareGroupStatePartitionMetadataValue(Message, key=15, versions=(0, 0), flexible_from=0):
    """ShareGroupStatePartitionMetadataValue, versions 0 to 0."""

    initializing_topics: list[TopicPartitionsInfo] = ABSENT
    initialized_topics: list[TopicPartitionsInfo] = ABSENT
    deleting_topics: list[TopicInfo] = ABSENT


class TopicPartitionsInfo(Struct):
    topic_id: UUID = ZERO_UUID
    topic_name: str = ''
    partitions: list[int] = ABSENT


class TopicInfo(Struct):
    topic_id: UUID = ZERO_UUID
    topic_name: str = ''
