"""OffsetFetchResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class OffsetFetchResponse(Message, key=9, versions=(1, 10), flexible_from=6):
    """OffsetFetchResponse, versions 1 to 10."""

    throttle_time_ms: int = 0
    topics: list[OffsetFetchResponseTopic] = ABSENT
    error_code: int = 0
    groups: list[OffsetFetchResponseGroup] = ABSENT


class OffsetFetchResponseTopic(Struct):
    name: str = ''
    partitions: list[OffsetFetchResponsePartition] = ABSENT


class OffsetFetchResponsePartition(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ''
    error_code: int = 0


class OffsetFetchResponseGroup(Struct):
    group_id: str = ''
    topics: list[OffsetFetchResponseTopics] = ABSENT
    error_code: int = 0


class OffsetFetchResponseTopics(Struct):
    name: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[OffsetFetchResponsePartitions] = ABSENT


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = 0
    committed_offset: int = 0
    committed_leader_epoch: int = -1
    metadata: str | None = ''
    error_code: int = 0
