"""AddPartitionsToTxnResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AddPartitionsToTxnResponse(Message):
    """AddPartitionsToTxnResponse, versions 0 to 5."""

    __slots__ = ("throttle_time_ms", "error_code", "results_by_transaction", "results_by_topic_v3_and_below",)

    NAME = "AddPartitionsToTxnResponse"
    KEY = 24
    MIN_VERSION = 0
    MAX_VERSION = 5
    FLEXIBLE_FROM = 3

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        results_by_transaction: list[AddPartitionsToTxnResult] = ABSENT,
        results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.results_by_transaction = [] if results_by_transaction is ABSENT else results_by_transaction
        self.results_by_topic_v3_and_below = [] if results_by_topic_v3_and_below is ABSENT else results_by_topic_v3_and_below


class AddPartitionsToTxnResult(Struct):
    __slots__ = ("transactional_id", "topic_results",)

    def __init__(
        self,
        *,
        transactional_id: str = '',
        topic_results: list[AddPartitionsToTxnTopicResult] = ABSENT,
    ) -> None:
        self.transactional_id = transactional_id
        self.topic_results = [] if topic_results is ABSENT else topic_results


class AddPartitionsToTxnTopicResult(Struct):
    __slots__ = ("name", "results_by_partition",)

    def __init__(
        self,
        *,
        name: str = '',
        results_by_partition: list[AddPartitionsToTxnPartitionResult] = ABSENT,
    ) -> None:
        self.name = name
        self.results_by_partition = [] if results_by_partition is ABSENT else results_by_partition


class AddPartitionsToTxnPartitionResult(Struct):
    __slots__ = ("partition_index", "partition_error_code",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        partition_error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.partition_error_code = partition_error_code
