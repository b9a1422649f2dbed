"""DescribeTransactionsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class DescribeTransactionsResponse(Message, key=65, versions=(0, 0), flexible_from=0):
    """DescribeTransactionsResponse, versions 0 to 0."""

    throttle_time_ms: int = 0
    transaction_states: list[TransactionState] = ABSENT


class TransactionState(Struct):
    error_code: int = 0
    transactional_id: str = ''
    transaction_state: str = ''
    transaction_timeout_ms: int = 0
    transaction_start_time_ms: int = 0
    producer_id: int = 0
    producer_epoch: int = 0
    topics: list[TopicData] = ABSENT


class TopicData(Struct):
    topic: str = ''
    partitions: list[int] = ABSENT
