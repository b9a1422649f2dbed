"""OffsetCommitResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class OffsetCommitResponse(Message):
    """OffsetCommitResponse, versions 2 to 10."""

    __slots__ = ("throttle_time_ms", "topics",)

    NAME = "OffsetCommitResponse"
    KEY = 8
    MIN_VERSION = 2
    MAX_VERSION = 10
    FLEXIBLE_FROM = 8

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[OffsetCommitResponseTopic] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is ABSENT else topics


class OffsetCommitResponseTopic(Struct):
    __slots__ = ("name", "topic_id", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        topic_id: UUID = ZERO_UUID,
        partitions: list[OffsetCommitResponsePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class OffsetCommitResponsePartition(Struct):
    __slots__ = ("partition_index", "error_code",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
