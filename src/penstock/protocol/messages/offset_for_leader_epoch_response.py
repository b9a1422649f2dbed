"""OffsetForLeaderEpochResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class OffsetForLeaderEpochResponse(Message, key=23, versions=(2, 4), flexible_from=4):
    """OffsetForLeaderEpochResponse, versions 2 to 4."""

    throttle_time_ms: int = 0
    topics: list[OffsetForLeaderTopicResult] = ABSENT


class OffsetForLeaderTopicResult(Struct):
    topic: str = ''
    partitions: list[EpochEndOffset] = ABSENT


class EpochEndOffset(Struct):
    error_code: int = 0
    partition: int = 0
    leader_epoch: int = -1
    end_offset: int = -1
