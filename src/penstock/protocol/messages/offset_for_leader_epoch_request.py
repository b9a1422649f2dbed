"""OffsetForLeaderEpochRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class OffsetForLeaderEpochRequest(Message, key=23, versions=(2, 4), flexible_from=4):
    """OffsetForLeaderEpochRequest, versions 2 to 4."""

    replica_id: int = -2
    topics: list[OffsetForLeaderTopic] = ABSENT


class OffsetForLeaderTopic(Struct):
    topic: str = ''
    partitions: list[OffsetForLeaderPartition] = ABSENT


class OffsetForLeaderPartition(Struct):
    partition: int = 0
    current_leader_epoch: int = -1
    leader_epoch: int = 0
