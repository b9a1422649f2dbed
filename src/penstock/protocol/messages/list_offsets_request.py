"""ListOffsetsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Struct


class ListOffsetsRequest(Message):
    """ListOffsetsRequest, versions 1 to 11."""

    __slots__ = ("replica_id", "isolation_level", "topics", "timeout_ms",)

    NAME = "ListOffsetsRequest"
    KEY = 2
    MIN_VERSION = 1
    MAX_VERSION = 11
    FLEXIBLE_FROM = 6

    def __init__(
        self,
        *,
        replica_id: int = 0,
        isolation_level: int = 0,
        topics: list[ListOffsetsTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.replica_id = replica_id
        self.isolation_level = isolation_level
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms


class ListOffsetsTopic(Struct):
    __slots__ = ("name", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: list[ListOffsetsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class ListOffsetsPartition(Struct):
    __slots__ = ("partition_index", "current_leader_epoch", "timestamp",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        current_leader_epoch: int = -1,
        timestamp: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.current_leader_epoch = current_leader_epoch
        self.timestamp = timestamp
