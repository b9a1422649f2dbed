"""DescribeTopicPartitionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DescribeTopicPartitionsResponse(Message, key=75, versions=(0, 0), flexible_from=0):
    """DescribeTopicPartitionsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = ABSENT
    next_cursor: Cursor | None = None


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = 0
    name: str | None = ''
    topic_id: UUID = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = ABSENT
    topic_authorized_operations: int = -2147483648


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = 0
    partition_index: int = 0
    leader_id: int = 0
    leader_epoch: int = -1
    replica_nodes: list[int] = ABSENT
    isr_nodes: list[int] = ABSENT
    eligible_leader_replicas: list[int] | None = None
    last_known_elr: list[int] | None = None
    offline_replicas: list[int] = ABSENT


class Cursor(Struct):
    topic_name: str = ''
    partition_index: int = 0
