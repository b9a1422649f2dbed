"""ListOffsetsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListOffsetsResponse(Message, key=2, versions=(1, 11), flexible_from=6):
    """ListOffsetsResponse, versions 1 to 11."""

    throttle_time_ms: int = 0
    topics: list[ListOffsetsTopicResponse] = ABSENT


class ListOffsetsTopicResponse(Struct):
    name: str = ''
    partitions: list[ListOffsetsPartitionResponse] = ABSENT


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = 0
    error_code: int = 0
    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = -1
