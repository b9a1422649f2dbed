"""DescribeProducersResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeProducersResponse(Message, key=61, versions=(0, 0), flexible_from=0):
    """DescribeProducersResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    topics: list[TopicResponse] = ABSENT


class TopicResponse(Struct):
    name: str = ''
    partitions: list[PartitionResponse] = ABSENT


class PartitionResponse(Struct):
    partition_index: int = 0
    error_code: int = 0
    error_message: str | None = None
    active_producers: list[ProducerState] = ABSENT


class ProducerState(Struct):
    producer_id: int = 0
    producer_epoch: int = 0
    last_sequence: int = -1
    last_timestamp: int = -1
    coordinator_epoch: int = 0
    current_txn_start_offset: int = -1
