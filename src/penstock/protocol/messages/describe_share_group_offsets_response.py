"""DescribeShareGroupOffsetsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DescribeShareGroupOffsetsResponse(Message, key=90, versions=(0, 1), flexible_from=0):
    """DescribeShareGroupOffsetsResponse, versions 0 to 1."""

    throttle_time_ms: int = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = ABSENT


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = ''
    topics: list[DescribeShareGroupOffsetsResponseTopic] = ABSENT
    error_code: int = 0
    error_message: str | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = ''
    topic_id: UUID = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = ABSENT


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = 0
    start_offset: int = 0
    leader_epoch: int = 0
    lag: int = -1
    error_code: int = 0
    error_message: str | None = None
