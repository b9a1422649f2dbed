"""DeleteShareGroupStateRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class DeleteShareGroupStateRequest(Message):
    """DeleteShareGroupStateRequest, versions 0 to 0."""

    __slots__ = ("group_id", "topics",)

    NAME = "DeleteShareGroupStateRequest"
    KEY = 86
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        group_id: str = '',
        topics: list[DeleteStateData] = ABSENT,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is ABSENT else topics


class DeleteStateData(Struct):
    __slots__ = ("topic_id", "partitions",)

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: list[PartitionData] = ABSENT,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is ABSENT else partitions


class PartitionData(Struct):
    __slots__ = ("partition",)

    def __init__(
        self,
        *,
        partition: int = 0,
    ) -> None:
        self.partition = partition
