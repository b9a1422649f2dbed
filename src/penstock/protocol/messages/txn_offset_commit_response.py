"""TxnOffsetCommitResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class TxnOffsetCommitResponse(Message, key=28, versions=(0, 5), flexible_from=3):
    """TxnOffsetCommitResponse, versions 0 to 5."""

    throttle_time_ms: int = 0
    topics: list[TxnOffsetCommitResponseTopic] = ABSENT


class TxnOffsetCommitResponseTopic(Struct):
    name: str = ''
    partitions: list[TxnOffsetCommitResponsePartition] = ABSENT


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = 0
    error_code: int = 0
