"""DeleteRecordsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from penstock.protocol.message import ABSENT, Message, Records, Struct


class DeleteRecordsRequest(Message):
    """DeleteRecordsRequest, versions 0 to 2."""

    __slots__ = ("topics", "timeout_ms",)

    NAME = "DeleteRecordsRequest"
    KEY = 21
    MIN_VERSION = 0
    MAX_VERSION = 2
    FLEXIBLE_FROM = 2

    def __init__(
        self,
        *,
        topics: list[DeleteRecordsTopic] = ABSENT,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is ABSENT else topics
        self.timeout_ms = timeout_ms


class DeleteRecordsTopic(Struct):
    __slots__ = ("name", "partitions",)

    def __init__(
        self,
        *,
        name: str = '',
        partitions: list[DeleteRecordsPartition] = ABSENT,
    ) -> None:
        self.name = name
        self.partitions = [] if partitions is ABSENT else partitions


class DeleteRecordsPartition(Struct):
    __slots__ = ("partition_index", "offset",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
        offset: int = 0,
    ) -> None:
        self.partition_index = partition_index
        self.offset = offset
