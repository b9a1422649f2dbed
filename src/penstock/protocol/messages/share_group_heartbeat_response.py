"""ShareGroupHeartbeatResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ShareGroupHeartbeatResponse(Message, key=76, versions=(1, 1), flexible_from=0):
    """ShareGroupHeartbeatResponse, versions 1 to 1."""

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: Assignment | None = None


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = ABSENT


class TopicPartitions(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
