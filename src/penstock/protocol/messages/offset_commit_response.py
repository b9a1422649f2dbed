"""OffsetCommitResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class OffsetCommitResponse(Message, key=8, versions=(2, 10), flexible_from=8):
    """OffsetCommitResponse, versions 2 to 10."""

    throttle_time_ms: int = 0
    topics: list[OffsetCommitResponseTopic] = ABSENT


class OffsetCommitResponseTopic(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[OffsetCommitResponsePartition] = ABSENT


class OffsetCommitResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
