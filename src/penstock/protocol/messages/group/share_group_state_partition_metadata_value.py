"""ShareGroupStatePartitionMetadataValue. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareGroupStatePartitionMetadataValue(Message):
    """ShareGroupStatePartitionMetadataValue, versions 0 to 0."""

    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics",)

    NAME = "ShareGroupStatePartitionMetadataValue"
    KEY = 15
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        initializing_topics: list[TopicPartitionsInfo] = ABSENT,
        initialized_topics: list[TopicPartitionsInfo] = ABSENT,
        deleting_topics: list[TopicInfo] = ABSENT,
    ) -> None:
        self.initializing_topics = [] if initializing_topics is ABSENT else initializing_topics
        self.initialized_topics = [] if initialized_topics is ABSENT else initialized_topics
        self.deleting_topics = [] if deleting_topics is ABSENT else deleting_topics


class TopicPartitionsInfo(Struct):
    __slots__ = ("topic_id", "topic_name", "partitions",)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = '',
        partitions: list[int] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class TopicInfo(Struct):
    __slots__ = ("topic_id", "topic_name",)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        topic_name: str = '',
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
