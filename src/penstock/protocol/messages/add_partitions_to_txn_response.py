"""AddPartitionsToTxnResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AddPartitionsToTxnResponse(Message, key=24, versions=(0, 5), flexible_from=3):
    """AddPartitionsToTxnResponse, versions 0 to 5."""

    throttle_time_ms: int = 0
    error_code: int = 0
    results_by_transaction: list[AddPartitionsToTxnResult] = ABSENT
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = ABSENT


class AddPartitionsToTxnResult(Struct):
    transactional_id: str = ''
    topic_results: list[AddPartitionsToTxnTopicResult] = ABSENT


class AddPartitionsToTxnTopicResult(Struct):
    name: str = ''
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = ABSENT


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int = 0
    partition_error_code: int = 0
