"""OffsetDeleteResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class OffsetDeleteResponse(Message, key=47, versions=(0, 0)):
    """OffsetDeleteResponse, versions 0 to 0."""

    error_code: int = 0
    throttle_time_ms: int = 0
    topics: list[OffsetDeleteResponseTopic] = ABSENT


class OffsetDeleteResponseTopic(Struct):
    name: str = ''
    partitions: list[OffsetDeleteResponsePartition] = ABSENT


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
