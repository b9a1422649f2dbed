"""AlterPartitionReassignmentsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class AlterPartitionReassignmentsRequest(Message):
    """AlterPartitionReassignmentsRequest, versions 0 to 1."""

    __slots__ = ("timeout_ms", "allow_replication_factor_change", "topics",)

    NAME = "AlterPartitionReassignmentsRequest"
    KEY = 45
    MIN_VERSION = 0
    MAX_VERSION = 1
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        allow_replication_factor_change: bool = True,
        topics: list[ReassignableTopic] = ABSENT,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.allow_replication_factor_change = allow_replication_factor_change
        self.topics = [] if topics is ABSENT else topics


class ReassignableTopic(Struct):
    __slots__ = ("name", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: list[ReassignablePartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class ReassignablePartition(Struct):
    __slots__ = ("partition_index", "replicas",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        replicas: list[int] | None = None,
    ) -> None:
        self.partition_index = partition_index
        self.replicas = replicas
