"""DeleteRecordsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DeleteRecordsResponse(Message, key=21, versions=(0, 2), flexible_from=2):
    """DeleteRecordsResponse, versions 0 to 2."""

    throttle_time_ms: int = 0
    topics: list[DeleteRecordsTopicResult] = ABSENT


class DeleteRecordsTopicResult(Struct):
    name: str = ''
    partitions: list[DeleteRecordsPartitionResult] = ABSENT


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = 0
    low_watermark: int = 0
    error_code: int = 0
