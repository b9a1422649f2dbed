"""ConsumerGroupHeartbeatRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class ConsumerGroupHeartbeatRequest(Message, key=68, versions=(0, 1), flexible_from=0):
    """ConsumerGroupHeartbeatRequest, versions 0 to 1."""

    group_id: str = ''
    member_id: str = ''
    member_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    subscribed_topic_names: list[str] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: list[TopicPartitions] | None = None


class TopicPartitions(Struct):
    topic_id: UUID = ZERO_UUID
    partitions: list[int] = ABSENT
