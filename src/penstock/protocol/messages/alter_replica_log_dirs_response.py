"""AlterReplicaLogDirsResponse. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterReplicaLogDirsResponse(Message):
    """AlterReplicaLogDirsResponse, versions 1 to 2."""

    __slots__ = ("throttle_time_ms", "results",)

    NAME = "AlterReplicaLogDirsResponse"
    KEY = 34
    MIN_VERSION = 1
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterReplicaLogDirTopicResult] = ABSENT,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is ABSENT else results


class AlterReplicaLogDirTopicResult(Struct):
    __slots__ = ("topic_name", "partitions",)

    def __init__(
        self,
        *,
        topic_name: str = '',
        partitions: list[AlterReplicaLogDirPartitionResult] = ABSENT,
    ) -> None:
        self.topic_name = topic_name
        self.partitions = [] if partitions is ABSENT else partitions


class AlterReplicaLogDirPartitionResult(Struct):
    __slots__ = ("partition_index", "error_code",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        error_code: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.error_code = error_code
