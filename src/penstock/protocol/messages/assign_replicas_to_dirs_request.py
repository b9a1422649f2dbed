"""AssignReplicasToDirsRequest. Written by tools/generate_messages.py from the schema; do not edit."""

from __future__ import annotations

from uuid import UUID

from penstock.protocol.message import ABSENT, Message, Struct, ZERO_UUID


class AssignReplicasToDirsRequest(Message):
    """AssignReplicasToDirsRequest, versions 0 to 0."""

    __slots__ = ("broker_id", "broker_epoch", "directories",)

    NAME = "AssignReplicasToDirsRequest"
    KEY = 73
    MIN_VERSION = 0
    MAX_VERSION = 0
    FLEXIBLE_FROM = 0

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        directories: list[DirectoryData] = ABSENT,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.directories = [] if directories is ABSENT else directories


class DirectoryData(Struct):
    __slots__ = ("id", "topics",)

    def __init__(
        self,
        *,
        id: UUID = ZERO_UUID,
        topics: list[TopicData] = ABSENT,
    ) -> None:
        self.id = id
        self.topics = [] if topics is ABSENT else topics


class TopicData(Struct):
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
    __slots__ = ("partition_index",)

    def __init__(
        self,
        *,
        partition_index: int = 0,
    ) -> None:
        self.partition_index = partition_index
