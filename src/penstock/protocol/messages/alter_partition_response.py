"""AlterPartitionResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class AlterPartitionResponse(Message, key=56, versions=(2, 3), flexible_from=0):
    """AlterPartitionResponse, versions 2 to 3."""

    throttle_time_ms: int = 0
    error_code: int = 0
    topics: list[TopicData] = ABSENT


class TopicData(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[PartitionData] = ABSENT


class PartitionData(Struct):
    partition_index: int = 0
    error_code: int = 0
    leader_id: int = 0
    leader_epoch: int = 0
    isr: list[int] = ABSENT
    leader_recovery_state: int = 0
    partition_epoch: int = 0
